//! Gradients of dropout.

use corten_core::Result;
use corten_ops::{Tensor, op};

/// The gradient of the elements kept, scaled as they were.
///
/// # Errors
/// Those of the operators.
pub fn native_dropout_grad(
    grad: &Tensor,
    mask: &Tensor,
    p: f64,
    train: Option<bool>,
) -> Result<Tensor> {
    let scale = match (train, p) {
        (Some(false), _) => 1.0,
        (_, 1.0) => 0.0,
        _ => 1.0 / (1.0 - p),
    };
    op::native_dropout_backward(grad, mask, scale)
}
