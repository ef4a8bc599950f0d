//! Functions of the elements of quantised tensors.

use super::arith::{on_numbers, on_own_scale, range_of, write};
use super::{integers, of_integers, of_tensor};
use crate::{Tensor, op};
use corten_core::{BelowADInplaceOrViewGuard, DType, Result, Scalar, bail, ensure};

/// The integer that stands for a number.
pub(super) fn integer(x: &Tensor, number: f64) -> Result<i64> {
    let (scale, zero) = of_tensor(x)?;
    let (least, most) = range_of(x.dtype())?;
    let steps = number as f32 * (1.0 / scale as f32);
    Ok((steps.round_ties_even() as i64).saturating_add(zero).clamp(least, most))
}

fn bounded(x: &Tensor, least: Option<i64>, most: Option<i64>) -> Result<Tensor> {
    of_integers(x, |ints| op::clamp(ints, least.map(Scalar::from), most.map(Scalar::from)))
}

/// 0 where a number is less.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn relu(self_: &Tensor) -> Result<Tensor> {
    bounded(self_, Some(of_tensor(self_)?.1), None)
}

/// [`relu`] in place.
///
/// # Errors
/// As there.
pub fn relu_(self_: &Tensor) -> Result<Tensor> {
    write_over(self_, &relu(self_)?)
}

fn write_over(x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(&integers(x)?, &integers(result)?, false)?;
    Ok(x.clone())
}

/// Between 0 and 6.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn relu6(qx: &Tensor, inplace: bool) -> Result<Tensor> {
    let result = bounded(qx, Some(of_tensor(qx)?.1), Some(integer(qx, 6.0)?))?;
    if inplace { write_over(qx, &result) } else { Ok(result) }
}

/// Between two numbers.
///
/// # Errors
/// `Runtime` where there are several scales, or no number is given.
pub fn clamp(qx: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    if min.is_none() && max.is_none() {
        bail!(Runtime, "Both min and max not specified");
    }
    let near = |number: Option<Scalar>| number.map(|x| integer(qx, x.to_f64())).transpose();
    bounded(qx, near(min)?, near(max)?)
}

/// [`clamp`] with both numbers.
///
/// # Errors
/// As there.
pub fn hardtanh(self_: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<Tensor> {
    clamp(self_, Some(min_val), Some(max_val))
}

/// [`hardtanh`] in place.
///
/// # Errors
/// As there.
pub fn hardtanh_(self_: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<Tensor> {
    write_over(self_, &hardtanh(self_, min_val, max_val)?)
}

/// [`hardtanh`] on the scale of `out`.
///
/// # Errors
/// As there, and where the output does not fit.
pub fn hardtanh_out(
    self_: &Tensor,
    min_val: Scalar,
    max_val: Scalar,
    out: &Tensor,
) -> Result<Tensor> {
    write(out, &hardtanh(self_, min_val, max_val)?)
}

/// A number in the place of those that are not above a threshold.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn threshold(qx: &Tensor, threshold: Scalar, value: Scalar) -> Result<Tensor> {
    on_own_scale(qx, |x| op::threshold(x, threshold, value))
}

/// The scale of results between 0 and 1, or between -1 and 1 if `signed`.
fn unit_scale(dtype: DType, signed: bool) -> Result<(f64, i64)> {
    let (least, most) = range_of(dtype)?;
    let steps = most as f64 - least as f64 + 1.0;
    Ok(match (dtype, signed) {
        (DType::QInt32, false) => (1.0 / steps, 0),
        (_, false) => (1.0 / steps, least),
        (_, true) => (2.0 / steps, (least + most + 1) / 2),
    })
}

/// The logistic function, on a scale from 0 to 1.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn sigmoid(self_: &Tensor) -> Result<Tensor> {
    let (scale, zero) = unit_scale(self_.dtype(), false)?;
    sigmoid_to(self_, scale, zero)
}

/// The logistic function, on a scale.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn sigmoid_to(qx: &Tensor, scale: f64, zero: i64) -> Result<Tensor> {
    of_tensor(qx)?;
    on_numbers(qx, scale, zero, op::sigmoid)
}

/// The hyperbolic tangent, on a scale from -1 to 1.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn tanh(self_: &Tensor) -> Result<Tensor> {
    of_tensor(self_)?;
    let (scale, zero) = unit_scale(self_.dtype(), true)?;
    on_numbers(self_, scale, zero, op::tanh)
}

/// The piecewise linear sigmoid, on a scale from 0 to 1.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn hardsigmoid(self_: &Tensor) -> Result<Tensor> {
    of_tensor(self_)?;
    let (scale, zero) = unit_scale(self_.dtype(), false)?;
    on_numbers(self_, scale, zero, op::hardsigmoid)
}

