//! Gradients of elementwise operators.
//!
//! Where operands tie, each gets half; see the table of conventions in the documentation of each
//! function.

use crate::formulas::any::{conjugate_number, keep_where, zero_where, zeros_like};
use corten_core::{Complex, Result, Scalar};
use corten_ops::{Tensor, op};
use std::f64::consts::PI;

/// The projection of the gradient that leaves the sign of a complex number unchanged; zero for
/// real numbers and at zero.
///
/// # Errors
/// Those of the operators.
pub fn sgn_backward(self_: &Tensor, grad: &Tensor, sgn: &Tensor) -> Result<Tensor> {
    if !self_.dtype().is_complex() {
        return zeros_like(grad);
    }
    let abs = self_.abs()?;
    let along = ((grad / sgn)?.real()? * sgn)?;
    let scaled = ((grad - along)? / &abs)?;
    zero_where(&scaled, &abs.eq_scalar(0)?)
}

/// Perpendicular to complex numbers, zero for real ones and at zero.
///
/// # Errors
/// Those of the operators.
pub fn angle_backward(grad: &Tensor, self_: &Tensor) -> Result<Tensor> {
    if !self_.dtype().is_complex() {
        return zeros_like(grad);
    }
    let abs = self_.abs()?;
    let turned = ((grad * self_)? / (&abs * &abs)?)?;
    let turned = op::mul_scalar(&turned, Scalar::Complex(Complex::new(0.0, 1.0)))?;
    zero_where(&turned, &self_.eq_scalar(0)?)
}

/// Zero at zero.
///
/// # Errors
/// Those of the operators.
pub fn sinc_backward(grad: &Tensor, self_: &Tensor) -> Result<Tensor> {
    let angle = (self_ * PI)?;
    let square = (&angle * self_)?;
    let slope = (((&angle * angle.cos()?)? - angle.sin()?)? / &square)?;
    zero_where(&(grad * slope.conj()?)?, &square.eq_scalar(0)?)
}

/// Zero outside of `[eps, 1 - eps]`; without `eps`, NaN outside of `[0, 1]`.
///
/// # Errors
/// Those of the operators.
pub fn logit_backward(grad: &Tensor, self_: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let slope = (grad / (self_ * (1.0_f64 - self_)?)?)?;
    let (low, high) = eps.map_or((0.0, 1.0), |eps| (eps, 1.0 - eps));
    let outside = self_.lt_scalar(low)?.logical_or(&self_.gt_scalar(high)?)?;
    let value = if eps.is_some() { 0.0 } else { f64::NAN };
    op::masked_fill_scalar(&slope, &outside, Scalar::Float(value))
}

/// `grad · conj(p · x^(p-1))`, zero for `p = 0`.
///
/// # Errors
/// Those of the operators.
pub fn pow_backward(grad: &Tensor, self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if exponent.to_complex() == Complex::new(0.0, 0.0) {
        return zeros_like(grad);
    }
    let lowered = match exponent {
        Scalar::Bool(_) => Scalar::Int(0),
        Scalar::Int(value) => Scalar::Int(value - 1),
        Scalar::UInt(value) => Scalar::Float(value as f64 - 1.0),
        Scalar::Float(value) => Scalar::Float(value - 1.0),
        Scalar::Complex(value) => Scalar::Complex(value - 1.0),
    };
    let slope = op::mul_scalar(&op::pow_tensor_scalar(self_, lowered)?, exponent)?;
    grad * slope.conj()?
}

/// `grad · conj(e · x^(e-1))`, zero where `e = 0`.
///
/// # Errors
/// Those of the operators.
pub fn pow_self_backward(grad: &Tensor, self_: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let lowered = op::sub_scalar(exponent, Scalar::Int(1), Scalar::Int(1))?;
    let slope = (exponent * op::pow_tensor_tensor(self_, &lowered)?)?;
    grad * zero_where(&slope, &exponent.eq_scalar(0)?)?.conj()?
}

/// `grad · conj(y · ln x)`, zero where `x = 0` and `e ≥ 0`.
///
/// # Errors
/// Those of the operators.
pub fn pow_exponent_backward(
    grad: &Tensor,
    self_: &Tensor,
    exponent: &Tensor,
    result: &Tensor,
) -> Result<Tensor> {
    let at_zero = self_.eq_scalar(0)?.logical_and(&not_negative(exponent)?)?;
    let slope = (result * self_.log()?)?;
    grad * zero_where(&slope, &at_zero)?.conj()?
}

