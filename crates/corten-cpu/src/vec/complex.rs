//! Complex numbers as expressions of one lane.
//!
//! Arithmetic is done in the element's precision, functions in `f64`. The order is that of the
//! real parts; functions without a complex meaning give NaN, and operators' domains keep complex
//! tensors away from them.

use super::lanes::{Lanes, no_bits};
use super::scalar::one_lane;
use crate::expr::Expr;
use corten_core::Complex;
use std::f64::consts;
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
    ($($part:ty)+) => {$(
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
                Self::narrow(divide(self.wide(), other.wide()))
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
                let r = z.re.hypot(z.im);
                if r == 0.0 { Self::lit(0.0) } else { Self::narrow(z / r) }
            }
            functions! { $part:
                abs = |z| Complex::new(z.re.hypot(z.im), 0.0);
                sqrt = sqrt; exp = exp; log = log;
                rsqrt = |z| reciprocal(sqrt(z));
                reciprocal = reciprocal;
                exp2 = |z| exp(z * consts::LN_2);
                expm1 = expm1; log1p = log1p;
                log2 = |z| log(z) / consts::LN_2;
                log10 = |z| log(z) / consts::LN_10;
                sin = |z| unturn(sinh(turn(z)));
                cos = |z| cosh(turn(z));
                tan = |z| unturn(tanh(turn(z)));
                asin = asin; acos = acos; atan = |z| unturn(atanh(turn(z)));
                sinh = sinh; cosh = cosh; tanh = tanh;
                asinh = |z| unturn(asin(turn(z))); acosh = acosh; atanh = atanh;
            }
            /// Computed in `f64` to the end.
            #[inline(always)]
            fn sigmoid(self) -> Self {
                Self::narrow(reciprocal(Complex::new(1.0, 0.0) + exp(-self.wide())))
            }
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self {
                Self::narrow(pow(self.wide(), exponent.wide()))
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

complex! { f32 f64 }

/// Smith's division: no overflow on the way.
fn divide(a: C, b: C) -> C {
    if b.re.abs() >= b.im.abs() {
        if b.re == 0.0 && b.im == 0.0 {
            return Complex::new(a.re / b.re.abs(), a.im / b.re.abs());
        }
        let ratio = b.im / b.re;
        let scale = 1.0 / (b.re + b.im * ratio);
        Complex::new((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale)
    } else {
        let ratio = b.re / b.im;
        let scale = 1.0 / (b.re * ratio + b.im);
        Complex::new((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale)
    }
}

fn reciprocal(z: C) -> C {
    divide(Complex::new(1.0, 0.0), z)
}

/// i z.
fn turn(z: C) -> C {
    Complex::new(-z.im, z.re)
}

/// -i z.
fn unturn(z: C) -> C {
    Complex::new(z.im, -z.re)
}

/// The root with a non-negative real part.
fn sqrt(z: C) -> C {
    if z.im.is_infinite() {
        return Complex::new(f64::INFINITY, z.im);
    }
    if z.re == 0.0 && z.im == 0.0 {
        return Complex::new(0.0, z.im);
    }
    let large = ((z.re.abs() + z.re.hypot(z.im)) / 2.0).sqrt();
    let small = z.im / (2.0 * large);
    if z.re >= 0.0 {
        Complex::new(large, small)
    } else {
        Complex::new(small.abs(), large.copysign(z.im))
    }
}

fn exp(z: C) -> C {
    let r = z.re.exp();
    if z.im == 0.0 {
        return Complex::new(r, z.im);
    }
    if r == 0.0 || (r.is_infinite() && !z.im.is_finite()) {
        return Complex::new(r, 0.0);
    }
    Complex::new(r * z.im.cos(), r * z.im.sin())
}

fn expm1(z: C) -> C {
    // e^x cos y - 1 = (e^x - 1) cos y - 2 sin²(y/2), without cancellation near 0.
    let half = (0.5 * z.im).sin();
    let re = z.re.exp_m1() * z.im.cos() - 2.0 * half * half;
    Complex::new(re, z.re.exp() * z.im.sin())
}

fn log(z: C) -> C {
    Complex::new(z.re.hypot(z.im).ln(), z.im.atan2(z.re))
}

fn log1p(z: C) -> C {
    let (x, y) = (z.re, z.im);
    let near = x.abs() < 0.5 && y.abs() < 0.5;
    // ln|1 + z| = ½ ln(1 + (2x + x² + y²)).
    let re = if near { 0.5 * (x * (2.0 + x) + y * y).ln_1p() } else { (1.0 + x).hypot(y).ln() };
    Complex::new(re, y.atan2(1.0 + x))
}

fn sinh(z: C) -> C {
    Complex::new(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin())
}

fn cosh(z: C) -> C {
    Complex::new(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin())
}

/// Kahan's formula; the sign of the imaginary part survives where the real part is large.
fn tanh(z: C) -> C {
    if z.re.abs() > 20.0 {
        let small = 4.0 * z.im.sin() * z.im.cos() * (-2.0 * z.re.abs()).exp();
        return Complex::new(1f64.copysign(z.re), small);
    }
    let t = z.im.tan();
    if t.is_infinite() {
        return Complex::new(1.0 / z.re.tanh(), 0.0);
    }
    let s = z.re.sinh();
    let beta = 1.0 + t * t;
    let rho = (1.0 + s * s).sqrt();
    let below = 1.0 + beta * s * s;
    Complex::new(beta * rho * s / below, t / below)
}

/// √(1 - z) and √(1 + z). The sign of a zero imaginary part tells the sides of a cut apart.
fn roots(z: C) -> (C, C) {
    (sqrt(Complex::new(1.0 - z.re, -z.im)), sqrt(Complex::new(1.0 + z.re, z.im)))
}

// The inverse functions after W. Kahan, "Branch cuts for complex elementary functions".

fn asin(z: C) -> C {
    let (minus, plus) = roots(z);
    let im = (minus.re * plus.im - minus.im * plus.re).asinh();
    Complex::new(z.re.atan2(minus.re * plus.re - minus.im * plus.im), im)
}

fn acos(z: C) -> C {
    let (minus, plus) = roots(z);
    let im = (plus.re * minus.im - plus.im * minus.re).asinh();
    Complex::new(2.0 * minus.re.atan2(plus.re), im)
}

fn acosh(z: C) -> C {
    let minus = sqrt(Complex::new(z.re - 1.0, z.im));
    let plus = sqrt(Complex::new(z.re + 1.0, z.im));
    let re = (minus.re * plus.re + minus.im * plus.im).asinh();
    Complex::new(re, 2.0 * minus.im.atan2(plus.re))
}

fn atanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    let away = (1.0 - x) * (1.0 - x) + y * y;
    let re = 0.25 * (4.0 * x / away).ln_1p();
    Complex::new(re, 0.5 * (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y))
}

fn pow(base: C, exponent: C) -> C {
    if exponent.re == 0.0 && exponent.im == 0.0 {
        return Complex::new(1.0, 0.0);
    }
    if base.re == 0.0 && base.im == 0.0 {
        let zero = exponent.re > 0.0;
        return if zero { Complex::new(0.0, 0.0) } else { Complex::new(f64::NAN, f64::NAN) };
    }
    exp(exponent * log(base))
}
