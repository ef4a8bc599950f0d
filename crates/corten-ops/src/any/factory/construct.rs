//! Tensors from data of the program.

use super::options;
use crate::iter::write_elements;
use crate::{Tensor, op};
use corten_core::KeySet;
use corten_core::{
    DType, Device, Element, Layout, Result, Scalar, Storage, TensorBase, default_complex_dtype,
    default_dtype, ensure, geometry, match_dtype, promote_types,
};

/// A tensor over the elements of a vector, row-major, without a copy.
///
/// # Errors
/// `Runtime` when the shape does not have as many elements as the vector.
pub fn from_vec<T: Element>(elements: Vec<T>, sizes: &[i64]) -> Result<Tensor> {
    let numel = geometry::checked_numel(sizes)?;
    ensure!(
        sizes.iter().all(|&size| size >= 0) && numel == elements.len() as i64,
        Runtime,
        "shape '{sizes:?}' is invalid for input of size {}",
        elements.len()
    );
    let strides = geometry::contiguous_strides(sizes)?;
    let keys = KeySet::for_tensor(Device::CPU.device_type, Layout::Strided, T::DTYPE);
    let storage = Storage::from_vec(elements);
    Ok(TensorBase::new_with_storage(storage, T::DTYPE, keys, sizes, &strides, 0)?.into())
}

/// The dtype of a tensor made of numbers: the highest category among them, and the default dtype
/// of that category.
pub fn infer_dtype(values: &[Scalar]) -> DType {
    let natural = |value: &Scalar| match value {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) | Scalar::UInt(_) => DType::Int64,
        Scalar::Float(_) => default_dtype(),
        Scalar::Complex(_) => default_complex_dtype(),
    };
    let highest = |a, b| promote_types(a, b).unwrap_or(a);
    values.iter().map(natural).reduce(highest).unwrap_or_else(default_dtype)
}

/// A tensor of the given shape with these numbers, row-major; the dtype follows from them unless
/// given.
///
/// # Errors
/// `Runtime` when the shape does not fit or a number does not fit the dtype.
pub fn from_scalars(
    values: &[Scalar],
    sizes: &[i64],
    dtype: Option<DType>,
    device: Option<Device>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(|| infer_dtype(values));
    ensure!(
        geometry::checked_numel(sizes)? == values.len() as i64,
        Runtime,
        "shape '{sizes:?}' is invalid for input of size {}",
        values.len()
    );
    let host: Tensor = TensorBase::empty(sizes, options(Some(dtype), None, None, None))?.into();
    match_dtype!(dtype, "tensor", All, T => {
        write_elements(&host, values.iter().map(|value| value.checked_to::<T>("tensor")))
    })?;
    match device {
        Some(device) if !device.is_cpu() => {
            op::to_dtype_layout(&host, None, None, Some(device), None, false, false, None)
        }
        _ => Ok(host),
    }
}
