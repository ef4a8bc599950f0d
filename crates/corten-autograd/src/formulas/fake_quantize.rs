//! Gradients of fake quantisation by learned numbers.

use corten_core::Result;
use corten_ops::{Tensor, op};

/// Gradients of elements, scale and zero point.
///
/// # Errors
/// Those of the operator.
pub fn learnable_per_tensor_grads(
    _needs: &[bool],
    grad: &Tensor,
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: i64,
    quant_max: i64,
    grad_factor: f64,
) -> Result<Vec<Tensor>> {
    let (x, scale, zero) = op::_fake_quantize_learnable_per_tensor_affine_backward(
        grad,
        self_,
        scale,
        zero_point,
        quant_min,
        quant_max,
        grad_factor,
    )?;
    Ok(vec![x, scale, zero])
}

/// Gradients of elements, scales and zero points.
///
/// # Errors
/// Those of the operator.
pub fn learnable_per_channel_grads(
    _needs: &[bool],
    grad: &Tensor,
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
    grad_factor: f64,
) -> Result<Vec<Tensor>> {
    let (x, scale, zero) = op::_fake_quantize_learnable_per_channel_affine_backward(
        grad,
        self_,
        scale,
        zero_point,
        axis,
        quant_min,
        quant_max,
        grad_factor,
    )?;
    Ok(vec![x, scale, zero])
}
