//! Pointwise operators that are more than an expression of tensors and numbers.

use crate::pointwise::{Expression, run};
use corten_core::{Element, Result, Scalar, match_dtype};
use corten_ops::TensorIterator;
use corten_ops::meta::Domain;

macro_rules! expressions {
    ($($name:ident = $operator:literal, $message:literal, $inputs:literal, $domain:ident;)+) => {$(
        static $name: Expression = Expression {
            name: $message, operator: $operator, text: "", inputs: $inputs, domain: Domain::$domain,
        };
    )+};
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
