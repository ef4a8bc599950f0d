//! Values as words of 64 bits, which PyTorch calls `StableIValue`: what stands in a word follows from the type in the
//! schema.
//!
//! | type | word |
//! |---|---|
//! | `Tensor`, `Generator` | a handle, which whoever gets the word owns |
//! | `int`, `float`, `bool` | the number; a truth value is the lowest byte |
//! | `ScalarType`, `Layout`, `MemoryFormat` | PyTorch's number, in the lower half |
//! | `Device` | the type in the upper half, the index in the lower one |
//! | `str` | a handle of a text |
//! | `T?` | 0, or the address of a word on the heap |
//! | `T[]` | a handle of a list of words |

use super::handle::{TensorHandle, give, take};
use super::lists::{List, Text, Word, new_word, take_box, take_list, take_word};
use crate::tensor::{CortenDevice, device_from, dtype_from};
use corten::core::{bail, err};
use corten::ops::IValue;
use corten::ops::schema::{BaseType, Type};
use corten::{Generator, Layout, MemoryFormat, Result};

fn unsupported<T>(from: &str, to: &str, ty: &Type) -> Result<T> {
    bail!(NotImplemented, "Not yet supported conversion from {from} to {to} for schema type: {ty}")
}

/// The word of a value, whose owner is the caller.
pub(super) fn word_of(value: &IValue, ty: &Type) -> Result<Word> {
    match ty {
        Type::Aliased(inner, _) => word_of(value, inner),
        Type::Optional(inner) => match value {
            IValue::None => Ok(0),
            IValue::Tensor(tensor) if !tensor.defined() => Ok(0),
            value => Ok(new_word(word_of(value, inner)?)? as Word),
        },
        Type::List(inner, _) => {
            let made: List = elements(value)?
                .iter()
                .map(|element| word_of(element, inner))
                .collect::<Result<_>>()?;
            Ok(Box::into_raw(Box::new(made)) as Word)
        }
        Type::Base(base) => base_word(value, base, ty),
        Type::Tuple(_) | Type::Generic(..) => unsupported("IValue", "StableIValue", ty),
    }
}

fn base_word(value: &IValue, base: &BaseType, ty: &Type) -> Result<Word> {
    Ok(match (base, value) {
        (BaseType::Tensor, IValue::Tensor(tensor)) => give(tensor.clone()) as Word,
        (BaseType::Int | BaseType::SymInt, value) => value.get::<i64>()?.cast_unsigned(),
        (BaseType::Float, value) => value.get::<f64>()?.to_bits(),
        (BaseType::Bool, value) => Word::from(value.get::<bool>()?),
        (BaseType::ScalarType, IValue::DType(dtype)) => *dtype as Word,
        (BaseType::Layout, IValue::Layout(layout)) => *layout as Word,
        (BaseType::MemoryFormat, IValue::MemoryFormat(format)) => *format as Word,
        (BaseType::Device, IValue::Device(device)) => {
            let index = i32::from(device.index).cast_unsigned();
            (device.device_type as Word) << 32 | Word::from(index)
        }
        (BaseType::Str, IValue::String(text)) => Text::give(text) as Word,
        (BaseType::Generator, IValue::Generator(generator)) => {
            Box::into_raw(Box::new(generator.clone())) as Word
        }
        _ => return unsupported("IValue", "StableIValue", ty),
    })
}

/// The elements of a list, each as a value.
fn elements(value: &IValue) -> Result<Vec<IValue>> {
    Ok(match value {
        IValue::IntList(list) => list.iter().map(|one| IValue::Int(*one)).collect(),
        IValue::DoubleList(list) => list.iter().map(|one| IValue::Double(*one)).collect(),
        IValue::BoolList(list) => list.iter().map(|one| IValue::Bool(*one)).collect(),
        IValue::TensorList(list) => list.iter().map(IValue::from).collect(),
        IValue::OptionalTensorList(list) => list.iter().cloned().map(IValue::from).collect(),
        IValue::Tuple(values) => values.clone(),
        other => bail!(Type, "expected a list, found {}", other.tag()),
    })
}