/// `grad · conj(y · ln s)`; for `s = 0`, zero where `e ≥ 0`.
///
/// # Errors
/// Those of the operators.
pub fn pow_scalar_backward(
    grad: &Tensor,
    base: Scalar,
    exponent: &Tensor,
    result: &Tensor,
) -> Result<Tensor> {
    let logarithm = match base {
        Scalar::Complex(value) => Scalar::Complex(value.ln()),
        real => Scalar::Float(real.to_f64().ln()),
    };
    let mut slope = op::mul_scalar(result, logarithm)?;
    if base.to_complex() == Complex::new(0.0, 0.0) {
        slope = zero_where(&slope, &not_negative(exponent)?)?;
    }
    grad * slope.conj()?
}

fn not_negative(exponent: &Tensor) -> Result<Tensor> {
    if exponent.dtype().is_complex() {
        exponent.real()?.ge_scalar(0)
    } else {
        exponent.ge_scalar(0)
    }
}

/// `grad / o` for true division; zero with a rounding mode.
///
/// # Errors
/// Those of the operators.
pub fn div_mode_self_backward(
    grad: &Tensor,
    other: &Tensor,
    rounding_mode: Option<&str>,
) -> Result<Tensor> {
    if rounding_mode.is_some() { zeros_like(grad) } else { grad / other.conj()? }
}

/// `-grad · (x / o) / o` for true division; zero with a rounding mode.
///
/// # Errors
/// Those of the operators.
pub fn div_mode_other_backward(
    grad: &Tensor,
    self_: &Tensor,
    other: &Tensor,
    rounding_mode: Option<&str>,
) -> Result<Tensor> {
    if rounding_mode.is_some() {
        return zeros_like(grad);
    }
    (-grad)? * ((self_ / other)? / other)?.conj()?
}

/// `-grad · ⌊x / o⌋`.
///
/// # Errors
/// Those of the operators.
pub fn remainder_other_backward(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    (-grad)? * op::div_tensor_mode(self_, other, Some("floor"))?
}

/// `number / (x² + o²)`, zero at the origin.
///
/// # Errors
/// Those of the operators.
pub fn over_squares(number: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let square = ((self_ * self_)? + (other * other)?)?;
    zero_where(&(number / &square)?, &square.eq_scalar(0)?)
}

/// All to `self` where it is larger, half where both are equal, and where one is NaN.
///
/// # Errors
/// Those of the operators.
pub fn winner_backward(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let halved = halve_where(grad, &self_.eq(other)?)?;
    zero_where(&halved, &self_.lt(other)?)
}

/// All to `self` where it is smaller, half where both are equal, and where one is NaN.
///
/// # Errors
/// Those of the operators.
pub fn loser_backward(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    winner_backward(grad, &(-self_)?, &(-other)?)
}

/// The share of the bound in `clamp_min(self, bound)`, and with the arguments exchanged in
/// `clamp_max`: all where the first is larger, half where both are equal, and where one is NaN.
///
/// # Errors
/// Those of the operators.
pub fn bound_backward(grad: &Tensor, larger: &Tensor, smaller: &Tensor) -> Result<Tensor> {
    winner_backward(grad, larger, smaller)
}

fn halve_where(grad: &Tensor, mask: &Tensor) -> Result<Tensor> {
    op::where_self(mask, &(grad / 2.0_f64)?, grad)
}

/// As [`winner_backward`], but a NaN gets nothing unless both are: then the first.
fn extreme_self(grad: &Tensor, wins: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let halved = halve_where(grad, &self_.eq(other)?)?;
    keep_where(&halved, &wins.logical_or(&other.isnan()?)?)
}

fn extreme_other(grad: &Tensor, wins: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let halved = halve_where(grad, &self_.eq(other)?)?;
    let only_self = self_.isnan()?.logical_and(&other.isnan()?.logical_not()?)?;
    keep_where(&halved, &wins.logical_or(&only_self)?)
}

/// `self`'s share in `fmax`.
///
/// # Errors
/// Those of the operators.
pub fn fmax_self_backward(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    extreme_self(grad, &self_.ge(other)?, self_, other)
}

/// `other`'s share in `fmax`.
///
/// # Errors
/// Those of the operators.
pub fn fmax_other_backward(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    extreme_other(grad, &self_.le(other)?, self_, other)
}

/// `self`'s share in `fmin`.
///
/// # Errors
/// Those of the operators.
pub fn fmin_self_backward(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    extreme_self(grad, &self_.le(other)?, self_, other)
}

/// `other`'s share in `fmin`.
///
/// # Errors
/// Those of the operators.
pub fn fmin_other_backward(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    extreme_other(grad, &self_.ge(other)?, self_, other)
}