/// [`hardsigmoid`] on the scale of `out`.
///
/// # Errors
/// As there, and where the output does not fit.
pub fn hardsigmoid_out(self_: &Tensor, out: &Tensor) -> Result<Tensor> {
    let (scale, zero) = of_tensor(out)?;
    write(out, &on_numbers(self_, scale, zero, op::hardsigmoid)?)
}

/// The exponential linear unit, on a scale.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn elu(
    self_: &Tensor,
    output_scale: f64,
    output_zero_point: i64,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
) -> Result<Tensor> {
    of_tensor(self_)?;
    on_numbers(self_, output_scale, output_zero_point, |x| op::elu(x, alpha, scale, input_scale))
}

/// The continuously differentiable exponential linear unit, on a scale.
///
/// # Errors
/// `Runtime` where there are several scales, or `alpha` is 0.
pub fn celu(
    self_: &Tensor,
    output_scale: f64,
    output_zero_point: i64,
    alpha: Scalar,
) -> Result<Tensor> {
    of_tensor(self_)?;
    ensure!(alpha.to_f64() != 0.0, Runtime, "ZeroDivisionError: alpha cannot be 0 for CELU");
    on_numbers(self_, output_scale, output_zero_point, |x| op::celu(x, alpha))
}

/// The Gaussian error linear unit, on the scale of the input.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn gelu(self_: &Tensor, approximate: &str) -> Result<Tensor> {
    let (scale, zero) = of_tensor(self_)?;
    // PyTorch passes the scale on as a number of 32 bits.
    on_numbers(self_, f64::from(scale as f32), zero, |x| op::gelu(x, approximate))
}

/// [`gelu`] in place.
///
/// # Errors
/// As there.
pub fn gelu_(self_: &Tensor, approximate: &str) -> Result<Tensor> {
    write_over(self_, &gelu(self_, approximate)?)
}

/// A slope below zero, on a scale.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn leaky_relu_to(
    qx: &Tensor,
    negative_slope: Scalar,
    inplace: bool,
    output_scale: f64,
    output_zero_point: i64,
) -> Result<Tensor> {
    of_tensor(qx)?;
    if inplace {
        return leaky_relu_(qx, negative_slope);
    }
    on_numbers(qx, output_scale, output_zero_point, |x| op::leaky_relu(x, negative_slope))
}

/// A slope below zero, on the scale of the input.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn leaky_relu(self_: &Tensor, negative_slope: Scalar) -> Result<Tensor> {
    on_own_scale(self_, |x| op::leaky_relu(x, negative_slope))
}

/// [`leaky_relu`] in place.
///
/// # Errors
/// As there.
pub fn leaky_relu_(self_: &Tensor, negative_slope: Scalar) -> Result<Tensor> {
    write_over(self_, &leaky_relu(self_, negative_slope)?)
}

/// [`leaky_relu`] on the scale of `out`.
///
/// # Errors
/// As there, and where the output does not fit.
pub fn leaky_relu_out(self_: &Tensor, negative_slope: Scalar, out: &Tensor) -> Result<Tensor> {
    let (scale, zero) = of_tensor(out)?;
    write(out, &on_numbers(self_, scale, zero, |x| op::leaky_relu(x, negative_slope))?)
}

/// A learned slope below zero for each channel, on a scale.
///
/// # Errors
/// `Runtime` where there are several scales, or the weight does not fit.
pub fn prelu(
    qx: &Tensor,
    weight: &Tensor,
    output_scale: f64,
    output_zero_point: i64,
) -> Result<Tensor> {
    of_tensor(qx)?;
    let weight = op::dequantize_self(weight)?;
    on_numbers(qx, output_scale, output_zero_point, |x| op::prelu(x, &weight))
}

/// [`prelu`] on the scale of the input, with a weight that was broadcast.
///
/// # Errors
/// As there.
pub fn prelu_kernel(self_: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let weight = op::dequantize_self(weight)?;
    on_own_scale(self_, |x| op::_prelu_kernel(x, &weight))
}

/// `x * relu6(x + 3) / 6`, on a scale.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn hardswish(input: &Tensor, output_scale: f64, output_zero_point: i64) -> Result<Tensor> {
    of_tensor(input)?;
    on_numbers(input, output_scale, output_zero_point, op::hardswish)
}

/// The softmax along a dimension, on a scale.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn softmax(qx: &Tensor, dim: i64, output_scale: f64, output_zero_point: i64) -> Result<Tensor> {
    of_tensor(qx)?;
    on_numbers(qx, output_scale, output_zero_point, |x| op::softmax_int(x, dim, None))
}

/// Nothing, as quantised networks do not train.
///
/// # Errors
/// `Runtime` in training.
pub fn dropout(
    self_: &Tensor,
    _output_scale: f64,
    _output_zero_point: i64,
    _p: Scalar,
    training: bool,
) -> Result<Tensor> {
    ensure!(!training, Runtime, "quantized::dropout does not train: training must be False");
    Ok(self_.clone())
}