/// The value of a word, which is the caller's and is used up, after an error too.
///
/// # Safety
/// The word must be one of the type, and is not used afterwards.
pub(super) unsafe fn value_of(word: Word, ty: &Type) -> Result<IValue> {
    match ty {
        // SAFETY: the caller's.
        Type::Aliased(inner, _) => unsafe { value_of(word, inner) },
        Type::Optional(_) if word == 0 => Ok(IValue::None),
        // SAFETY: the caller's: the word of an optional value that is present is the address of one.
        Type::Optional(inner) => unsafe { value_of(take_word(word as *mut Word), inner) },
        // SAFETY: the caller's.
        Type::List(inner, _) => unsafe { list_of(take_list(word as *mut List)?, inner.bare(), ty) },
        // SAFETY: the caller's.
        Type::Base(base) => unsafe { base_value(word, base, ty) },
        Type::Tuple(_) | Type::Generic(..) => unsupported("StableIValue", "IValue", ty),
    }
}

/// # Safety
/// As [`value_of`].
unsafe fn base_value(word: Word, base: &BaseType, ty: &Type) -> Result<IValue> {
    let low = (word as u32).cast_signed();
    Ok(match base {
        // SAFETY: the caller's.
        BaseType::Tensor => unsafe { take(word as TensorHandle) }?.into(),
        BaseType::Int | BaseType::SymInt => word.cast_signed().into(),
        BaseType::Float => f64::from_bits(word).into(),
        BaseType::Bool => (word & 0xFF != 0).into(),
        BaseType::ScalarType => dtype_from(low)?.into(),
        BaseType::Layout => layout_from(low)?.into(),
        BaseType::MemoryFormat => memory_format_from(low)?.into(),
        BaseType::Device => {
            let high = ((word >> 32) as u32).cast_signed();
            device_from(CortenDevice { r#type: high, index: low })?.into()
        }
        BaseType::Str => {
            // SAFETY: the caller's.
            unsafe { take_box(word as *mut Text, "a text") }?.into_string()?.into()
        }
        BaseType::Generator => {
            // SAFETY: the caller's.
            unsafe { take_box(word as *mut Generator, "a generator") }?.into()
        }
        _ => return unsupported("StableIValue", "IValue", ty),
    })
}

pub(super) fn layout_from(number: i32) -> Result<Layout> {
    let found = Layout::ALL.into_iter().find(|layout| *layout as i32 == number);
    found.ok_or_else(|| err!(Value, "there is no layout of number {number}"))
}

pub(super) fn memory_format_from(number: i32) -> Result<MemoryFormat> {
    use MemoryFormat::{ChannelsLast, ChannelsLast3d, Contiguous, Preserve};
    let all = [Contiguous, Preserve, ChannelsLast, ChannelsLast3d];
    let found = all.into_iter().find(|format| *format as i32 == number);
    found.ok_or_else(|| err!(Value, "there is no memory format of number {number}"))
}

/// # Safety
/// The words must be of the element's type, and are not used afterwards.
unsafe fn list_of(words: List, element: &Type, ty: &Type) -> Result<IValue> {
    // All are used up, whichever fails.
    // SAFETY: the caller's.
    let values: Vec<_> = words.into_iter().map(|word| unsafe { value_of(word, element) }).collect();
    let values: Vec<IValue> = values.into_iter().collect::<Result<_>>()?;
    let base = match element.unwrap_optional().unwrap_or(element).bare() {
        Type::Base(base) => base,
        _ => return unsupported("StableIValue", "IValue", ty),
    };
    let is_optional = matches!(element, Type::Optional(_));
    let values = values.iter();
    Ok(match (base, is_optional) {
        (BaseType::Tensor, true) => {
            let tensors = values.map(|value| Ok(value.get::<Option<&_>>()?.cloned()));
            IValue::OptionalTensorList(tensors.collect::<Result<_>>()?)
        }
        (BaseType::Tensor, false) => {
            let tensors = values.map(|value| Ok(value.get::<&corten::Tensor>()?.clone()));
            IValue::TensorList(tensors.collect::<Result<_>>()?)
        }
        (BaseType::Int | BaseType::SymInt, false) => {
            IValue::IntList(values.map(IValue::get).collect::<Result<_>>()?)
        }
        (BaseType::Float, false) => {
            IValue::DoubleList(values.map(IValue::get).collect::<Result<_>>()?)
        }
        (BaseType::Bool, false) => {
            IValue::BoolList(values.map(IValue::get).collect::<Result<_>>()?)
        }
        _ => return unsupported("StableIValue", "IValue", ty),
    })
}
