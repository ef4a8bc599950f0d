//! Gradients of softmax and of its gradient.

use corten_core::{DType, Result};
use corten_ops::{Tensor, op};

fn sum_along(tensor: &Tensor, dim: i64) -> Result<Tensor> {
    op::sum_dim_intlist(tensor, Some(&[dim]), true, None)
}

/// $(g - \sum g y) y$.
///
/// # Errors
/// Those of the operators.
pub fn softmax_grad(grad: &Tensor, result: &Tensor, dim: i64, dtype: DType) -> Result<Tensor> {
    let grad = match grad.dtype() == result.dtype() {
        true => grad.clone(),
        false => op::to_dtype(grad, result.dtype(), false, false, None)?,
    };
    let out = op::_softmax_backward_data(&grad, result, dim, result.dtype())?;
    if dtype == result.dtype() { Ok(out) } else { op::to_dtype(&out, dtype, false, false, None) }
}

/// $g - e^y \sum g$.
///
/// # Errors
/// Those of the operators.
pub fn log_softmax_grad(grad: &Tensor, result: &Tensor, dim: i64, dtype: DType) -> Result<Tensor> {
    op::_log_softmax_backward_data(grad, result, dim, dtype)
}

/// The gradient of $(g - \sum g y) y$ with respect to $g$.
///
/// # Errors
/// Those of the operators.
pub fn softmax_grad_again(grad: &Tensor, output: &Tensor, dim: i64) -> Result<Tensor> {
    op::_softmax_backward_data(grad, output, dim, output.dtype())
}

/// The gradient of $(g - \sum g y) y$ with respect to $y$: $h (g - \sum g y) - g \sum h y$.
///
/// # Errors
/// Those of the operators.
pub fn softmax_grad_output(
    grad: &Tensor,
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let inner = sum_along(&(grad_output * output)?, dim)?;
    let outer = sum_along(&(grad * output)?, dim)?;
    (grad * (grad_output - inner)?)? - (grad_output * outer)?
}

/// The gradient of $g - e^y \sum g$ with respect to $g$: $h - \sum h e^y$.
///
/// # Errors
/// Those of the operators.
pub fn log_softmax_grad_again(grad: &Tensor, output: &Tensor, dim: i64) -> Result<Tensor> {
    grad - sum_along(&(grad * output.exp()?)?, dim)?
}

/// The gradient of $g - e^y \sum g$ with respect to $y$: $-h e^y \sum g$.
///
/// # Errors
/// Those of the operators.
pub fn log_softmax_grad_output(
    grad: &Tensor,
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    op::neg(&((grad * output.exp()?)? * sum_along(grad_output, dim)?)?)
}
