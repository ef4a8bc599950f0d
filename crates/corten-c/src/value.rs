//! Tagged values: arguments and results of calls.

use crate::random::CortenGenerator;
use crate::status::without_nul;
use crate::tensor::{
    CortenDevice, CortenTensor, device_from, device_to, dtype_from, give, take, tensor_at,
};
use corten::core::{Complex, bail};
use corten::ops::IValue;
use corten::{Generator, Layout, MemoryFormat, Result, Scalar, Tensor};
use std::ffi::{CStr, CString, c_char};
use std::ptr;

/// What a `CortenValue` holds.
pub type CortenTag = u32;

/// Nothing: an optional argument that is absent.
pub const CORTEN_NONE: CortenTag = 0;
/// `u.tensor`; null for an undefined one.
pub const CORTEN_TENSOR: CortenTag = 1;
/// `u.integer`.
pub const CORTEN_INT: CortenTag = 2;
/// `u.number`.
pub const CORTEN_DOUBLE: CortenTag = 3;
/// `u.boolean`.
pub const CORTEN_BOOL: CortenTag = 4;
/// `u.complex`: real and imaginary part.
pub const CORTEN_COMPLEX: CortenTag = 5;
/// `u.string`: text in UTF-8 that ends with a zero byte.
pub const CORTEN_STRING: CortenTag = 6;
/// `u.integers`, `length` of them.
pub const CORTEN_INT_LIST: CortenTag = 7;
/// `u.numbers`, `length` of them.
pub const CORTEN_DOUBLE_LIST: CortenTag = 8;
/// `u.booleans`, `length` of them.
pub const CORTEN_BOOL_LIST: CortenTag = 9;
/// `u.tensors`, `length` of them.
pub const CORTEN_TENSOR_LIST: CortenTag = 10;
/// `u.tensors`, of which some are null.
pub const CORTEN_OPTIONAL_TENSOR_LIST: CortenTag = 11;
/// `u.values`: `length` numbers of any kind.
pub const CORTEN_SCALAR_LIST: CortenTag = 12;
/// `u.device`.
pub const CORTEN_DEVICE: CortenTag = 13;
/// `u.code`: one of the dtypes.
pub const CORTEN_DTYPE: CortenTag = 14;
/// `u.code`: 0 for strided tensors, and PyTorch's numbers for others.
pub const CORTEN_LAYOUT: CortenTag = 15;
/// `u.code`: 0 contiguous, 1 as the input, 2 channels last, 3 channels last in three dimensions.
pub const CORTEN_MEMORY_FORMAT: CortenTag = 16;
/// `u.generator`.
pub const CORTEN_GENERATOR: CortenTag = 17;
/// `u.unsigned_integer`, for numbers above INT64_MAX.
pub const CORTEN_UINT: CortenTag = 18;
/// `u.values`: `length` values of any kind.
pub const CORTEN_TUPLE: CortenTag = 19;
/// `u.object`: a value that C can only pass on.
pub const CORTEN_OBJECT: CortenTag = 20;

/// A value that C can only pass on.
pub struct CortenObject(IValue);

/// The content of a `CortenValue`; its tag says which member counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub union CortenContent {
    /// A tensor.
    pub tensor: *mut CortenTensor,
    /// An integer.
    pub integer: i64,
    /// A large integer.
    pub unsigned_integer: u64,
    /// A number.
    pub number: f64,
    /// A truth value.
    pub boolean: bool,
    /// Real and imaginary part.
    pub complex: [f64; 2],
    /// Text.
    pub string: *const c_char,
    /// Integers.
    pub integers: *const i64,
    /// Numbers.
    pub numbers: *const f64,
    /// Truth values.
    pub booleans: *const bool,
    /// Tensors.
    pub tensors: *const *mut CortenTensor,
    /// Values.
    pub values: *const CortenValue,
    /// A device.
    pub device: CortenDevice,
    /// The number of a dtype, a layout or a memory format.
    pub code: i32,
    /// A generator of random numbers.
    pub generator: *mut CortenGenerator,
    /// A value that C can only pass on.
    pub object: *mut CortenObject,
}

