//! Distances between rows.

use crate::{Tensor, op};
use corten_core::Result;

/// Distances between the rows of two batches of matrices.
///
/// # Errors
/// Those of `_cdist_forward`.
pub fn cdist(x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<i64>) -> Result<Tensor> {
    op::_cdist_forward(x1, x2, p, compute_mode)
}

/// Distances between every two rows of a matrix.
///
/// # Errors
/// Those of `_pdist_forward`.
pub fn pdist(self_: &Tensor, p: f64) -> Result<Tensor> {
    op::_pdist_forward(self_, p)
}
