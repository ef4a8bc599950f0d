//! Fake quantisation without the masks that gradients need.

use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, ensure};

/// The elements quantised and dequantised by one scale.
///
/// # Errors
/// Those of the operator with a mask.
pub fn per_tensor(
    self_: &Tensor,
    scale: f64,
    zero_point: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    let made = op::fake_quantize_per_tensor_affine_cachemask(
        self_, scale, zero_point, quant_min, quant_max,
    )?;
    Ok(made.0)
}

/// [`per_tensor`] by numbers in tensors.
///
/// # Errors
/// Those of the operator with a mask.
pub fn per_tensor_of_tensors(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    let enabled = op::scalar_tensor(Scalar::Int(1), Some(DType::Int64), None, None, None)?;
    let made = op::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self_, scale, zero_point, &enabled, quant_min, quant_max,
    )?;
    Ok(made.0)
}

/// The elements quantised and dequantised by a scale for every slice along a dimension.
///
/// # Errors
/// Those of the operator with a mask.
pub fn per_channel(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    let made = op::fake_quantize_per_channel_affine_cachemask(
        self_, scale, zero_point, axis, quant_min, quant_max,
    )?;
    Ok(made.0)
}

/// The gradient where the mask is true.
///
/// # Errors
/// `Runtime` for a mask of another dtype or size.
pub fn masked(grad: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(
        mask.dtype() == DType::Bool,
        Runtime,
        "Expected mask.scalar_type() == ScalarType::Bool to be true, but got false.  (Could this error \
         message be improved?  If so, please report an enhancement request to PyTorch.)"
    );
    ensure!(
        mask.numel() == grad.numel(),
        Runtime,
        "`mask` and `dY` are not the same size: `mask` is size {} and `dY` is size {}",
        mask.numel(),
        grad.numel()
    );
    if grad.numel() == 0 { Ok(grad.clone()) } else { op::mul_tensor(grad, mask) }
}

/// Quantised and dequantised by moving averages of the range, which are updated.
///
/// # Errors
/// Those of the operator with a mask.
pub fn fused_moving_avg(
    self_: &Tensor,
    observer_on: &Tensor,
    fake_quant_on: &Tensor,
    running_min: &Tensor,
    running_max: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    averaging_const: f64,
    quant_min: i64,
    quant_max: i64,
    ch_axis: i64,
    per_row: bool,
    symmetric: bool,
) -> Result<Tensor> {
    if self_.numel() == 0 {
        return op::clone(self_, None);
    }
    let made = op::_fused_moving_avg_obs_fq_helper(
        self_,
        observer_on,
        fake_quant_on,
        running_min,
        running_max,
        scale,
        zero_point,
        averaging_const,
        quant_min,
        quant_max,
        ch_axis,
        per_row,
        symmetric,
    )?;
    Ok(made.0)
}

/// The same on copies of what it writes.
///
/// # Errors
/// Those of the operator with a mask.
pub fn fused_moving_avg_functional(
    self_: &Tensor,
    observer_on: &Tensor,
    fake_quant_on: &Tensor,
    running_min: &Tensor,
    running_max: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    averaging_const: f64,
    quant_min: i64,
    quant_max: i64,
    ch_axis: i64,
    per_row: bool,
    symmetric: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)> {
    let copy = |tensor: &Tensor| op::clone(tensor, None);
    let (low, high) = (copy(running_min)?, copy(running_max)?);
    let (scale, zero_point) = (copy(scale)?, copy(zero_point)?);
    let (out, mask) = op::_fused_moving_avg_obs_fq_helper(
        self_,
        observer_on,
        fake_quant_on,
        &low,
        &high,
        &scale,
        &zero_point,
        averaging_const,
        quant_min,
        quant_max,
        ch_axis,
        per_row,
        symmetric,
    )?;
    Ok((out, mask, low, high, scale, zero_point))
}
