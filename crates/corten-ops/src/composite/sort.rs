//! Sorting made of `sort`.

use crate::{Tensor, op};
use corten_core::Result;

/// Where the sorted elements are.
///
/// # Errors
/// Those of `sort`; for the functions below likewise.
pub fn argsort(self_: &Tensor, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(op::sort(self_, dim, descending)?.1)
}

/// Where the sorted elements are; equal ones in their order.
pub fn argsort_stable(self_: &Tensor, stable: bool, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(op::sort_stable(self_, Some(stable), dim, descending)?.1)
}

/// Sorted along the first dimension.
pub fn msort(self_: &Tensor) -> Result<Tensor> {
    Ok(op::sort(self_, 0, false)?.0)
}
