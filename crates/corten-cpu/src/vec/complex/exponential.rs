//! The exponential function, the hyperbolic ones and their kin, in `f64`. Special values are those
//! of annex G of the C standard.

use super::C;
use super::pairs::{self, Pair};
use super::quotient::reciprocal;
use corten_core::Complex;
use std::f64::consts;

/// Exponents up to here have a power of e within the range.
const LARGE: f64 = 709.0;

/// `e^x · factor`, of which e^x alone may lie beyond the range.
fn times_exp(mut x: f64, mut factor: f64) -> f64 {
    for _ in 0..2 {
        if x > LARGE {
            factor *= LARGE.exp();
            x -= LARGE;
        }
    }
    x.exp() * factor
}

/// `2^x · factor`, of which 2^x alone may lie beyond the range.
fn times_exp2(mut x: f64, mut factor: f64) -> f64 {
    for _ in 0..2 {
        if x > 1023.0 {
            factor *= 1023f64.exp2();
            x -= 1023.0;
        }
    }
    x.exp2() * factor
}

/// A power whose angle is not finite.
fn without_angle(z: C) -> C {
    match z.re {
        f64::NEG_INFINITY => Complex::new(0.0, 0f64.copysign(z.im)),
        f64::INFINITY => Complex::new(z.re, f64::NAN),
        _ => Complex::new(f64::NAN, f64::NAN),
    }
}

pub(super) fn exp(z: C) -> C {
    if z.im == 0.0 {
        return Complex::new(z.re.exp(), z.im);
    }
    if !z.im.is_finite() {
        return without_angle(z);
    }
    let (sin, cos) = z.im.sin_cos();
    polar_exp(z.re, sin, cos)
}

/// `e^x (cos + i sin)`.
pub(super) fn polar_exp(x: f64, sin: f64, cos: f64) -> C {
    if x > LARGE {
        let part = |factor: f64| if factor == 0.0 { factor } else { times_exp(x, factor) };
        return Complex::new(part(cos), part(sin));
    }
    let r = x.exp();
    Complex::new(r * cos, r * sin)
}

pub(super) fn exp2(z: C) -> C {
    /// What `f64` leaves of the natural logarithm of 2.
    const REST: f64 = 2.319_046_813_846_299_6e-17;

    if z.im == 0.0 {
        return Complex::new(z.re.exp2(), z.im);
    }
    if !z.im.is_finite() {
        return without_angle(z);
    }
    let angle = z.im * consts::LN_2;
    let (mut sin, mut cos) = angle.sin_cos();
    // Beyond, two numbers do not hold enough digits of the logarithm.
    if z.im.abs() < 1e15 {
        let rest = z.im.mul_add(consts::LN_2, -angle) + z.im * REST;
        let (small, large) = rest.sin_cos();
        (sin, cos) = (sin * large + cos * small, cos * large - sin * small);
    }
    Complex::new(times_exp2(z.re, cos), times_exp2(z.re, sin))
}

/// e^x cos y - 1 = (e^x - 1) cos y - 2 sin²(y/2), without cancellation near zero. Special values are
/// what this formula makes of them, as in PyTorch and NumPy.
pub(super) fn expm1(z: C) -> C {
    let ((sin, cos), half) = (z.im.sin_cos(), (0.5 * z.im).sin());
    let (first, second) = (z.re.exp_m1() * cos, 2.0 * half * half);
    let mut re = first - second;
    if z.re > LARGE && z.re.is_finite() {
        re = times_exp(z.re, cos);
    } else if re.abs() < 0.25 * second && z.im.abs() < MOST {
        let half = pairs::sin_cos(0.5 * z.im).0;
        let first = pairs::exp_m1(z.re) * pairs::sin_cos(z.im).1;
        re = (first + -(half * half).scaled(2.0)).value();
    }
    Complex::new(re, times_exp(z.re, sin))
}

/// Angles up to here have a sine in pairs.
const MOST: f64 = 524_288.0;

/// 1 / (1 + e^-z).
pub(super) fn sigmoid(z: C) -> C {
    let power = exp(Complex::new(0.0, 0.0) - z);
    let mut re = 1.0 + power.re;
    if re.abs() < 0.25 && z.im.abs() < MOST {
        let product = pairs::exp(-z.re) * pairs::sin_cos(z.im).1;
        re = (product + Pair::of(1.0)).value();
    }
    reciprocal(Complex::new(re, power.im))
}

pub(super) fn sinh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return Complex::new(x.sinh(), y);
    }
    if !y.is_finite() {
        let re = if x == 0.0 { x } else { x.abs() };
        let known = x == 0.0 || x.is_infinite();
        return Complex::new(if known { re } else { f64::NAN }, f64::NAN);
    }
    let (sin, cos) = y.sin_cos();
    if x.abs() > LARGE {
        let half = 0.5f64.copysign(x);
        return Complex::new(times_exp(x.abs(), half * cos), times_exp(x.abs(), 0.5 * sin));
    }
    Complex::new(x.sinh() * cos, x.cosh() * sin)
}

/// -i sinh(iz); where both parts are not finite the sign of the infinity is PyTorch's and NumPy's, as
/// the standard leaves it open.
pub(super) fn sin(z: C) -> C {
    if z.im.is_infinite() && !z.re.is_finite() {
        return Complex::new(f64::NAN, f64::INFINITY);
    }
    let turned = sinh(Complex::new(-z.im, z.re));
    Complex::new(turned.im, -turned.re)
}

pub(super) fn cosh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return Complex::new(x.cosh(), if x.is_nan() { y } else { y * 1f64.copysign(x) });
    }
    if !y.is_finite() {
        let re = if x.is_infinite() { f64::INFINITY } else { f64::NAN };
        return Complex::new(re, if x == 0.0 { 0.0 } else { f64::NAN });
    }
    let (sin, cos) = y.sin_cos();
    if x.abs() > LARGE {
        let half = 0.5f64.copysign(x);
        return Complex::new(times_exp(x.abs(), 0.5 * cos), times_exp(x.abs(), half * sin));
    }
    Complex::new(x.cosh() * cos, x.sinh() * sin)
}

pub(super) fn tanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return Complex::new(x.tanh(), y);
    }
    if !y.is_finite() {
        return match x.is_infinite() {
            true => Complex::new(1f64.copysign(x), 0f64.copysign(y)),
            false => Complex::new(if x == 0.0 { x } else { f64::NAN }, f64::NAN),
        };
    }
    let (sin, cos) = y.sin_cos();
    // Beyond, the real part differs from one by less than a rounding.
    if x.abs() > 22.0 {
        let im = 4.0 * sin * cos * (-2.0 * x.abs()).exp();
        return Complex::new(1f64.copysign(x), im);
    }
    let sinh = x.sinh();
    let below = sinh * sinh + cos * cos;
    Complex::new(sinh * x.cosh() / below, sin * cos / below)
}
