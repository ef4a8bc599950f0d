//! Gradients of views of some elements: zeros with the gradient in its place. And their relatives
//! that put values into a copy.

use super::select::{diagonal, select, slice};
use super::with_geometry;
use crate::{Tensor, op};
use corten_core::{MemoryFormat, Result, ensure, geometry};

fn zeros(like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::zeros(sizes, Some(like.dtype()), Some(like.layout()), Some(like.device()), None)
}

/// The gradient of `select`.
///
/// # Errors
/// Those of `select`.
pub fn select_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    dim: i64,
    index: i64,
) -> Result<Tensor> {
    let grad = zeros(grad_output, input_sizes)?;
    op::copy_(&select(&grad, dim, index)?, grad_output, false)?;
    Ok(grad)
}

/// The gradient of `slice`.
///
/// # Errors
/// Those of `slice`.
pub fn slice_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    dim: i64,
    start: i64,
    end: i64,
    step: i64,
) -> Result<Tensor> {
    let grad = zeros(grad_output, input_sizes)?;
    op::copy_(&slice(&grad, dim, Some(start), Some(end), step)?, grad_output, false)?;
    Ok(grad)
}

/// The gradient of `diagonal`.
///
/// # Errors
/// Those of `diagonal`.
pub fn diagonal_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Tensor> {
    let grad = zeros(grad_output, input_sizes)?;
    op::copy_(&diagonal(&grad, offset, dim1, dim2)?, grad_output, false)?;
    Ok(grad)
}

/// The gradient of `unfold`: windows are added where they overlap.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn unfold_backward(
    grad_in: &Tensor,
    input_sizes: &[i64],
    dim: i64,
    size: i64,
    step: i64,
) -> Result<Tensor> {
    let grad = zeros(grad_in, input_sizes)?;
    if input_sizes.is_empty() {
        op::copy_(&grad, &op::sum(grad_in, None)?, false)?;
        return Ok(grad);
    }
    if step >= size {
        // No two windows share an element.
        let windows = super::unfold(&grad, dim, size, step)?;
        op::copy_(&windows, grad_in, false)?;
        return Ok(grad);
    }
    // Places in windows that are less than a step apart belong to different elements. The last places
    // come first, so that the windows of an element are added in their order.
    let dim = geometry::wrap_dim(dim, input_sizes.len())? as i64;
    let (count, last) = (grad_in.size(dim)?, grad_in.dim() as i64 - 1);
    let parts = if count == 0 { 0 } else { (size + step - 1) / step.max(1) };
    for first in (0..parts).rev().map(|part| part * step) {
        let end = (first + step).min(size);
        let reached = slice(&grad, dim, Some(first), Some((count - 1) * step + end), 1)?;
        let windows = super::unfold(&reached, dim, end - first, step)?;
        op::add__tensor(&windows, &slice(grad_in, last, Some(first), Some(end), 1)?, 1.into())?;
    }
    Ok(grad)
}

/// A copy with `src` in the place of one position of a dimension.
///
/// # Errors
/// Those of `select`; `Runtime` when shapes differ.
pub fn select_scatter(self_: &Tensor, src: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let copy = strided_copy(self_)?;
    let target = select(&copy, dim, index)?;
    check_source(src, &target)?;
    op::copy_(&target, src, false)?;
    Ok(copy)
}

/// A copy with `src` in the place of a slice.
///
/// # Errors
/// Those of `slice`; `Runtime` when shapes differ.
pub fn slice_scatter(
    self_: &Tensor,
    src: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    let copy = strided_copy(self_)?;
    let target = slice(&copy, dim, start, end, step)?;
    check_source(src, &target)?;
    op::copy_(&target, src, false)?;
    Ok(copy)
}

/// A copy with `src` in the place of a diagonal.
///
/// # Errors
/// Those of `diagonal`; `Runtime` when shapes differ.
pub fn diagonal_scatter(
    self_: &Tensor,
    src: &Tensor,
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Tensor> {
    let copy = strided_copy(self_)?;
    let target = diagonal(&copy, offset, dim1, dim2)?;
    check_source(src, &target)?;
    op::copy_(&target, src, false)?;
    Ok(copy)
}

/// A copy with the same strides and offset, in a copy of the whole storage; a plain one where the
/// tensor overlaps itself.
pub(super) fn strided_copy(self_: &Tensor) -> Result<Tensor> {
    if geometry::has_internal_overlap(self_) == geometry::Overlap::Yes {
        return op::clone(self_, Some(MemoryFormat::Preserve));
    }
    let length = (self_.storage()?.nbytes() / self_.itemsize()) as i64;
    let whole = with_geometry(self_, &[length], &[1], 0)?;
    let copy = op::clone(&whole, Some(MemoryFormat::Contiguous))?;
    with_geometry(&copy, &self_.sizes(), &self_.strides(), self_.storage_offset())
}

pub(super) fn check_source(src: &Tensor, target: &Tensor) -> Result<()> {
    ensure!(
        src.sizes() == target.sizes(),
        Runtime,
        "expected src to have a size equal to the slice of self. src size = {:?}, slice size = \
         {:?}",
        src.sizes().as_slice(),
        target.sizes().as_slice()
    );
    Ok(())
}
