//! Tensors in the formats of the crate `serde`: dtype, shape, and the elements as bytes.

use crate::{Tensor, op};
use corten_core::{DType, Device, Error, Result, Storage, ensure, err, geometry};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// What is written of a tensor. Elements are in row-major order, little-endian.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Tensor")]
struct Written<'a> {
    dtype: Cow<'a, str>,
    shape: Vec<i64>,
    data: Bytes,
}

/// Wherever the tensor is, its elements are written; what records its history is not.
impl Serialize for Tensor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = to_written(self).map_err(serde::ser::Error::custom)?;
        written.serialize(serializer)
    }
}

/// A contiguous tensor on the CPU that requires no gradient.
impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        from_written(written).map_err(serde::de::Error::custom)
    }
}

fn to_written(tensor: &Tensor) -> Result<Written<'static>> {
    ensure!(tensor.defined(), Runtime, "the undefined tensor is not written");
    let dtype = tensor.dtype();
    let dense = op::resolve_neg(&op::resolve_conj(&op::detach(tensor)?)?)?;
    let dense = op::to_device(&dense, Device::CPU, dtype, false, false, None)?;
    let bytes = op::view_dtype(&op::flatten_using_ints(&dense, 0, -1)?, DType::UInt8)?.to_vec()?;
    let data = Bytes(little_endian(bytes, dtype));
    Ok(Written { dtype: dtype.name().into(), shape: tensor.sizes().to_vec(), data })
}

fn from_written(written: Written<'_>) -> Result<Tensor> {
    let Written { dtype, shape, data } = written;
    let dtype = DType::from_name(&dtype).ok_or_else(|| err!(Type, "no dtype: {dtype:.40}"))?;
    let count =
        shape.iter().try_fold(1i64, |count, &size| count.checked_mul(size).filter(|_| size >= 0));
    let nbytes = count.and_then(|count| count.checked_mul(dtype.itemsize() as i64));
    ensure!(
        nbytes.is_some_and(|nbytes| usize::try_from(nbytes) == Ok(data.0.len())),
        Runtime,
        "{} bytes are not a tensor of {dtype} of the shape {shape:?}",
        data.0.len()
    );
    let mut bytes = little_endian(data.0, dtype);
    if dtype == DType::Bool {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    let strides = geometry::contiguous_strides(&shape)?;
    Tensor::from_storage(aligned(&bytes)?, dtype, &shape, &strides, 0)
}

/// A storage that begins where elements of every dtype may.
fn aligned(bytes: &[u8]) -> Result<Storage> {
    let storage = Storage::new(bytes.len(), Device::CPU)?;
    storage.write_bytes(0, bytes)?;
    Ok(storage)
}

/// Bytes of this machine's order as little-endian ones, and back.
fn little_endian(mut bytes: Vec<u8>, dtype: DType) -> Vec<u8> {
    let width = if dtype.is_complex() { dtype.itemsize() / 2 } else { dtype.itemsize() };
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    bytes
}

/// Bytes, as bytes where the format has them and as a list of numbers where it has not.
struct Bytes(Vec<u8>);

/// What a format says of a length is believed up to this many bytes.
const BELIEVED: usize = 1 << 20;

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a tensor")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
        Ok(Bytes(bytes.to_vec()))
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
        Ok(Bytes(bytes))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bytes, A::Error> {
        // Bounded: what is believed.
        let mut bytes = Vec::with_capacity(list.size_hint().unwrap_or(0).min(BELIEVED));
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(Bytes(bytes))
    }
}
