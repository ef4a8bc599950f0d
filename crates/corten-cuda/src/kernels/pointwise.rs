//! Pointwise operators that are more than an expression of tensors and numbers.

use crate::pointwise::{Expression, run};
use corten_core::{Element, Result, Scalar, match_dtype};
use corten_ops::meta::Domain;
use corten_ops::meta::elementwise::{
    Rounding, greatest_finite, plan_div, plan_logit, plan_nan_to_num,
};
use corten_ops::{Tensor, TensorIterator, op};

/// Declares expressions whose structs `pointwise.cuh` has.
macro_rules! expressions {
    ($($name:ident = $operator:literal, $message:literal, $inputs:literal, $domain:ident;)+) => {$(
        static $name: Expression = Expression {
            name: $message, operator: $operator, text: "", inputs: $inputs, domain: Domain::$domain,
        };
    )+};
}
pub(crate) use expressions;

/// Runs an expression over a planned walk and returns its output.
///
/// # Errors
/// Those of [`run`].
pub(crate) fn finished(
    mut iter: TensorIterator,
    expression: &'static Expression,
    scalars: &[Scalar],
) -> Result<Tensor> {
    run(expression, &mut iter, scalars)?;
    iter.finish()?;
    Ok(iter.into_output(0))
}

expressions! {
    CLAMP = "Clamp", "clamp", 3, OrderedWide;
    POWER = "Power", "pow", 2, NoBool;
    SQUARE = "Square", "pow", 1, NoBool;
    CUBE = "Cube", "pow", 1, NoBool;
    SQUARE_ROOT = "SquareRoot", "pow", 1, FloatComplex;
    RECIPROCAL_ROOT = "ReciprocalRoot", "pow", 1, FloatComplex;
    RECIPROCAL = "Reciprocal", "pow", 1, FloatComplex;
    RECIPROCAL_SQUARE = "ReciprocalSquare", "pow", 1, FloatComplex;
    ROUNDED = "Rounded", "round", 1, Float;
    ROUNDED_TO_PART = "RoundedToPart", "round", 1, Float;
    ROUNDED_TO_MULTIPLE = "RoundedToMultiple", "round", 1, Float;
    TRUE_QUOTIENT = "TrueQuotient", "div", 2, FloatComplex;
    FLOOR_QUOTIENT = "FloorQuotient", "div_floor", 2, Ordered;
    TRUNC_QUOTIENT = "TruncQuotient", "div_trunc", 2, Ordered;
    LOGIT = "Logit", "logit", 1, Float;
    LOGIT_CLAMPED = "LogitClamped", "logit", 1, Float;
    NAN_TO_NUM = "NanToNum", "nan_to_num", 1, Float;
    IDENTITY = "Identity", "nan_to_num", 1, Every;
}

/// `clamp`: the inputs are the tensor, the lower and the upper bound.
///
/// # Errors
/// Those of [`run`].
pub fn clamp(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    if iter.numel() == 0 { Ok(()) } else { run(&CLAMP, iter, &[]) }
}

/// `pow`: frequent exponents have kernels of their own.
///
/// # Errors
/// Those of [`run`].
pub fn pow(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    if iter.numel() == 0 {
        return Ok(());
    }
    let dtype = iter.common_dtype();
    let fractional = dtype.is_floating_point() || dtype.is_complex();
    let root = fractional && iter.is_wrapped_number(2);
    let expression = match number(iter, 2)? {
        Some(2.0) => &SQUARE,
        Some(3.0) => &CUBE,
        Some(0.5) if root => &SQUARE_ROOT,
        Some(-0.5) if root => &RECIPROCAL_ROOT,
        Some(-1.0) if fractional => &RECIPROCAL,
        Some(-2.0) if fractional => &RECIPROCAL_SQUARE,
        _ => &POWER,
    };
    run(expression, iter, &[])
}