/// `grad · (y / x)`, zero at zero.
///
/// # Errors
/// Those of the operators.
pub fn copysign_backward(grad: &Tensor, self_: &Tensor, result: &Tensor) -> Result<Tensor> {
    let ratio = (result / self_)?;
    grad * zero_where(&ratio, &self_.eq_scalar(0)?)?
}

/// `grad · ln o`, zero where `x = 0` and `o ≤ 0`.
///
/// # Errors
/// Those of the operators.
pub fn xlogy_self_backward(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    // `other` may be a number that lies on the host, beside tensors of a device.
    let at_zero = self_.eq_scalar(0)?.logical_and(&other.le_scalar(0)?)?;
    zero_where(&grad.xlogy(other)?, &at_zero)
}

/// `grad · conj(1 - w)`.
///
/// # Errors
/// Those of the operators.
pub fn lerp_start_backward(grad: &Tensor, weight: Scalar) -> Result<Tensor> {
    let rest = match conjugate_number(weight) {
        Scalar::Complex(value) => Scalar::Complex(1.0 - value),
        real => Scalar::Float(1.0 - real.to_f64()),
    };
    op::mul_scalar(grad, rest)
}

/// Strictly between the bounds; zero at the bounds and for NaN.
///
/// # Errors
/// Those of the operators.
pub fn clamp_backward(
    grad: &Tensor,
    self_: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<Tensor> {
    let mut inside: Option<Tensor> = None;
    if let Some(min) = min {
        inside = Some(op::gt_scalar(self_, min)?);
    }
    if let Some(max) = max {
        let below = op::lt_scalar(self_, max)?;
        inside = Some(match inside {
            Some(above) => above.logical_and(&below)?,
            None => below,
        });
    }
    match inside {
        Some(inside) => keep_where(grad, &inside),
        None => Ok(grad.clone()),
    }
}

/// [`clamp_backward`] with a lower bound only.
///
/// # Errors
/// Those of the operators.
pub fn clamp_min_backward(grad: &Tensor, self_: &Tensor, min: Scalar) -> Result<Tensor> {
    clamp_backward(grad, self_, Some(min), None)
}

/// [`clamp_backward`] with an upper bound only.
///
/// # Errors
/// Those of the operators.
pub fn clamp_max_backward(grad: &Tensor, self_: &Tensor, max: Scalar) -> Result<Tensor> {
    clamp_backward(grad, self_, None, Some(max))
}

/// Gradients of `self` and both bounds: the active one gets all, ties are halved. The upper bound
/// is active where the lower is above it.
///
/// # Errors
/// Those of the operators.
pub fn clamp_tensor_backward(
    needs: &[bool],
    grad: &Tensor,
    self_: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Vec<Tensor>> {
    let none = Tensor::undefined;
    let wanted = |i: usize, result: Result<Tensor>| if needs[i] { result } else { Ok(none()) };
    Ok(match (min, max) {
        (None, None) => vec![grad.clone(), none(), none()],
        (Some(min), None) => vec![
            wanted(0, winner_backward(grad, self_, min))?,
            wanted(1, winner_backward(grad, min, self_))?,
            none(),
        ],
        (None, Some(max)) => vec![
            wanted(0, loser_backward(grad, self_, max))?,
            none(),
            wanted(2, loser_backward(grad, max, self_))?,
        ],
        (Some(min), Some(max)) => clamp_both(needs, grad, self_, min, max)?,
    })
}

fn clamp_both(
    needs: &[bool],
    grad: &Tensor,
    self_: &Tensor,
    min: &Tensor,
    max: &Tensor,
) -> Result<Vec<Tensor>> {
    let mut grads = vec![Tensor::undefined(), Tensor::undefined(), Tensor::undefined()];
    let apart = min.lt(max)?;
    let (at_min, at_max) =
        (self_.eq(min)?.logical_and(&apart)?, self_.eq(max)?.logical_and(&apart)?);
    if needs[0] {
        let outside = self_.lt(min)?.logical_or(&self_.gt(max)?)?.logical_or(&min.gt(max)?)?;
        let halved = halve_where(grad, &at_min.logical_or(&at_max)?)?;
        grads[0] = zero_where(&halved, &outside)?;
    }
    if needs[1] {
        let active = self_.lt(min)?.logical_and(&min.le(max)?)?;
        let halved = halve_where(grad, &at_min)?;
        grads[1] = keep_where(&halved, &active.logical_or(&at_min)?)?;
    }
    if needs[2] {
        let active = self_.gt(max)?.logical_or(&max.lt(min)?)?;
        let halved = halve_where(grad, &at_max)?;
        grads[2] = keep_where(&halved, &active.logical_or(&at_max)?)?;
    }
    Ok(grads)
}
