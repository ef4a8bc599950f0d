//! Elementwise operators made of others.

use crate::any::pointwise::double_dtype;
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, ensure};

/// The tensor itself.
///
/// # Errors
/// `NotImplemented` for bool.
pub fn positive(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype() != DType::Bool,
        NotImplemented,
        "The `+` operator, on a bool tensor is not supported."
    );
    Ok(self_.clone())
}

/// The conjugate, computed; a real tensor as it is.
///
/// # Errors
/// Those of the operator.
pub fn conj_physical(self_: &Tensor) -> Result<Tensor> {
    if self_.dtype().is_complex() { op::_conj_physical(self_) } else { Ok(self_.clone()) }
}

/// The square.
///
/// # Errors
/// Those of `pow`.
pub fn square(self_: &Tensor) -> Result<Tensor> {
    op::pow_tensor_scalar(self_, Scalar::Int(2))
}

/// As [`square`], in place.
///
/// # Errors
/// Those of `pow`.
pub fn square_(self_: &Tensor) -> Result<Tensor> {
    op::pow__scalar(self_, Scalar::Int(2))
}

/// As [`square`], into `out`.
///
/// # Errors
/// Those of `pow`.
pub fn square_out(self_: &Tensor, out: &Tensor) -> Result<Tensor> {
    op::pow_tensor_scalar_out(self_, Scalar::Int(2), out)
}

fn to_double(tensor: &Tensor, complex: bool) -> Result<Tensor> {
    op::to_dtype(tensor, double_dtype(complex), false, false, None)
}

/// The power in double precision.
///
/// # Errors
/// Those of `pow`.
pub fn float_power_tensor_tensor(self_: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let complex = self_.dtype().is_complex() || exponent.dtype().is_complex();
    op::pow_tensor_tensor(&to_double(self_, complex)?, &to_double(exponent, complex)?)
}

/// As [`float_power_tensor_tensor`], with a number as the exponent.
///
/// # Errors
/// Those of `pow`.
pub fn float_power_tensor_scalar(self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let complex = self_.dtype().is_complex() || exponent.is_complex();
    op::pow_tensor_scalar(&to_double(self_, complex)?, exponent)
}

/// As [`float_power_tensor_tensor`], with a number as the base.
///
/// # Errors
/// Those of `pow`.
pub fn float_power_scalar(self_: Scalar, exponent: &Tensor) -> Result<Tensor> {
    let complex = self_.is_complex() || exponent.dtype().is_complex();
    op::pow_scalar(self_, &to_double(exponent, complex)?)
}

fn check_base(self_: &Tensor, complex: bool) -> Result<()> {
    let dtype = double_dtype(complex);
    ensure!(
        self_.dtype() == dtype,
        Runtime,
        "the base given to float_power_ has dtype {} but the operation's result requires dtype {}",
        self_.dtype().type_name(),
        dtype.type_name()
    );
    Ok(())
}

/// As [`float_power_tensor_tensor`], in place.
///
/// # Errors
/// `Runtime` unless the base is in double precision.
pub fn float_power_tensor_tensor_(self_: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let complex = self_.dtype().is_complex() || exponent.dtype().is_complex();
    check_base(self_, complex)?;
    op::pow__tensor(self_, &to_double(exponent, complex)?)
}

/// As [`float_power_tensor_scalar`], in place.
///
/// # Errors
/// `Runtime` unless the base is in double precision.
pub fn float_power_tensor_scalar_(self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    check_base(self_, self_.dtype().is_complex() || exponent.is_complex())?;
    op::pow__scalar(self_, exponent)
}

/// Whether each element has no imaginary part.
///
/// # Errors
/// Those of the comparison.
pub fn isreal(self_: &Tensor) -> Result<Tensor> {
    match self_.dtype().is_complex() {
        true => op::eq_scalar(&op::imag(self_)?, Scalar::Int(0)),
        false => op::ones_like(self_, Some(DType::Bool), None, None, None, None),
    }
}