/// An argument or a result. Arguments are borrowed: whoever calls keeps what they point to. Results are the
/// caller's, who gives them back with `corten_values_free`, or takes a tensor out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CortenValue {
    /// What it holds.
    pub tag: CortenTag,
    /// The number of elements of a list, of bytes of a text; else 0.
    pub length: usize,
    /// The content.
    pub u: CortenContent,
}

impl CortenValue {
    /// Absent.
    pub const NONE: Self =
        Self { tag: CORTEN_NONE, length: 0, u: CortenContent { complex: [0.0; 2] } };

    fn new(tag: CortenTag, length: usize, u: CortenContent) -> Self {
        let mut made = Self { tag, length, ..Self::NONE };
        made.u = u;
        made
    }
}

/// The elements of a list of C.
///
/// # Safety
/// `data` must be valid for `length` elements, unless that is 0.
pub(crate) unsafe fn slice_of<'a, T>(data: *const T, length: usize) -> Result<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        bail!(Value, "a list of {length} elements is null");
    }
    // SAFETY: the caller's, and the pointer is not null.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

/// Text of C.
///
/// # Safety
/// `text` must be null or end with a zero byte.
pub(crate) unsafe fn text_of<'a>(what: &str, text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        bail!(Value, "{what} is null");
    }
    // SAFETY: the caller's, and the pointer is not null.
    match unsafe { CStr::from_ptr(text) }.to_str() {
        Ok(text) => Ok(text),
        Err(_) => bail!(Value, "{what} is not UTF-8"),
    }
}

/// The tensors of a list of C, new references.
///
/// # Safety
/// As [`slice_of`], and the handles must be alive.
pub(crate) unsafe fn tensors_of(
    data: *const *mut CortenTensor,
    length: usize,
) -> Result<Vec<Tensor>> {
    // SAFETY: the caller's.
    let handles = unsafe { slice_of(data, length) }?;
    // SAFETY: the caller's.
    handles.iter().map(|handle| unsafe { tensor_at(*handle) }).collect()
}

/// What a value of C holds, which is left as it is.
///
/// # Safety
/// The content must be what the tag says, and alive.
pub(crate) unsafe fn borrowed(value: &CortenValue) -> Result<IValue> {
    let length = value.length;
    // SAFETY: of every union member that is read, the caller vouches that the tag says so.
    unsafe {
        Ok(match value.tag {
            CORTEN_NONE => IValue::None,
            CORTEN_TENSOR if value.u.tensor.is_null() => IValue::Tensor(Tensor::undefined()),
            CORTEN_TENSOR => IValue::Tensor(tensor_at(value.u.tensor)?),
            CORTEN_INT | CORTEN_UINT | CORTEN_DOUBLE | CORTEN_BOOL | CORTEN_COMPLEX => {
                scalar_of(value)?.into()
            }
            CORTEN_STRING => text_of("a text", value.u.string)?.into(),
            CORTEN_INT_LIST => slice_of(value.u.integers, length)?.into(),
            CORTEN_DOUBLE_LIST => slice_of(value.u.numbers, length)?.into(),
            CORTEN_BOOL_LIST => {
                // Read as bytes: C may have stored any.
                let bytes = slice_of(value.u.booleans.cast::<u8>(), length)?;
                IValue::BoolList(bytes.iter().map(|byte| *byte != 0).collect())
            }
            CORTEN_TENSOR_LIST => IValue::TensorList(tensors_of(value.u.tensors, length)?),
            CORTEN_OPTIONAL_TENSOR_LIST => optional_tensors(slice_of(value.u.tensors, length)?)?,
            CORTEN_SCALAR_LIST => {
                let values = slice_of(value.u.values, length)?;
                let numbers: Result<Vec<_>> = values.iter().map(|one| scalar_of(one)).collect();
                IValue::ScalarList(numbers?)
            }
            CORTEN_DEVICE => IValue::Device(device_from(value.u.device)?),
            CORTEN_DTYPE => IValue::DType(dtype_from(value.u.code)?),
            CORTEN_LAYOUT => layout_from(value.u.code)?.into(),
            CORTEN_MEMORY_FORMAT => memory_format_from(value.u.code)?.into(),
            CORTEN_GENERATOR => CortenGenerator::borrowed(value.u.generator)?.into(),
            CORTEN_TUPLE => {
                let values = slice_of(value.u.values, length)?;
                let values: Result<Vec<_>> = values.iter().map(|one| borrowed(one)).collect();
                IValue::Tuple(values?)
            }
            CORTEN_OBJECT if !value.u.object.is_null() => (*value.u.object).0.clone(),
            other => bail!(Type, "a value has the unknown tag {other}"),
        })
    }
}

