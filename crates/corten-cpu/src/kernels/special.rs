//! Functions that look at the bits of numbers, and random slopes.

use super::pointwise::operators;
use crate::expr::{Expr, Pointwise2, pointwise2};
use crate::kernels::support::{contiguous, empty_as, match_types};
use corten_core::{DType, Reader, Result, Scalar, Writer, cast};
use corten_ops::iter::TensorIterator;
use corten_ops::meta::{Domain, special as shapes};
use corten_ops::{Tensor, op};

operators! {
    NextDouble: Pointwise2 Float |x, y; _s| x.each2(y, libm::nextafter);
    NextSingle: Pointwise2 Float |x, y; _s| x.each2(y, |x, y| next(x as f32, y as f32, 1).into());
    // The neighbours of a number that has fewer bits, among numbers with all bits.
    NextBrain: Pointwise2 Float |x, y; _s| x.each2(y, |x, y| next(x as f32, y as f32, 1 << 16).into());
    NextHalf: Pointwise2 Float |x, y; _s| x.each2(y, next_half);
}

/// The neighbour of `x` towards `y` where numbers are `step` apart in their bits.
fn next(x: f32, y: f32, step: u32) -> f32 {
    if x.is_nan() || y.is_nan() {
        return x + y;
    }
    if x == y {
        return y;
    }
    if x == 0.0 {
        return f32::from_bits(step).copysign(y);
    }
    let away = (x < y) == (x > 0.0);
    let bits = x.to_bits();
    f32::from_bits(if away { bits + step } else { bits - step })
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
        DType::Float64 => pointwise2::<NextDouble>(iter, scalars),
        DType::BFloat16 => pointwise2::<NextBrain>(iter, scalars),
        DType::Float16 => pointwise2::<NextHalf>(iter, scalars),
        _ => pointwise2::<NextSingle>(iter, scalars),
    }
}

/// `frexp`.
///
/// # Errors
/// `Runtime` for dtypes other than floating point.
pub fn frexp(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let (mantissa, exponent) = shapes::frexp(self_)?;
    let input = contiguous(self_)?;
    let fractions = empty_as(&self_.sizes(), self_, self_.dtype())?;
    let powers = empty_as(&self_.sizes(), self_, DType::Int32)?;
    match_types!(self_.dtype(), "frexp", T => {
        let input = Reader::<T>::new(&input)?;
        let mut fractions = Writer::<T>::new(&fractions)?;
        let mut powers = Writer::<i32>::new(&powers)?;
        for ((x, fraction), power) in input.iter().zip(&mut *fractions).zip(&mut *powers) {
            let x: f64 = cast(*x);
            let (value, exponent) = if x.is_finite() { libm::frexp(x) } else { (x, 0) };
            (*fraction, *power) = (cast(value), exponent);
        }
        Ok(())
    }, [
        Float16 ::corten_core::f16, BFloat16 ::corten_core::bf16, Float32 f32, Float64 f64,
    ])?;
    Ok((op::copy_(&mantissa, &fractions, false)?, op::copy_(&exponent, &powers, false)?))
}
