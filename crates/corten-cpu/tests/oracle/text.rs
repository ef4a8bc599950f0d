//! Values as the goldens write them.

use corten_core::{
    Complex, DType, Element, MemoryFormat, Result, Scalar, TensorBase, Writer, match_dtype,
};
use corten_ops::{IValue, Tensor, op};

/// What every storage of `count` elements holds.
fn storage_values<T: Element>(count: i64) -> Vec<T> {
    let value = |i: i64| {
        let n = (i * 7 + 3) % 23 - 5;
        match T::DTYPE {
            DType::Bool => T::from_scalar(Scalar::Bool(n % 3 == 0)),
            DType::UInt8 => T::from_scalar(Scalar::Int(n + 5)),
            dtype if dtype.is_complex() => {
                T::from_scalar(Scalar::Complex(Complex::new(n as f64, n as f64 + 1.0)))
            }
            _ => T::from_scalar(Scalar::Int(n)),
        }
    };
    (0..count).map(value).collect()
}

/// Reads the values of a call.
pub(crate) struct Reader<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text.split_whitespace())
    }

    pub(crate) fn word(&mut self) -> &'a str {
        self.0.next().unwrap()
    }

    /// The words that are left.
    pub(crate) fn words(self) -> std::str::SplitWhitespace<'a> {
        self.0
    }

    /// All values up to the end or a closing parenthesis.
    pub(crate) fn values(&mut self) -> Vec<IValue> {
        let mut values = Vec::new();
        while let Some(word) = self.0.next() {
            match word {
                ")" => break,
                "(" => values.push(IValue::Tuple(self.values())),
                _ => values.push(value(word)),
            }
        }
        values
    }
}

pub(crate) fn value(word: &str) -> IValue {
    let (kind, rest) = word.split_at(1);
    match kind {
        "n" => IValue::None,
        "i" => IValue::Int(rest.parse().unwrap()),
        "f" => IValue::Double(float(rest)),
        "b" => IValue::Bool(rest == "1"),
        "c" => IValue::ComplexDouble(complex(rest)),
        "s" => IValue::from(rest),
        "d" => IValue::DType(dtype(rest)),
        "m" => IValue::MemoryFormat(match rest {
            "0" => MemoryFormat::Contiguous,
            "1" => MemoryFormat::Preserve,
            "2" => MemoryFormat::ChannelsLast,
            _ => MemoryFormat::ChannelsLast3d,
        }),
        "I" => IValue::from(ints(rest)),
        "B" => IValue::BoolList(ints(rest).into_iter().map(|bit| bit == 1).collect()),
        "t" => IValue::Tensor(patterned(rest)),
        "v" => IValue::Tensor(valued(rest)),
        other => panic!("unknown value {other} in {word}"),
    }
}

fn float(text: &str) -> f64 {
    text.parse().unwrap()
}

fn complex(text: &str) -> Complex<f64> {
    let (re, im) = text.split_once('_').unwrap();
    Complex::new(float(re), float(im))
}

fn ints(text: &str) -> Vec<i64> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect()
}

fn dtype(number: &str) -> DType {
    let number: u16 = number.parse().unwrap();
    let all = [
        DType::UInt8,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::Float16,
        DType::Float32,
        DType::Float64,
        DType::Complex32,
        DType::Complex64,
        DType::Complex128,
        DType::Bool,
        DType::BFloat16,
    ];
    all.into_iter().find(|dtype| *dtype as u16 == number).unwrap()
}

/// `6[2,3][3,1]+0`: a tensor over a storage with the pattern.
fn patterned(text: &str) -> Tensor {
    let number = text.split('[').next().unwrap();
    // Empty lists leave nothing between the brackets.
    let lists: Vec<Vec<i64>> =
        text.split('[').skip(1).map(|p| ints(p.split(']').next().unwrap())).collect();
    let (sizes, strides) = (&lists[0], &lists[1]);
    let offset: i64 = text.rsplit('+').next().unwrap().parse().unwrap();
    let last: i64 = if sizes.contains(&0) {
        -1
    } else {
        sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum()
    };
    let count = offset + last + 1;
    with_values(dtype(number), count)
        .and_then(|flat| flat.as_view_of(sizes, strides, offset))
        .map(Tensor::from)
        .unwrap()
}

fn with_values(dtype: DType, count: i64) -> Result<Tensor> {
    let tensor = zeros(&[count], dtype)?;
    match_dtype!(dtype, "test", All, T => {
        Writer::<T>::new(&tensor)?.copy_from_slice(&storage_values::<T>(count));
        Ok(tensor)
    })
}

fn zeros(sizes: &[i64], dtype: DType) -> Result<Tensor> {
    op::zeros(sizes, Some(dtype), None, None, None)
}

