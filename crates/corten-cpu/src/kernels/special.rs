//! Functions that look at the bits of numbers, and random slopes.

use super::pointwise::operators;
use crate::kernels::support::{contiguous, empty_as};
use crate::pointwise::{Pointwise2, pointwise2};
use crate::vec::expr::Expr;
use corten_core::{DType, Reader, Result, Scalar, Writer, cast, match_dtype};
use corten_ops::iter::TensorIterator;
use corten_ops::meta::{Domain, special as shapes};
use corten_ops::{Tensor, op};

operators! {
    Next: Pointwise2 Float |x, y; _s| x.nextafter(y);
    // The neighbours of a number that has fewer bits, among numbers with all bits.
    NextBrain: Pointwise2 Float |x, y; _s| x.each2(y, next_brain);
    NextHalf: Pointwise2 Float |x, y; _s| x.each2(y, next_half);
}

fn next_brain(x: f64, y: f64) -> f64 {
    let (x, y) = (x as f32, y as f32);
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y.into();
    }
    // One in the last of the bits that the number has.
    const STEP: u32 = 1 << 16;
    if x == 0.0 {
        return f32::from_bits(STEP).copysign(y).into();
    }
    let away = (x < y) == (x > 0.0);
    let bits = x.to_bits();
    f32::from_bits(if away { bits + STEP } else { bits - STEP }).into()
}

fn next_half(x: f64, y: f64) -> f64 {
    use corten_core::f16;
    let (x, y) = (f16::from_f64(x), f16::from_f64(y));
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y.to_f64();
    }
    if x == f16::ZERO {
        return f16::from_bits(1).to_f64().copysign(y.to_f64());
    }
    let away = (x < y) == (x > f16::ZERO);
    let bits = x.to_bits();
    f16::from_bits(if away { bits + 1 } else { bits - 1 }).to_f64()
}

/// `nextafter`.
///
/// # Errors
/// Those of the loop.
pub fn nextafter(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    match iter.input_dtype() {
        DType::BFloat16 => pointwise2::<NextBrain>(iter, scalars),
        DType::Float16 => pointwise2::<NextHalf>(iter, scalars),
        _ => pointwise2::<Next>(iter, scalars),
    }
}

/// `frexp`.
///
/// # Errors
/// `Runtime` for dtypes other than floating point.
pub fn frexp(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let (mantissa, exponent) = shapes::frexp(self_)?;
    let input = contiguous(self_)?;
    // Results in the order of their elements are written where they belong.
    let in_order = mantissa.is_contiguous() && exponent.is_contiguous();
    let (fractions, powers) = match in_order {
        true => (mantissa.clone(), exponent.clone()),
        false => (
            empty_as(&self_.sizes(), self_, self_.dtype())?,
            empty_as(&self_.sizes(), self_, DType::Int32)?,
        ),
    };
    match_dtype!(self_.dtype(), "frexp", Float, T => {
        let input = Reader::<T>::new(&input)?;
        let mut fractions = Writer::<T>::new(&fractions)?;
        let mut powers = Writer::<i32>::new(&powers)?;
        for ((x, fraction), power) in input.iter().zip(&mut *fractions).zip(&mut *powers) {
            let (value, exponent) = fraction_and_power(cast(*x));
            (*fraction, *power) = (cast(value), exponent);
        }
        Ok(())
    })?;
    if in_order {
        return Ok((mantissa, exponent));
    }
    Ok((op::copy_(&mantissa, &fractions, false)?, op::copy_(&exponent, &powers, false)?))
}

/// The number in [½, 1), and the power of two that it is to be multiplied with. Without branches, so
/// that the loop becomes one of vectors.
#[inline(always)]
fn fraction_and_power(x: f64) -> (f64, i32) {
    const BIAS: i32 = 1022;
    let tiny = x.abs() < f64::MIN_POSITIVE;
    let (factor, shift) = if tiny { ((1u64 << 54) as f64, 54) } else { (1.0, 0) };
    let bits = (x * factor).to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - BIAS - shift;
    let fraction = f64::from_bits(bits & !(0x7ff << 52) | (BIAS as u64) << 52);
    let itself = x == 0.0 || !x.is_finite();
    if itself { (x, 0) } else { (fraction, exponent) }
}
