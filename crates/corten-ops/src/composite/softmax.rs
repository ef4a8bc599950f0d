//! Softmax with a choice of dtype.

use crate::{Tensor, op};
use corten_core::{DType, Result};

/// Softmax along `dim`, of `self` converted to `dtype`.
///
/// # Errors
/// Those of the kernel.
pub fn softmax(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    op::_softmax(&converted(self_, dtype)?, dim, false)
}

/// The logarithm of [`softmax`].
///
/// # Errors
/// Those of the kernel.
pub fn log_softmax(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    op::_log_softmax(&converted(self_, dtype)?, dim, false)
}

fn converted(self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    match dtype {
        Some(dtype) => op::to_dtype(self_, dtype, false, false, None),
        None => Ok(self_.clone()),
    }
}