/// # Safety
/// As [`borrowed`].
unsafe fn scalar_of(value: &CortenValue) -> Result<Scalar> {
    // SAFETY: of every union member that is read, the caller vouches that the tag says so.
    unsafe {
        Ok(match value.tag {
            CORTEN_INT => Scalar::Int(value.u.integer),
            CORTEN_UINT => Scalar::UInt(value.u.unsigned_integer),
            CORTEN_DOUBLE => Scalar::Float(value.u.number),
            // Read as a byte: C may have stored any.
            CORTEN_BOOL => Scalar::Bool((&raw const value.u).cast::<u8>().read() != 0),
            CORTEN_COMPLEX => {
                let [re, im] = value.u.complex;
                Scalar::Complex(Complex::new(re, im))
            }
            other => bail!(Type, "a number expected, but the value has tag {other}"),
        })
    }
}

/// # Safety
/// The handles that are not null must be alive.
unsafe fn optional_tensors(handles: &[*mut CortenTensor]) -> Result<IValue> {
    let tensors: Result<Vec<_>> = handles
        .iter()
        .map(|handle| match handle.is_null() {
            true => Ok(None),
            // SAFETY: the caller's.
            false => unsafe { tensor_at(*handle) }.map(Some),
        })
        .collect();
    Ok(IValue::OptionalTensorList(tensors?))
}

fn layout_from(code: i32) -> Result<Layout> {
    match Layout::ALL.iter().find(|layout| **layout as i32 == code) {
        Some(layout) => Ok(*layout),
        None => bail!(Value, "there is no layout of number {code}"),
    }
}

fn memory_format_from(code: i32) -> Result<MemoryFormat> {
    Ok(match code {
        0 => MemoryFormat::Contiguous,
        1 => MemoryFormat::Preserve,
        2 => MemoryFormat::ChannelsLast,
        3 => MemoryFormat::ChannelsLast3d,
        _ => bail!(Value, "there is no memory format of number {code}"),
    })
}

/// The elements of a list, moved to a block that [`release`] frees.
fn leak<T>(elements: impl IntoIterator<Item = T>) -> (usize, *const T) {
    let elements: Box<[T]> = elements.into_iter().collect();
    let length = elements.len();
    (length, Box::into_raw(elements).cast())
}

/// # Safety
/// The parts must come from [`leak`].
unsafe fn unleak<T>(length: usize, data: *const T) -> Box<[T]> {
    // SAFETY: `leak` made the block from a box of that many elements.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(data.cast_mut(), length)) }
}

fn of_scalar(scalar: Scalar) -> CortenValue {
    match scalar {
        Scalar::Bool(boolean) => CortenValue::new(CORTEN_BOOL, 0, CortenContent { boolean }),
        Scalar::Int(integer) => CortenValue::new(CORTEN_INT, 0, CortenContent { integer }),
        Scalar::UInt(unsigned_integer) => {
            CortenValue::new(CORTEN_UINT, 0, CortenContent { unsigned_integer })
        }
        Scalar::Float(number) => CortenValue::new(CORTEN_DOUBLE, 0, CortenContent { number }),
        Scalar::Complex(value) => {
            CortenValue::new(CORTEN_COMPLEX, 0, CortenContent { complex: [value.re, value.im] })
        }
    }
}

fn of_code(tag: CortenTag, code: i32) -> CortenValue {
    CortenValue::new(tag, 0, CortenContent { code })
}

fn of_tensors(tag: CortenTag, tensors: impl IntoIterator<Item = Tensor>) -> CortenValue {
    let (length, tensors) = leak(tensors.into_iter().map(give));
    CortenValue::new(tag, length, CortenContent { tensors })
}

