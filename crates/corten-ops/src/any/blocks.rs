//! Copies of block-quantised tensors and views of their rows.

use super::view::{clamped_range, selected};
use crate::opaque;
use crate::{Tensor, blocks, op};
use corten_core::{DType, MemoryFormat, Result, geometry};

/// The weights of a block-quantised tensor; other opaque tensors have no views.
fn weights_of(tensor: &Tensor, operator: &str) -> Result<Tensor> {
    match opaque::value(tensor)? {
        Some(weights) if !opaque::stays_opaque(tensor) => Ok(weights),
        _ => Err(opaque::no_views(operator)),
    }
}

/// A copy of the blocks; of other opaque tensors, an opaque copy.
///
/// # Errors
/// Those of copying.
pub fn clone(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    if let Some(copy) = blocks::cloned(self_)? {
        return Ok(copy);
    }
    let value = opaque::value(self_)?;
    let copy = op::clone(value.as_ref().unwrap_or(self_), memory_format)?;
    if value.is_some() { opaque::wrap(copy) } else { Ok(copy) }
}

/// The values of an opaque tensor as `float32`.
///
/// # Errors
/// Those of copying.
pub fn dequantize(self_: &Tensor) -> Result<Tensor> {
    op::to_dense(self_, Some(DType::Float32), None)
}

/// Writes to an opaque tensor; what is written to a block-quantised one is quantised.
///
/// # Errors
/// Those of `copy_`.
pub fn copy_(self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
    if !blocks::write(self_, src)? {
        opaque::copy_(self_, src, non_blocking)?;
    }
    Ok(self_.clone())
}

/// The transpose of a block-quantised matrix over the same blocks; of other orders of dimensions a dense copy.
///
/// # Errors
/// Those of `permute`.
pub fn permute(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    if matches!(dims, [1 | -1, 0 | -2])
        && let Some(transposed) = blocks::transposed(self_)?
    {
        return Ok(transposed);
    }
    op::permute(&weights_of(self_, "aten::permute")?, dims)
}

/// A row, or a slice of a dimension before the last, over the same blocks.
///
/// # Errors
/// Those of `select`.
pub fn select(self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let sizes = self_.sizes();
    let place = geometry::wrap_dim(dim, sizes.len())?;
    if let Some(rows) = blocks::of(self_).filter(|_| place == 0 && sizes.len() > 1) {
        let index = selected(&sizes, 0, 0, index)?;
        let each = sizes[1..sizes.len() - 1].iter().product::<i64>();
        return rows.rows(index * each, each, &sizes[1..]);
    }
    op::select_int(&weights_of(self_, "aten::select.int")?, dim, index)
}

/// A range of rows over the same blocks; of other dimensions and steps a dense copy.
///
/// # Errors
/// Those of `slice`.
pub fn slice(
    self_: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    let sizes = self_.sizes();
    let place = geometry::wrap_dim(dim, sizes.len())?;
    if let Some(rows) = blocks::of(self_).filter(|_| place == 0 && sizes.len() > 1 && step == 1) {
        let (start, end) = clamped_range(sizes[0], start, end);
        let each = sizes[1..sizes.len() - 1].iter().product::<i64>();
        let mut shape = sizes;
        shape[0] = end - start;
        return rows.rows(start * each, shape[0] * each, &shape);
    }
    op::slice_tensor(&weights_of(self_, "aten::slice.Tensor")?, dim, start, end, step)
}