/// Whether each pair is equal within tolerances: |a - b| ≤ atol + rtol |b|.
///
/// # Errors
/// `Runtime` for tensors of two dtypes or negative tolerances.
pub fn isclose(
    self_: &Tensor,
    other: &Tensor,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
) -> Result<Tensor> {
    ensure!(
        !self_.is_quantized() && !other.is_quantized(),
        Runtime,
        "isclose is not supported for quantized inputs."
    );
    ensure!(
        self_.dtype() == other.dtype(),
        Runtime,
        "{} did not match {}",
        self_.dtype().type_name(),
        other.dtype().type_name()
    );
    ensure!(rtol >= 0.0, Runtime, "rtol must be greater than or equal to zero, but got {rtol}");
    ensure!(atol >= 0.0, Runtime, "atol must be greater than or equal to zero, but got {atol}");
    let mut close = op::eq_tensor(self_, other)?;
    if equal_nan && (self_.dtype().is_floating_point() || self_.dtype().is_complex()) {
        let both = op::logical_and(&op::isnan(self_)?, &op::isnan(other)?)?;
        close = op::logical_or(&close, &both)?;
    }
    if rtol == 0.0 && atol == 0.0 {
        return Ok(close);
    }
    // Integers are compared as floating-point numbers, so that their difference does not wrap.
    let other = match self_.dtype().is_integral(true) {
        true => op::to_dtype(other, corten_core::default_dtype(), false, false, None)?,
        false => other.clone(),
    };
    let allowed = op::abs(&op::mul_scalar(&other, Scalar::Float(rtol))?)?;
    let allowed = op::add_scalar(&allowed, Scalar::Float(atol), Scalar::Int(1))?;
    let self_ = match self_.dtype() {
        DType::Bool => op::to_dtype(self_, other.dtype(), false, false, None)?,
        _ => self_.clone(),
    };
    let error = op::abs(&op::sub_tensor(&self_, &other, Scalar::Int(1))?)?;
    let near = op::logical_and(&op::isfinite(&error)?, &op::le_tensor(&error, &allowed)?)?;
    op::logical_or(&close, &near)
}

/// Whether all pairs are equal within tolerances.
///
/// # Errors
/// Those of [`isclose`].
pub fn allclose(
    self_: &Tensor,
    other: &Tensor,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
) -> Result<bool> {
    Ok(op::item(&op::all(&isclose(self_, other, rtol, atol, equal_nan)?)?)?.to_bool())
}

const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

/// SELU: an ELU that keeps mean and variance.
///
/// # Errors
/// Those of `elu`.
pub fn selu(self_: &Tensor) -> Result<Tensor> {
    op::elu(self_, SELU_ALPHA.into(), SELU_SCALE.into(), Scalar::Int(1))
}

/// As [`selu`], in place.
///
/// # Errors
/// Those of `elu`.
pub fn selu_(self_: &Tensor) -> Result<Tensor> {
    op::elu_(self_, SELU_ALPHA.into(), SELU_SCALE.into(), Scalar::Int(1))
}

/// Each element limited to the range from 0 to 6.
///
/// # Errors
/// Those of `hardtanh`.
pub fn relu6(self_: &Tensor) -> Result<Tensor> {
    op::hardtanh(self_, Scalar::Int(0), Scalar::Int(6))
}

/// As [`relu6`], in place.
///
/// # Errors
/// Those of `hardtanh`.
pub fn relu6_(self_: &Tensor) -> Result<Tensor> {
    op::hardtanh_(self_, Scalar::Int(0), Scalar::Int(6))
}

/// The logarithm of the logistic function.
///
/// # Errors
/// Those of `log_sigmoid_forward`.
pub fn log_sigmoid(self_: &Tensor) -> Result<Tensor> {
    Ok(op::log_sigmoid_forward(self_)?.0)
}