/// A value for C, which owns it: [`release`] frees it.
pub(crate) fn owned(value: IValue) -> CortenValue {
    match value {
        IValue::None => CortenValue::NONE,
        IValue::Tensor(tensor) => {
            CortenValue::new(CORTEN_TENSOR, 0, CortenContent { tensor: give(tensor) })
        }
        IValue::Double(number) => of_scalar(Scalar::Float(number)),
        IValue::ComplexDouble(number) => of_scalar(Scalar::Complex(number)),
        IValue::Int(number) => of_scalar(Scalar::Int(number)),
        IValue::UInt(number) => of_scalar(Scalar::UInt(number)),
        IValue::Bool(truth) => of_scalar(Scalar::Bool(truth)),
        IValue::String(text) => {
            let text = without_nul(&text);
            let length = text.as_bytes().len();
            CortenValue::new(CORTEN_STRING, length, CortenContent { string: text.into_raw() })
        }
        IValue::IntList(list) => {
            let (length, integers) = leak(list);
            CortenValue::new(CORTEN_INT_LIST, length, CortenContent { integers })
        }
        IValue::DoubleList(list) => {
            let (length, numbers) = leak(list);
            CortenValue::new(CORTEN_DOUBLE_LIST, length, CortenContent { numbers })
        }
        IValue::BoolList(list) => {
            let (length, booleans) = leak(list);
            CortenValue::new(CORTEN_BOOL_LIST, length, CortenContent { booleans })
        }
        IValue::TensorList(list) => of_tensors(CORTEN_TENSOR_LIST, list),
        IValue::OptionalTensorList(list) => {
            let list = list.into_iter().map(Option::unwrap_or_default);
            of_tensors(CORTEN_OPTIONAL_TENSOR_LIST, list)
        }
        IValue::ScalarList(list) => {
            let (length, values) = leak(list.into_iter().map(of_scalar));
            CortenValue::new(CORTEN_SCALAR_LIST, length, CortenContent { values })
        }
        IValue::Tuple(list) => {
            let (length, values) = leak(list.into_iter().map(owned));
            CortenValue::new(CORTEN_TUPLE, length, CortenContent { values })
        }
        IValue::Device(device) => {
            let device = device_to(device);
            CortenValue::new(CORTEN_DEVICE, 0, CortenContent { device })
        }
        IValue::DType(dtype) => of_code(CORTEN_DTYPE, dtype as i32),
        IValue::Layout(layout) => of_code(CORTEN_LAYOUT, layout as i32),
        IValue::MemoryFormat(format) => of_code(CORTEN_MEMORY_FORMAT, format as i32),
        IValue::Generator(generator) => of_generator(generator),
        other => {
            let object = Box::into_raw(Box::new(CortenObject(other)));
            CortenValue::new(CORTEN_OBJECT, 0, CortenContent { object })
        }
    }
}

fn of_generator(generator: Generator) -> CortenValue {
    let generator = CortenGenerator::give(generator);
    CortenValue::new(CORTEN_GENERATOR, 0, CortenContent { generator })
}

/// Frees what a value owns and makes it absent.
///
/// # Safety
/// The value must come from [`owned`], or be a tensor whose reference is given up.
pub(crate) unsafe fn release(value: &mut CortenValue) {
    let CortenValue { tag, length, u } = std::mem::replace(value, CortenValue::NONE);
    // SAFETY: `owned` made the content of each tag as it is taken apart here.
    unsafe {
        match tag {
            CORTEN_TENSOR => drop(take(u.tensor)),
            CORTEN_STRING if !u.string.is_null() => {
                drop(CString::from_raw(u.string.cast_mut()));
            }
            CORTEN_INT_LIST => drop(unleak(length, u.integers)),
            CORTEN_DOUBLE_LIST => drop(unleak(length, u.numbers)),
            CORTEN_BOOL_LIST => drop(unleak(length, u.booleans)),
            CORTEN_TENSOR_LIST | CORTEN_OPTIONAL_TENSOR_LIST => {
                unleak(length, u.tensors).iter().for_each(|handle| drop(take(*handle)));
            }
            CORTEN_SCALAR_LIST | CORTEN_TUPLE => {
                unleak(length, u.values).iter_mut().for_each(|one| release(one));
            }
            CORTEN_GENERATOR => CortenGenerator::drop_given(u.generator),
            CORTEN_OBJECT if !u.object.is_null() => drop(Box::from_raw(u.object)),
            _ => {}
        }
    }
}
