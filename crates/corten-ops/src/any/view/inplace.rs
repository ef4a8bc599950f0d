//! Views that change the tensor's own geometry.

use super::shape::{check_matrix, dim_mask, squeezed, transposed, unsqueezed};
use super::strided::check_strided;
use crate::Tensor;
use corten_core::{Dims, Result};

fn set(self_: &Tensor, (sizes, strides): (Dims, Dims)) -> Result<Tensor> {
    self_.set_geometry(&sizes, &strides, self_.storage_offset())?;
    Ok(self_.clone())
}

/// Exchanges two dimensions.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn transpose_(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    set(self_, transposed(self_, dim0, dim1)?)
}

/// Transposes a matrix.
///
/// # Errors
/// `Runtime` above rank 2.
pub fn t_(self_: &Tensor) -> Result<Tensor> {
    check_matrix("t_()", self_)?;
    if self_.dim() < 2 { Ok(self_.clone()) } else { transpose_(self_, 0, 1) }
}

/// Inserts a dimension of size 1.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn unsqueeze_(self_: &Tensor, dim: i64) -> Result<Tensor> {
    set(self_, unsqueezed(self_, dim)?)
}

/// Drops all dimensions of size 1.
///
/// # Errors
/// `Internal` only.
pub fn squeeze_(self_: &Tensor) -> Result<Tensor> {
    set(self_, squeezed(self_, |_| true))
}

/// Drops one dimension if it has size 1.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn squeeze_dim_(self_: &Tensor, dim: i64) -> Result<Tensor> {
    squeeze_dims_(self_, &[dim])
}

/// Drops the given dimensions where they have size 1.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for one given twice.
pub fn squeeze_dims_(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mask = dim_mask(dims, self_.dim())?;
    set(self_, squeezed(self_, |dim| mask & (1 << dim) != 0))
}

/// Takes these sizes and strides, from `storage_offset` or the own offset.
///
/// # Errors
/// `Runtime` when they reach beyond the storage.
pub fn as_strided_(
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let offset = storage_offset.unwrap_or_else(|| self_.storage_offset());
    check_strided(self_, size, stride, offset)?;
    self_.set_sizes_and_strides(size, stride, offset)?;
    Ok(self_.clone())
}

/// Takes the tensor out of the graph that made it; without a graph there is nothing to do.
///
/// # Errors
/// None.
pub fn detach_(self_: &Tensor) -> Result<Tensor> {
    Ok(self_.clone())
}
