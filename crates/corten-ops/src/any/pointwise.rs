//! Elementwise operators that are other ones with a number as an operand.

use crate::meta::number::beside_numbers;
use crate::{Tensor, derived, op};
use corten_core::{Complex, DType, Result, Scalar, ensure};

/// The conjugate, in place.
///
/// # Errors
/// Those of the operator.
pub fn conj_physical_(self_: &Tensor) -> Result<Tensor> {
    if self_.dtype().is_complex() {
        op::_conj_physical_out(self_, self_)
    } else {
        Ok(self_.clone())
    }
}

/// The conjugate into `out`.
///
/// # Errors
/// Those of the operator.
pub fn conj_physical_out(self_: &Tensor, out: &Tensor) -> Result<Tensor> {
    op::_conj_physical_out(self_, out)
}

/// The exponent as an operand, checked: integers have no negative powers.
fn exponent_operand(self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let negative = exponent.is_integral(true) && exponent.to_i64() < 0;
    ensure!(
        !(self_.dtype().is_integral(true) && negative),
        Runtime,
        "Integers to negative integer powers are not allowed."
    );
    derived::wrapped(exponent)
}

/// The power with a number as the exponent.
///
/// # Errors
/// `Runtime` for a negative power of integers, and those of the operator on tensors.
pub fn pow_tensor_scalar(self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let operand = exponent_operand(self_, exponent)?;
    let is_first = exponent.to_complex() == Complex::new(1.0, 0.0);
    if !is_first && !self_.sizes().iter().any(|&size| size < 2) {
        return op::pow_tensor_tensor(self_, &operand);
    }
    let result = beside_numbers(self_, &[exponent])?;
    match is_first {
        true => op::copy_(&result, self_, false),
        false => op::pow_tensor_tensor_out(self_, &operand, &result),
    }
}

/// As [`pow_tensor_scalar`], in place.
///
/// # Errors
/// As for [`pow_tensor_scalar`].
pub fn pow_tensor_scalar_(self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    op::pow__tensor(self_, &exponent_operand(self_, exponent)?)
}

/// As [`pow_tensor_scalar`], into `out`.
///
/// # Errors
/// As for [`pow_tensor_scalar`].
pub fn pow_tensor_scalar_out(self_: &Tensor, exponent: Scalar, out: &Tensor) -> Result<Tensor> {
    op::pow_tensor_tensor_out(self_, &exponent_operand(self_, exponent)?, out)
}

/// The power with a number as the base.
///
/// # Errors
/// Those of the operator on tensors.
pub fn pow_scalar(self_: Scalar, exponent: &Tensor) -> Result<Tensor> {
    one_to_the_power(self_, op::pow_tensor_tensor(&derived::wrapped(self_)?, exponent)?)
}

/// The complex powers of the number 1 are 1 whatever the exponent, as PyTorch's are.
fn one_to_the_power(base: Scalar, result: Tensor) -> Result<Tensor> {
    if result.dtype().is_complex() && base.to_complex() == Complex::new(1.0, 0.0) {
        op::fill__scalar(&result, Scalar::Int(1))?;
    }
    Ok(result)
}

/// As [`pow_scalar`], into `out`.
///
/// # Errors
/// Those of the operator on tensors.
pub fn pow_scalar_out(self_: Scalar, exponent: &Tensor, out: &Tensor) -> Result<Tensor> {
    one_to_the_power(self_, op::pow_tensor_tensor_out(&derived::wrapped(self_)?, exponent, out)?)
}

/// The larger of each element and a number.
///
/// # Errors
/// Those of the operator on tensors.
pub fn clamp_min(self_: &Tensor, min: Scalar) -> Result<Tensor> {
    op::clamp_min_tensor(self_, &bound(self_, min)?)
}

/// As [`clamp_min`], in place.
///
/// # Errors
/// Those of the operator on tensors.
pub fn clamp_min_(self_: &Tensor, min: Scalar) -> Result<Tensor> {
    op::clamp_min__tensor(self_, &bound(self_, min)?)
}

/// As [`clamp_min`], into `out`.
///
/// # Errors
/// Those of the operator on tensors.
pub fn clamp_min_out(self_: &Tensor, min: Scalar, out: &Tensor) -> Result<Tensor> {
    op::clamp_min_tensor_out(self_, &bound(self_, min)?, out)
}

/// The smaller of each element and a number.
///
/// # Errors
/// Those of the operator on tensors.
pub fn clamp_max(self_: &Tensor, max: Scalar) -> Result<Tensor> {
    op::clamp_max_tensor(self_, &bound(self_, max)?)
}

/// As [`clamp_max`], in place.
///
/// # Errors
/// Those of the operator on tensors.
pub fn clamp_max_(self_: &Tensor, max: Scalar) -> Result<Tensor> {
    op::clamp_max__tensor(self_, &bound(self_, max)?)
}

/// As [`clamp_max`], into `out`.
///
/// # Errors
/// Those of the operator on tensors.
pub fn clamp_max_out(self_: &Tensor, max: Scalar, out: &Tensor) -> Result<Tensor> {
    op::clamp_max_tensor_out(self_, &bound(self_, max)?, out)
}

/// A bound of [`clamp_min`] or [`clamp_max`] as a tensor.
fn bound(self_: &Tensor, number: Scalar) -> Result<Tensor> {
    ensure!(
        !self_.dtype().is_complex() && !matches!(number, Scalar::Complex(_)),
        NotImplemented,
        "clamp is not supported for complex types"
    );
    derived::wrapped(number)
}

/// Two to the power of each element, as `pow(2.0, other)` promotes it; for integers in the
/// floating-point dtype of `self_`.
fn powers_of_two(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    if !other.dtype().is_integral(true) {
        return op::exp2(other);
    }
    let powers = op::pow_scalar(Scalar::Float(2.0), other)?;
    match self_.dtype().is_floating_point() {
        true => op::to_dtype(&powers, self_.dtype(), false, false, None),
        false => Ok(powers),
    }
}

/// Each element times two to the power of the other's.
///
/// # Errors
/// Those of the product.
pub fn ldexp(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    op::mul_tensor(self_, &powers_of_two(self_, other)?)
}

/// As [`ldexp`], in place.
///
/// # Errors
/// Those of the product.
pub fn ldexp_(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    op::mul__tensor(self_, &powers_of_two(self_, other)?)
}

/// CELU: an ELU with the slope 1 at zero for every α.
///
/// # Errors
/// `Runtime` for α = 0.
pub fn celu(self_: &Tensor, alpha: Scalar) -> Result<Tensor> {
    ensure!(alpha.to_f64() != 0.0, Runtime, "ZeroDivisionError: alpha cannot be 0 for CELU");
    op::elu(self_, alpha, Scalar::Float(1.0), Scalar::Float(1.0 / alpha.to_f64()))
}

/// The dtype of `float_power`: double precision.
pub(crate) fn double_dtype(complex: bool) -> DType {
    if complex { DType::Complex128 } else { DType::Float64 }
}