/// `4[2]=0,1`: a tensor with its own values.
fn valued(text: &str) -> Tensor {
    let (head, list) = text.split_once('=').unwrap();
    let (number, sizes) = head.trim_end_matches(']').split_once('[').unwrap();
    let dtype = dtype(number);
    let tensor = zeros(&ints(sizes), dtype).unwrap();
    fill(&tensor, list).unwrap();
    tensor
}

fn fill(tensor: &TensorBase, list: &str) -> Result<()> {
    let dtype = tensor.dtype();
    match_dtype!(dtype, "test", All, T => {
        let mut writer = Writer::<T>::new(tensor)?;
        let elements = list.split(',').filter(|part| !part.is_empty());
        for (place, element) in writer.iter_mut().zip(elements) {
            *place = T::from_scalar(scalar(dtype, element));
        }
        Ok(())
    })
}

fn scalar(dtype: DType, text: &str) -> Scalar {
    if dtype.is_complex() {
        Scalar::Complex(complex(text))
    } else if dtype.is_floating_point() {
        Scalar::Float(float(text))
    } else {
        Scalar::Int(text.parse().unwrap())
    }
}

/// A result as the goldens write it, but for the form of floating-point numbers.
pub(crate) fn write(value: &IValue, first: Option<usize>) -> String {
    match value {
        IValue::None => "n".to_owned(),
        IValue::Tensor(tensor) => write_tensor(tensor, first),
        IValue::TensorList(list) => {
            let items: Vec<String> = list.iter().map(|t| write_tensor(t, first)).collect();
            format!("( {} )", items.join(" "))
        }
        IValue::Int(number) => format!("i{number}"),
        IValue::Bool(truth) => format!("b{}", u8::from(*truth)),
        IValue::Double(number) => format!("f{number:?}"),
        IValue::ComplexDouble(number) => format!("c{:?}_{:?}", number.re, number.im),
        other => format!("?{}", other.tag()),
    }
}

/// Where a tensor's storage lies; 0 when it is empty.
pub(crate) fn storage_address(tensor: &Tensor) -> usize {
    let storage = tensor.storage().unwrap();
    if storage.nbytes() == 0 { 0 } else { storage.data_ptr().addr() }
}

/// An error as the goldens write it.
pub(crate) fn failure(error: &corten_core::Error) -> String {
    format!("!{:?} {}", error.kind(), error.message().replace('\n', "\\n"))
}

fn write_tensor(tensor: &Tensor, first: Option<usize>) -> String {
    if !tensor.defined() {
        return "undefined".to_owned();
    }
    let address = storage_address(tensor);
    let shared = address != 0 && first == Some(address);
    let list = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    format!(
        "{}t{}[{}][{}]+{}:{}",
        if shared { "a" } else { "" },
        tensor.dtype() as u16,
        list(&tensor.sizes()),
        list(&tensor.strides()),
        tensor.storage_offset(),
        elements(tensor).join(",")
    )
}

fn elements(tensor: &Tensor) -> Vec<String> {
    read(tensor).unwrap_or_else(|error| vec![format!("<{error}>")])
}

fn read(tensor: &Tensor) -> Result<Vec<String>> {
    Ok(match tensor.dtype() {
        DType::Bool => tensor.to_vec::<bool>()?.iter().map(|v| u8::from(*v).to_string()).collect(),
        dtype if dtype.is_complex() => {
            let show = |v: &Complex<f64>| format!("{:?}_{:?}", v.re, v.im);
            tensor.to_vec::<Complex<f64>>()?.iter().map(show).collect()
        }
        dtype if dtype.is_floating_point() => {
            tensor.to_vec::<f64>()?.iter().map(|v| format!("{v:?}")).collect()
        }
        _ => tensor.to_vec::<i64>()?.iter().map(i64::to_string).collect(),
    })
}

/// Whether two results are the same, numbers compared as numbers.
pub(crate) fn same(found: &str, expected: &str) -> bool {
    if found == expected {
        return true;
    }
    if found.starts_with('!') || expected.starts_with('!') {
        return false;
    }
    let split = |text: &str| -> Vec<String> {
        text.split([' ', ',', ':', '_']).map(str::to_owned).collect()
    };
    let (found, expected) = (split(found), split(expected));
    let equal = |(a, b): (&String, &String)| {
        a == b
            || match (number(a), number(b)) {
                (Some(a), Some(b)) => {
                    (a.is_nan() && b.is_nan())
                        || (a == b && a.is_sign_negative() == b.is_sign_negative())
                }
                _ => false,
            }
    };
    found.len() == expected.len() && found.iter().zip(&expected).all(equal)
}

fn number(text: &str) -> Option<f64> {
    text.trim_start_matches(['f', 'c']).parse().ok()
}
