//! Operators of opaque tensors.

use crate::opaque::{MOST_DIMS, holds, holds_dtype, stays_opaque, value, wrap};
use crate::{Tensor, blocks, op};
use corten_core::{DType, Layout, MemoryFormat, Result, ensure, geometry};

/// An opaque tensor of the same elements.
///
/// # Errors
/// `Runtime` for a dtype, a device or a number of dimensions that the layout does not hold.
pub fn to_mkldnn(self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    ensure!(
        self_.device().is_cpu() && self_.layout() == Layout::Strided,
        Runtime,
        "dense_to_mkldnn expects CPU tensor input"
    );
    let dtype = dtype.unwrap_or(self_.dtype());
    ensure!(
        holds_dtype(self_.dtype()) && holds_dtype(dtype),
        Runtime,
        "dense_to_mkldnn expects float, bfloat16, half, uint8, int8 tensor input"
    );
    ensure!(
        self_.dim() <= MOST_DIMS,
        Runtime,
        "Can't convert cpu tensor with the number of dimensions > {MOST_DIMS}"
    );
    ensure!(
        self_.dim() > 0,
        Runtime,
        "to_mkldnn: a tensor without dimensions has no layout torch._mkldnn"
    );
    wrap(op::_to_copy(self_, Some(dtype), None, None, None, false, Some(MemoryFormat::Preserve))?)
}

/// A dense copy; a dense tensor is copied too.
///
/// # Errors
/// Those of copying.
pub fn to_dense(
    self_: &Tensor,
    dtype: Option<DType>,
    _masked_grad: Option<bool>,
) -> Result<Tensor> {
    let value = value(self_)?;
    let from = value.as_ref().unwrap_or(self_);
    op::_to_copy(from, dtype, None, None, None, false, Some(MemoryFormat::Preserve))
}

/// The same elements in another shape, as a tensor of its own.
///
/// # Errors
/// `Runtime` when the numbers of elements differ.
pub fn reshape(self_: &Tensor, shape: &[i64]) -> Result<Tensor> {
    of_its_own(self_, |value| op::reshape(value, shape))
}

/// Two dimensions exchanged, as a tensor of its own.
///
/// # Errors
/// `Index` when a dimension is out of range.
pub fn transpose(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let rank = self_.dim();
    let exchanges = geometry::wrap_dim(dim0, rank)? != geometry::wrap_dim(dim1, rank)?;
    if exchanges && let Some(transposed) = blocks::transposed(self_)? {
        return Ok(transposed);
    }
    of_its_own(self_, |value| op::transpose_int(value, dim0, dim1))
}

/// The transpose of a matrix, as a tensor of its own.
///
/// # Errors
/// `Runtime` for more than two dimensions.
pub fn t(self_: &Tensor) -> Result<Tensor> {
    if let Some(transposed) = blocks::transposed(self_)? {
        return Ok(transposed);
    }
    of_its_own(self_, op::t)
}

/// A view of the value as a tensor of its own, of the layout of the given one.
fn of_its_own(self_: &Tensor, view: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let value = value(self_)?;
    let copy = op::clone(&view(value.as_ref().unwrap_or(self_))?, Some(MemoryFormat::Contiguous))?;
    if !stays_opaque(self_) || !holds(copy.dtype(), copy.dim()) {
        return Ok(copy);
    }
    wrap(copy)
}
