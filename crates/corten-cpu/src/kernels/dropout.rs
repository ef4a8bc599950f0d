//! Dropout that keeps its mask.

use corten_core::{DType, Result, Scalar};
use corten_ops::{Tensor, op};

/// Dropout and the mask of the elements kept.
///
/// # Errors
/// `Runtime` for a dtype that is not floating-point.
pub fn native_dropout(input: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    let mask = op::empty_like(input, Some(DType::Bool), None, None, None, None)?;
    if input.numel() == 0 {
        return Ok((input.clone(), mask));
    }
    if train == Some(false) {
        op::fill__scalar(&mask, Scalar::Bool(true))?;
        return Ok((op::clone(input, None)?, mask));
    }
    let kept = 1.0 - p;
    op::bernoulli__float(&mask, kept, None)?;
    let out = op::mul_tensor(input, &mask)?;
    let scale = if kept == 0.0 { 0.0 } else { 1.0 / kept };
    Ok((op::mul__scalar(&out, Scalar::from(scale))?, mask))
}

/// The gradient of [`native_dropout`].
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn native_dropout_backward(grad_output: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    op::mul_scalar(&op::mul_tensor(grad_output, mask)?, Scalar::from(scale))
}
