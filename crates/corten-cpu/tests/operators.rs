//! Elementwise operators and reductions against the results of PyTorch.
//!
//! `tests/goldens/make/cpu_operators.py` writes the file: a pool of tensors, then calls. All
//! numbers are little-endian. A tensor is its dtype's number and rank (bytes), sizes and strides
//! (i64), offset (i64), and the bytes of its storage behind their count (u32). A call is the
//! allowed relative error (f64, negative for the dtype's), the operator's name behind its length
//! (u16), the arguments (tagged), and the results: their count and, for each, dtype, rank, sizes
//! and contiguous bytes; or 255 and PyTorch's message.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use corten_core::{Access, AccessSet, Complex, DType, Result, TensorOptions, cast, match_dtype};
use corten_ops::{IValue, Stack, Tensor, registry};

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head
    }
    fn u8(&mut self) -> u8 {
        self.bytes(1)[0]
    }
    fn u16(&mut self) -> usize {
        u16::from_le_bytes(self.bytes(2).try_into().unwrap()).into()
    }
    fn u32(&mut self) -> usize {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap()) as usize
    }
    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }
    fn f64(&mut self) -> f64 {
        f64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }
    fn text(&mut self) -> &'a str {
        let n = self.u16();
        std::str::from_utf8(self.bytes(n)).unwrap()
    }
    fn dtype(&mut self) -> DType {
        DType::from_number(self.u8().into()).unwrap()
    }
    fn ints(&mut self, n: usize) -> Vec<i64> {
        (0..n).map(|_| self.i64()).collect()
    }

    fn tensor(&mut self) -> Tensor {
        let (dtype, rank) = (self.dtype(), self.u8() as usize);
        let (sizes, strides) = (self.ints(rank), self.ints(rank));
        let (offset, n) = (self.i64(), self.u32());
        let whole = filled(dtype, &[(n / dtype.itemsize()) as i64], self.bytes(n));
        whole.as_view_of(&sizes, &strides, offset).unwrap().into()
    }

    fn argument(&mut self, pool: &[Tensor]) -> IValue {
        match self.u8() {
            0 => IValue::None,
            1 => IValue::Tensor(pool[self.u16()].clone()),
            2 => IValue::Int(self.i64()),
            3 => IValue::Double(self.f64()),
            4 => IValue::Bool(self.u8() != 0),
            5 => IValue::String(self.text().into()),
            6 => {
                let n = self.u8() as usize;
                IValue::IntList(self.ints(n).into())
            }
            7 => IValue::DType(self.dtype()),
            _ => IValue::ComplexDouble(Complex::new(self.f64(), self.f64())),
        }
    }
}

fn filled(dtype: DType, sizes: &[i64], bytes: &[u8]) -> Tensor {
    let options = TensorOptions::default().dtype(dtype);
    let tensor: Tensor = corten_core::TensorBase::empty(sizes, options).unwrap().into();
    if !bytes.is_empty() {
        // SAFETY: the tensor is fresh and has as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), tensor.data_ptr(), bytes.len()) };
    }
    tensor
}

/// The elements in logical order, as complex numbers in double precision.
fn elements(tensor: &Tensor) -> Vec<Complex<f64>> {
    let tensor = tensor.contiguous().unwrap();
    let set = AccessSet::acquire(&[(tensor.base(), Access::Read)]).unwrap();
    let read = || -> Result<Vec<Complex<f64>>> {
        match_dtype!(tensor.dtype(), "elements", All, T => {
            Ok(set.read::<T>(0)?.iter().map(|&x| cast::<T, Complex<f64>>(x)).collect())
        })
    };
    read().unwrap()
}

fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::Float16 => (2e-3, 1e-5),
        DType::BFloat16 => (1.6e-2, 1e-5),
        DType::Float32 => (2e-6, 2e-7),
        DType::Complex64 => (4e-6, 4e-7),
        DType::Float64 | DType::Complex128 => (1e-12, 1e-14),
        _ => (0.0, 0.0),
    }
}

