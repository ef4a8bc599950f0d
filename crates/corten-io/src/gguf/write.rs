//! Writing files.

use super::{ELEMENT_TYPES, ElementType, MAGIC, Opened, VERSION, alignment_of};
use crate::atomic::{self, io_error};
use crate::value::Value;
use corten_core::{DType, Result, bail, ensure};
use corten_ops::{Tensor, blocks, op};
use std::io::Write;
use std::path::Path;

/// Writes metadata and tensors of plain dtypes or block-quantised. The file appears when it is complete.
///
/// # Errors
/// `Type` for a dtype or a value that the format lacks, `Runtime` where the file cannot be written.
pub fn save(
    path: impl AsRef<Path>,
    metadata: &[(String, Value)],
    tensors: &[(String, Tensor)],
) -> Result<()> {
    let path = path.as_ref();
    atomic::write(path, |file| {
        write(metadata, tensors, |bytes| {
            file.write_all(bytes).map_err(|error| io_error(path, &error))
        })
    })
}

/// Gives the bytes of a file to a function, piece by piece.
///
/// # Errors
/// As [`save`], and those of the function.
pub fn write(
    metadata: &[(String, Value)],
    tensors: &[(String, Tensor)],
    put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    write_like(None, metadata, tensors, put)
}

/// [`write`], after the model of another file: metadata with the values that it has are of the types that they have
/// there, and bytes of the size of a tensor of it are one of that type.
///
/// # Errors
/// As [`write`].
pub fn write_like(
    model: Option<&Opened>,
    metadata: &[(String, Value)],
    tensors: &[(String, Tensor)],
    mut put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend((tensors.len() as u64).to_le_bytes());
    head.extend((metadata.len() as u64).to_le_bytes());
    for (name, value) in metadata {
        write_text(&mut head, name);
        match model.filter(|model| model.get(name).is_some_and(|known| are_same(known, value))) {
            Some(model) => head.extend(model.encoded(name)?),
            None => {
                head.extend(kind_of(value)?.to_le_bytes());
                write_value(&mut head, value)?;
            }
        }
    }
    let alignment = alignment_of(metadata)?;
    write_table(&mut head, model, tensors, alignment)?;
    let pad = |bytes: &mut Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(alignment as usize), 0);
    };
    pad(&mut head);
    put(&head)?;
    tensors.iter().try_for_each(|(_, tensor)| {
        let mut bytes = match blocks::of(tensor) {
            Some(rows) => crate::bytes::of(rows.bytes())?,
            None => crate::bytes::of(&op::to_dense(tensor, None, None)?)?,
        };
        pad(&mut bytes);
        put(&bytes)
    })
}

/// Whether two entries of metadata are equal.
fn are_same(known: &Value, value: &Value) -> bool {
    match (known, value) {
        (Value::Bool(known), Value::Bool(value)) => known == value,
        (Value::Int(known), Value::Int(value)) => known == value,
        (Value::Float(known), Value::Float(value)) => known.to_bits() == value.to_bits(),
        (Value::Text(known), Value::Text(value)) => known == value,
        (Value::List(known), Value::List(value) | Value::Tuple(value)) => {
            let all = || known.iter().zip(value).all(|(known, value)| are_same(known, value));
            known.len() == value.len() && all()
        }
        _ => false,
    }
}

fn write_table(
    head: &mut Vec<u8>,
    model: Option<&Opened>,
    tensors: &[(String, Tensor)],
    alignment: u64,
) -> Result<()> {
    let mut offset = 0_u64;
    for (name, tensor) in tensors {
        let (element_type, sizes) = typed(model, name, tensor)?;
        write_text(head, name);
        head.extend((sizes.len() as u32).to_le_bytes());
        sizes.iter().rev().for_each(|size| head.extend(size.to_le_bytes()));
        head.extend(element_type.number.to_le_bytes());
        head.extend(offset.to_le_bytes());
        let blocks = sizes.iter().product::<i64>() as u64 / element_type.block;
        offset += (blocks * element_type.nbytes).next_multiple_of(alignment);
    }
    Ok(())
}

/// The element type and the shape of a tensor in files.
fn typed(model: Option<&Opened>, name: &str, tensor: &Tensor) -> Result<(ElementType, Vec<i64>)> {
    let dtype = tensor.dtype();
    let number = blocks::of(tensor).map(|rows| rows.format() as u32);
    let own = ELEMENT_TYPES.iter().find(|known| match number {
        Some(number) => known.number == number,
        None => known.dtype == Some(dtype),
    });
    if let Some(own) = own {
        return Ok((*own, tensor.sizes().to_vec()));
    }
    let same = model.and_then(|model| model.info(name).ok());
    let same = same.filter(|info| {
        let is_size = tensor.numel() as u64 == info.nbytes() as u64;
        dtype == DType::UInt8 && is_size && info.element_type.dtype.is_none()
    });
    let Some(info) = same else { bail!(Type, "GGUF has no element type for {}", dtype.name()) };
    Ok((info.element_type, info.shape.clone()))
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.bytes());
}

fn kind_of(value: &Value) -> Result<u32> {
    Ok(match value {
        Value::Bool(_) => 7,
        Value::Text(_) => 8,
        Value::List(_) | Value::Tuple(_) => 9,
        // Most keys of the format are of 32 bits.
        Value::Int(value) if u32::try_from(*value).is_ok() => 4,
        Value::Int(_) => 11,
        Value::Float(_) => 6,
        _ => bail!(Type, "GGUF has no type for the metadata {value:?}"),
    })
}

fn write_value(bytes: &mut Vec<u8>, value: &Value) -> Result<()> {
    match value {
        Value::Bool(value) => bytes.push(u8::from(*value)),
        Value::Text(text) => write_text(bytes, text),
        Value::Int(value) => match u32::try_from(*value) {
            Ok(small) => bytes.extend(small.to_le_bytes()),
            Err(_) => bytes.extend(value.to_le_bytes()),
        },
        Value::Float(value) => bytes.extend((*value as f32).to_le_bytes()),
        Value::List(values) | Value::Tuple(values) => write_list(bytes, values)?,
        _ => bail!(Type, "GGUF has no type for the metadata {value:?}"),
    }
    Ok(())
}

/// A list, whose elements are of one type.
fn write_list(bytes: &mut Vec<u8>, values: &[Value]) -> Result<()> {
    let is_int = |value: &Value| matches!(value, Value::Int(_));
    let is_small =
        |value: &Value| matches!(value, Value::Int(value) if i32::try_from(*value).is_ok());
    let kind = match values.first() {
        // Integers of different sizes are all written as the larger.
        Some(_) if values.iter().all(is_small) => 5,
        Some(_) if values.iter().all(is_int) => 11,
        Some(first) => kind_of(first)?,
        None => 8,
    };
    bytes.extend(kind.to_le_bytes());
    bytes.extend((values.len() as u64).to_le_bytes());
    for value in values {
        match value {
            Value::Int(value) if kind == 11 => bytes.extend(value.to_le_bytes()),
            Value::Int(value) if kind == 5 => bytes.extend((*value as i32).to_le_bytes()),
            value => {
                let own = kind_of(value)?;
                ensure!(own == kind, Type, "elements of a list of metadata are of one type");
                write_value(bytes, value)?;
            }
        }
    }
    Ok(())
}
