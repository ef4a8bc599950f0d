//! Views of the rows of block-quantised tensors.

use super::view::{clamped_range, selected};
use crate::opaque::{self, Prepared};
use crate::{Tensor, blocks, op};
use corten_core::{Result, geometry};

/// The weights of a block-quantised tensor; other opaque tensors have no views.
fn weights_of(tensor: &Tensor, operator: &str) -> Result<Tensor> {
    match blocks::of(tensor) {
        Some(rows) => rows.to_dense(),
        None => Err(opaque::no_views(operator)),
    }
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