fn close(got: f64, want: f64, (relative, absolute): (f64, f64)) -> bool {
    (got.is_nan() && want.is_nan())
        || got == want
        || (got - want).abs() <= absolute + relative * want.abs()
}

/// Compares one result; returns what differs.
fn compare(got: &Tensor, want: &Tensor, given: f64) -> Option<String> {
    if got.dtype() != want.dtype() || got.sizes() != want.sizes() {
        let (sizes, expected) = (got.sizes(), want.sizes());
        return Some(format!(
            "{} {sizes:?} instead of {} {expected:?}",
            got.dtype().name(),
            want.dtype().name()
        ));
    }
    let allowed = if given >= 0.0 { (given, 0.0) } else { tolerance(got.dtype()) };
    let pairs = elements(got).into_iter().zip(elements(want));
    let mut wrong = pairs.enumerate().filter(|(_, (g, w))| {
        // A complex number is compared as a whole, and an infinite one as "infinite".
        let finite = g.re.is_finite() && g.im.is_finite() && w.re.is_finite() && w.im.is_finite();
        let allowed = match got.dtype().is_complex() && finite {
            true => (allowed.0, allowed.1 + allowed.0 * w.norm()),
            false => allowed,
        };
        let odd = |z: &Complex<f64>| !(z.re.is_finite() && z.im.is_finite());
        let both_odd = got.dtype().is_complex() && odd(g) && odd(w);
        !(both_odd || (close(g.re, w.re, allowed) && close(g.im, w.im, allowed)))
    });
    let (i, (g, w)) = wrong.next()?;
    Some(format!("element {i}: {g} instead of {w} (and {} more)", wrong.count()))
}

fn check(reader: &mut Reader<'_>, pool: &[Tensor]) -> Option<String> {
    let (allowed, name) = (reader.f64(), reader.text());
    let count = reader.u8();
    let arguments: Vec<IValue> = (0..count).map(|_| reader.argument(pool)).collect();
    let shown = || -> String {
        let show = |value: &IValue| match value {
            IValue::Tensor(t) => format!("{}{:?}", t.dtype().name(), t.sizes().as_slice()),
            IValue::Int(i) => i.to_string(),
            IValue::Double(x) => x.to_string(),
            other => other.tag().to_owned(),
        };
        format!("{name}({})", arguments.iter().map(show).collect::<Vec<_>>().join(", "))
    };
    let mut stack = Stack::new();
    arguments.iter().for_each(|argument| stack.push(argument.clone()));
    let outcome = match registry::find(name) {
        Some(op) => op.call_boxed(&mut stack),
        None => Err(corten_core::err!(Runtime, "there is no {name}")),
    };
    let results = reader.u8();
    if results == 255 {
        let message = reader.text();
        return match outcome {
            Err(_) => None,
            Ok(()) => Some(format!("{}: no error; expected {message}", shown())),
        };
    }
    let mut wants = Vec::new();
    for _ in 0..results {
        let (dtype, rank) = (reader.dtype(), reader.u8() as usize);
        let sizes = reader.ints(rank);
        let n = reader.u32();
        wants.push(filled(dtype, &sizes, reader.bytes(n)));
    }
    if let Err(error) = outcome {
        return Some(format!("{}: {}", shown(), error.message()));
    }
    for (i, want) in wants.iter().enumerate() {
        let got: &Tensor = stack[i].get().unwrap();
        if let Some(difference) = compare(got, want, allowed) {
            return Some(format!("{} result {i}: {difference}", shown()));
        }
    }
    None
}

#[test]
fn operators_agree_with_torch() {
    corten_ops::init();
    corten_cpu::init().unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/cpu_operators.bin");
    let file = std::fs::read(path).unwrap();
    let mut reader = Reader(&file);
    assert_eq!(reader.bytes(4), b"CGLD");
    let (tensors, calls) = (reader.u32(), reader.u32());
    let pool: Vec<Tensor> = (0..tensors).map(|_| reader.tensor()).collect();
    let failures: Vec<String> = (0..calls).filter_map(|_| check(&mut reader, &pool)).collect();
    assert!(failures.is_empty(), "{} of {calls}:\n{}", failures.len(), failures.join("\n"));
}
