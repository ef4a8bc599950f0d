//! Complex numbers as expressions of one lane.
//!
//! Arithmetic is done in the element's precision, functions in `f64`. The order is that of the
//! real parts; functions without a complex meaning give NaN, and operators' domains keep complex
//! tensors away from them.
//!
//! Functions have the special values of annex G of the C standard, which PyTorch and NumPy have too;
//! products and quotients are without its recovery of infinities, as theirs are.

mod exponential;
mod inverse;
mod pairs;
mod power;
mod quotient;

use super::lanes::{Lanes, no_bits};
use super::scalar::one_lane;
use crate::vec::expr::Expr;
use corten_core::Complex;
use exponential::{cosh, exp, exp2, expm1, sigmoid, sin, sinh, tanh};
pub(crate) use inverse::log_add_exp;
use inverse::{acos, acosh, asin, atanh, log, log1p, log2, log10};
use power::pow;
use quotient::{divide, divide_single, reciprocal, sqrt};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A complex number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Cplx<T>(Complex<T>);

type C = Complex<f64>;

/// Unary functions, computed in `f64`.
macro_rules! functions {
    ($part:ty: $($method:ident = $call:expr;)+) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            let call: fn(C) -> C = $call;
            Self::narrow(call(self.wide()))
        }
    )+};
}

/// Functions that complex numbers do not have.
macro_rules! undefined {
    (unary $($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            Self::lit(f64::NAN)
        }
    )+};
    (binary $($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self, _: Self) -> Self {
            Self::lit(f64::NAN)
        }
    )+};
}

macro_rules! complex {
    ($($part:ty: $divide:ident, $radius:ident, $exact:expr;)+) => {$(
        one_lane!(Cplx<$part>, Complex<$part>, Cplx);

        impl Cplx<$part> {
            #[inline(always)]
            fn wide(self) -> C {
                Complex::new(self.0.re as f64, self.0.im as f64)
            }
            #[inline(always)]
            fn narrow(value: C) -> Self {
                Self(Complex::new(value.re as $part, value.im as $part))
            }
        }

        complex!(@operators $part: Add add +, Sub sub -, Mul mul *);

        impl Div for Cplx<$part> {
            type Output = Self;
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                Self::narrow($divide(self.wide(), other.wide()))
            }
        }

        impl Neg for Cplx<$part> {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Self(-self.0)
            }
        }

        impl Expr for Cplx<$part> {
            type Mask = bool;

            #[inline(always)]
            fn lit(value: f64) -> Self {
                Self(Complex::new(value as $part, 0.0))
            }
            #[inline(always)]
            fn select(mask: bool, yes: Self, no: Self) -> Self {
                if mask { yes } else { no }
            }
            #[inline(always)]
            fn lt(self, other: Self) -> bool {
                self.0.re < other.0.re
            }
            #[inline(always)]
            fn le(self, other: Self) -> bool {
                self.0.re <= other.0.re
            }
            #[inline(always)]
            fn eq(self, other: Self) -> bool {
                self.0 == other.0
            }
            #[inline(always)]
            fn ne(self, other: Self) -> bool {
                self.0 != other.0
            }
            #[inline(always)]
            fn is_inf(self) -> bool {
                self.0.re.is_infinite() || self.0.im.is_infinite()
            }
            #[inline(always)]
            fn sign_bit(self) -> bool {
                self.0.re.is_sign_negative()
            }
            #[inline(always)]
            fn conj(self) -> Self {
                Self(self.0.conj())
            }
            #[inline(always)]
            fn angle(self) -> Self {
                Self::narrow(Complex::new(self.wide().arg(), 0.0))
            }
            /// A real factor scales, so that an infinite part leaves the other one alone.
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                let real = Complex::new(self.0.re * a.0.re, self.0.im * a.0.re);
                Self(if a.0.im == 0.0 { real } else { self.0 * a.0 } + b.0)
            }
            /// z / |z|, and 0 for 0.
            #[inline(always)]
            fn sign(self) -> Self {
                let z = self.wide();
                let r = $radius(z);
                if r == 0.0 { Self::lit(0.0) } else { Self::narrow(z / r) }
            }
            functions! { $part:
                abs = |z| Complex::new($radius(z), 0.0);
                sqrt = sqrt; exp = exp; log = log;
                rsqrt = |z| reciprocal(sqrt(z));
                reciprocal = |z| $divide(Complex::new(1.0, 0.0), z);
                exp2 = exp2; expm1 = expm1; log1p = log1p; log2 = log2; log10 = log10;
                sin = sin;
                cos = |z| cosh(turn(z));
                tan = |z| unturn(tanh(turn(z)));
                asin = asin; acos = acos; atan = |z| unturn(atanh(turn(z)));
                sinh = sinh; cosh = cosh; tanh = tanh;
                asinh = |z| unturn(asin(turn(z))); acosh = acosh; atanh = atanh;
                sigmoid = sigmoid;
            }
            #[inline(always)]
            fn log_add_exp(self, other: Self) -> Self {
                Self::narrow(log_add_exp(other.wide(), self.wide()))
            }
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self {
                Self::narrow(pow(self.wide(), exponent.wide(), $exact))
            }
            undefined!(unary floor ceil trunc round erf erfc);
            undefined!(binary copysign fmod floor_divide atan2 hypot);
            no_bits!();
        }
    )+};
    (@operators $part:ty: $($trait:ident $method:ident $op:tt),+) => {$(
        impl $trait for Cplx<$part> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(self.0 $op other.0)
            }
        }
    )+};
}

complex! {
    f32: divide_single, radius_single, 1e4;
    f64: divide, radius, 16.0;
}

fn radius(z: C) -> f64 {
    z.re.hypot(z.im)
}

/// The magnitude of a number of single precision, whose squares are exact and within the range.
#[inline(always)]
fn radius_single(z: C) -> f64 {
    let r = (z.re * z.re + z.im * z.im).sqrt();
    // An infinite part outweighs one that is NaN.
    if r.is_nan() { radius(z) } else { r }
}

/// i z.
fn turn(z: C) -> C {
    Complex::new(-z.im, z.re)
}

/// -i z.
fn unturn(z: C) -> C {
    Complex::new(z.im, -z.re)
}