/// `round.decimals`.
///
/// # Errors
/// Those of [`run`].
pub fn round_decimals(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let decimals = scalars.first().map_or(0.0, |decimals| decimals.to_f64());
    let power = Scalar::from(10f64.powf(decimals.abs()));
    match decimals {
        0.0 => run(&ROUNDED, iter, &[]),
        _ if decimals < 0.0 => run(&ROUNDED_TO_MULTIPLE, iter, &[power]),
        _ => run(&ROUNDED_TO_PART, iter, &[power]),
    }
}

/// The value of an operand that is one real number of the host.
fn number(iter: &mut TensorIterator, operand: usize) -> Result<Option<f64>> {
    if !iter.is_cpu_scalar(operand) {
        return Ok(None);
    }
    let (at, dtype) = (iter.data_ptr(operand)?, iter.dtype(operand));
    match_dtype!(dtype, "number", All, T => {
        // SAFETY: the operand is one element of this dtype in host memory, and access to it is held.
        let value = unsafe { at.cast::<T>().read_unaligned() }.to_scalar();
        match value {
            Scalar::Complex(value) if value.im != 0.0 => Ok(None),
            value => Ok(Some(value.to_f64())),
        }
    })
}

fn divided(
    self_: &Tensor,
    other: &Tensor,
    rounding_mode: Option<&str>,
    out: Option<&Tensor>,
) -> Result<Tensor> {
    let rounding = Rounding::named(rounding_mode)?;
    let expression = match rounding {
        Rounding::True => &TRUE_QUOTIENT,
        Rounding::Floor => &FLOOR_QUOTIENT,
        Rounding::Trunc => &TRUNC_QUOTIENT,
    };
    finished(plan_div(self_, other, rounding, out)?, expression, &[])
}

/// `div` with a rounding mode.
///
/// # Errors
/// Those of the plan; for the functions below likewise.
pub fn div_mode(self_: &Tensor, other: &Tensor, rounding_mode: Option<&str>) -> Result<Tensor> {
    divided(self_, other, rounding_mode, None)
}

/// As [`div_mode`], in place.
pub fn div_mode_(self_: &Tensor, other: &Tensor, rounding_mode: Option<&str>) -> Result<Tensor> {
    divided(self_, other, rounding_mode, Some(self_))
}

/// As [`div_mode`], into `out`.
pub fn div_mode_out(
    self_: &Tensor,
    other: &Tensor,
    rounding_mode: Option<&str>,
    out: &Tensor,
) -> Result<Tensor> {
    divided(self_, other, rounding_mode, Some(out))
}

fn logit_into(self_: &Tensor, eps: Option<f64>, out: Option<&Tensor>) -> Result<Tensor> {
    let iter = plan_logit(self_, out)?;
    match eps {
        None => finished(iter, &LOGIT, &[]),
        Some(eps) => finished(iter, &LOGIT_CLAMPED, &[eps.into(), (1.0 - eps).into()]),
    }
}

/// `logit`.
pub fn logit(self_: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    logit_into(self_, eps, None)
}

/// As [`logit`], in place.
pub fn logit_(self_: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    logit_into(self_, eps, Some(self_))
}

/// As [`logit`], into `out`.
pub fn logit_out(self_: &Tensor, eps: Option<f64>, out: &Tensor) -> Result<Tensor> {
    logit_into(self_, eps, Some(out))
}

/// `nan_to_num`.
pub fn nan_to_num(
    self_: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Tensor> {
    let dtype = self_.dtype();
    if dtype.is_complex() {
        // The parts of complex numbers are replaced one by one.
        let parts = nan_to_num(&op::view_as_real(self_)?, nan, posinf, neginf)?;
        return op::view_as_complex(&parts);
    }
    let greatest = greatest_finite(dtype)?;
    let iter = plan_nan_to_num(self_, None)?;
    if dtype.is_integral(true) {
        return finished(iter, &IDENTITY, &[]);
    }
    let numbers = [nan.unwrap_or(0.0), posinf.unwrap_or(greatest), neginf.unwrap_or(-greatest)];
    finished(iter, &NAN_TO_NUM, &numbers.map(Scalar::Float))
}
