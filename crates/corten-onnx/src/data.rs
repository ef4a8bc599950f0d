//! Elements of tensors, and the numbers of their types.

use corten_core::{DType, Device, Result, Storage, bail, ensure, err, geometry};
use corten_ops::{Tensor, op};

/// Element types with their numbers in files.
const TYPES: [(DType, i32); 20] = [
    (DType::Float32, 1),
    (DType::UInt8, 2),
    (DType::Int8, 3),
    (DType::UInt16, 4),
    (DType::Int16, 5),
    (DType::Int32, 6),
    (DType::Int64, 7),
    (DType::Bool, 9),
    (DType::Float16, 10),
    (DType::Float64, 11),
    (DType::UInt32, 12),
    (DType::UInt64, 13),
    (DType::Complex64, 14),
    (DType::Complex128, 15),
    (DType::BFloat16, 16),
    (DType::Float8E4m3fn, 17),
    (DType::Float8E4m3fnuz, 18),
    (DType::Float8E5m2, 19),
    (DType::Float8E5m2fnuz, 20),
    (DType::Float8E8m0fnu, 24),
];

/// The number of a dtype.
pub(crate) fn element_type(dtype: DType) -> Result<i32> {
    let found = TYPES.iter().find(|(known, _)| *known == dtype);
    found
        .map(|(_, number)| *number)
        .ok_or_else(|| err!(Type, "ONNX has no element type for {}", dtype.name()))
}

/// The dtype of a number.
pub(crate) fn dtype(element_type: i32) -> Result<DType> {
    let found = TYPES.iter().find(|(_, number)| *number == element_type);
    found
        .map(|(dtype, _)| *dtype)
        .ok_or_else(|| err!(Type, "ONNX's element type {element_type} is not supported"))
}

/// The elements of a tensor in row-major order, little-endian, wherever it is.
pub(crate) fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let dense = op::resolve_neg(&op::resolve_conj(&op::detach(tensor)?)?)?;
    let dense = op::to_device(&dense, Device::CPU, dense.dtype(), false, false, None)?;
    op::view_dtype(&op::flatten_using_ints(&dense, 0, -1)?, DType::UInt8)?.to_vec()
}

/// How many bytes a tensor takes in a file.
pub(crate) fn nbytes(tensor: &Tensor) -> usize {
    usize::try_from(tensor.numel()).unwrap_or(0) * tensor.dtype().itemsize()
}

/// A tensor of bytes that are its elements.
pub(crate) fn tensor(bytes: &[u8], dtype: DType, sizes: &[i64]) -> Result<Tensor> {
    let mut count = dtype.itemsize();
    for &size in sizes {
        let size = usize::try_from(size).map_err(|_| err!(Value, "a tensor has the size {size}"))?;
        count = count.checked_mul(size).ok_or_else(|| err!(Value, "a tensor is too large"))?;
    }
    ensure!(
        count == bytes.len(),
        Value,
        "a tensor of shape {sizes:?} has {count} bytes, the file {}",
        bytes.len()
    );
    if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
        bail!(Value, "truth values of a tensor are neither 0 nor 1")
    }
    let storage = Storage::new(bytes.len(), Device::CPU)?;
    storage.write_bytes(0, bytes)?;
    let strides = geometry::contiguous_strides(sizes)?;
    Tensor::from_storage(storage, dtype, sizes, &strides, 0)
}
