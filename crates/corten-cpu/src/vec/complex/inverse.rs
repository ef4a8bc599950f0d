//! Logarithms and the inverse trigonometric and hyperbolic functions, in `f64`. Special values are
//! those of annex G of the C standard.

use super::C;
use super::exponential::exp;
use super::pairs::{Pair, two_product};
use corten_core::Complex;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, LN_10, LOG2_E, PI};

/// A power of two by which the largest and the least numbers are scaled.
const SCALE: f64 = 1.267_650_600_228_229_4e30;
const SCALE_LOG2: f64 = 100.0;

pub(super) fn log(z: C) -> C {
    let re = match near_one(z) {
        Some(excess) => 0.5 * log1p_pair(excess),
        None => {
            let (r, power) = radius(z);
            r.ln() + power * LN_2
        }
    };
    Complex::new(re, z.im.atan2(z.re))
}

pub(super) fn log2(z: C) -> C {
    let re = match near_one(z) {
        Some(excess) => 0.5 * LOG2_E * log1p_pair(excess),
        None => {
            let (r, power) = radius(z);
            r.log2() + power
        }
    };
    Complex::new(re, z.im.atan2(z.re) / LN_2)
}

pub(super) fn log10(z: C) -> C {
    let re = match near_one(z) {
        Some(excess) => 0.5 / LN_10 * log1p_pair(excess),
        None => {
            let (r, power) = radius(z);
            r.log10() + power * (LN_2 / LN_10)
        }
    };
    Complex::new(re, z.im.atan2(z.re) / LN_10)
}

/// The magnitude with all of its digits, and the power of two that it lacks.
fn radius(z: C) -> (f64, f64) {
    let r = z.re.hypot(z.im);
    if r >= f64::MAX && z.re.is_finite() && z.im.is_finite() {
        return ((z.re / SCALE).hypot(z.im / SCALE), SCALE_LOG2);
    }
    if r < 1e-290 && r > 0.0 {
        return ((z.re * SCALE).hypot(z.im * SCALE), -SCALE_LOG2);
    }
    (r, 0.0)
}

/// `|z|² - 1` where the logarithm of the magnitude is so small that the magnitude's rounding shows.
fn near_one(z: C) -> Option<Pair> {
    let (x, y) = (z.re.abs().max(z.im.abs()), z.re.abs().min(z.im.abs()));
    if !(0.5..=2.0).contains(&x) || y.is_nan() {
        return None;
    }
    let (first, second) = (two_product(x, x), two_product(y, y));
    let excess = first + Pair::of(-1.0) + second;
    (excess.high.abs() < 0.75).then_some(excess)
}

fn log1p_pair(x: Pair) -> f64 {
    x.high.ln_1p() + x.low / (1.0 + x.high)
}

pub(super) fn log1p(z: C) -> C {
    let (x, y) = (z.re, z.im);
    let angle = y.atan2(1.0 + x);
    if y == 0.0 && x >= -1.0 {
        return Complex::new(x.ln_1p(), angle);
    }
    if x > -2.5 && x < 0.5 && y.abs() < 1.5 {
        // |1 + z|² - 1 = 2x + x² + y².
        let excess = Pair::of(2.0 * x) + two_product(x, x) + two_product(y, y);
        if excess.high.abs() < 0.75 {
            return Complex::new(0.5 * log1p_pair(excess), angle);
        }
    }
    let (r, power) = radius(Complex::new(1.0 + x, y));
    Complex::new(r.ln() + power * LN_2, angle)
}

/// The logarithm of the sum of two exponentials, with PyTorch's special values; `sum` is the one of
/// those before.
pub(crate) fn log_add_exp(sum: C, next: C) -> C {
    if [sum.re, sum.im, next.re, next.im].iter().any(|part| part.is_nan()) {
        return Complex::new(f64::NAN, f64::NAN);
    }
    let (low, high) = if next.re < sum.re { (next, sum) } else { (sum, next) };
    match low.re == high.re && low.re.is_infinite() {
        false => log1p(exp(low - high)) + high,
        true if low.re < 0.0 => low,
        true => log(exp(low) + exp(high)),
    }
}

// The inverse sine and cosine after T. E. Hull, T. F. Fairgrieve and P. T. P. Tang, "Implementing the
// complex arcsine and arccosine functions using exception handling", with their names: for x + iy
// in the first quadrant, a is half the sum of the distances from 1 and -1, and b is x / a.

/// The real parts of the inverse sine and cosine and the imaginary part of the first, of a number in
/// the first quadrant.
struct Arc {
    sine: f64,
    cosine: f64,
    im: f64,
}

/// Beyond the square roots of the least and the largest number, squares are not what they should be.
const LEAST: f64 = 5.966_672_584_960_165e-154;
const MOST: f64 = 1.675_975_991_242_824_6e153;

fn arc(x: f64, y: f64) -> Arc {
    let ordinary = LEAST..MOST;
    if !ordinary.contains(&x) || !ordinary.contains(&y) {
        return far_arc(x, y);
    }
    let (above, below) = ((x + 1.0).hypot(y), (x - 1.0).hypot(y));
    let a = 0.5 * (above + below);
    let b = x / a;
    let (sine, cosine) = match b <= 0.6417 {
        true => (b.asin(), b.acos()),
        false => {
            // √(a² - x²)
            let other = match x <= 1.0 {
                true => (0.5 * (a + x) * (y * y / (above + x + 1.0) + (below + (1.0 - x)))).sqrt(),
                false => {
                    let sum = (a + x) / (above + x + 1.0) + (a + x) / (below + (x - 1.0));
                    y * (0.5 * sum).sqrt()
                }
            };
            (x.atan2(other), other.atan2(x))
        }
    };
    let im = match a <= 1.5 {
        true => {
            let rest = if x < 1.0 { y * y / (below + (1.0 - x)) } else { below + (x - 1.0) };
            let excess = 0.5 * (y * y / (above + x + 1.0) + rest);
            (excess + (excess * (a + 1.0)).sqrt()).ln_1p()
        }
        false => (a + (a * a - 1.0).sqrt()).ln(),
    };
    Arc { sine, cosine, im }
}

/// [`arc`] where a part is so large or so small that squares would not be right.
fn far_arc(x: f64, y: f64) -> Arc {
    if y <= f64::EPSILON / 2.0 * (x - 1.0).abs() {
        if x < 1.0 {
            let root = ((1.0 - x) * (1.0 + x)).sqrt();
            return Arc { sine: x.asin(), cosine: x.acos(), im: y / root };
        }
        if x > MOST {
            return Arc { sine: FRAC_PI_2, cosine: y / x, im: LN_2 + x.ln() };
        }
        let root = ((x - 1.0) * (x + 1.0)).sqrt();
        let cosine = if y == 0.0 { y } else { y / root };
        return Arc { sine: FRAC_PI_2, cosine, im: (x - 1.0 + root).ln_1p() };
    }
    if y < LEAST {
        // All other numbers near 1 are at a larger distance.
        let root = y.sqrt();
        return Arc { sine: FRAC_PI_2 - root, cosine: root, im: root };
    }
    if f64::EPSILON / 2.0 * y >= x + 1.0 {
        return Arc { sine: x / y, cosine: FRAC_PI_2, im: LN_2 + y.ln() };
    }
    if x > 1.0 {
        let ratio = x / y;
        let im = LN_2 + y.ln() + 0.5 * (ratio * ratio).ln_1p();
        return Arc { sine: ratio.atan(), cosine: y.atan2(x), im };
    }
    // The real part is tiny.
    let a = y.hypot(1.0);
    Arc { sine: x / a, cosine: FRAC_PI_2, im: 0.5 * (2.0 * y * (y + a)).ln_1p() }
}

pub(super) fn asin(z: C) -> C {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (re, im) = match (x.is_nan(), y.is_nan()) {
        (false, false) if x.is_infinite() || y.is_infinite() => {
            (x_of_infinite(y, x), f64::INFINITY)
        }
        (false, false) => {
            let arc = arc(x, y);
            (arc.sine, arc.im)
        }
        (false, true) if x == 0.0 => (x, y),
        (false, true) if x.is_infinite() => (f64::NAN, x),
        (true, false) if y.is_infinite() => (f64::NAN, y),
        _ => (f64::NAN, f64::NAN),
    };
    Complex::new(re.copysign(z.re), im.copysign(z.im))
}

/// The angle whose tangent is `y / x`, one of which at least is infinite.
fn x_of_infinite(x: f64, y: f64) -> f64 {
    match (x.is_infinite(), y.is_infinite()) {
        (true, true) => FRAC_PI_4,
        (true, false) => 0.0,
        _ => FRAC_PI_2,
    }
}

pub(super) fn acos(z: C) -> C {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (re, im) = match (x.is_nan(), y.is_nan()) {
        (false, false) if x.is_infinite() || y.is_infinite() => {
            (x_of_infinite(x, y), f64::INFINITY)
        }
        (false, false) => {
            let arc = arc(x, y);
            (arc.cosine, arc.im)
        }
        (false, true) if x == 0.0 => (FRAC_PI_2, y),
        (false, true) if x.is_infinite() => (f64::NAN, x),
        (true, false) if y.is_infinite() => (f64::NAN, y),
        _ => (f64::NAN, f64::NAN),
    };
    let re = if z.re.is_sign_negative() { PI - re } else { re };
    Complex::new(re, -im.copysign(z.im))
}

pub(super) fn acosh(z: C) -> C {
    let arc = acos(z);
    Complex::new(arc.im.abs(), arc.re.copysign(z.im))
}

pub(super) fn atanh(z: C) -> C {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (re, im) = match (x.is_nan(), y.is_nan()) {
        (false, false) => first_quadrant_atanh(x, y),
        (false, true) if x == 0.0 || x.is_infinite() => (0.0, y),
        (true, false) if y.is_infinite() => (0.0, FRAC_PI_2),
        _ => (f64::NAN, f64::NAN),
    };
    Complex::new(re.copysign(z.re), im.copysign(z.im))
}

fn first_quadrant_atanh(x: f64, y: f64) -> (f64, f64) {
    /// The reciprocal of a number beyond is the function's difference from iπ/2 or its value.
    const LARGE: f64 = 1e17;

    if x > LARGE || y > LARGE {
        return (reciprocal_part(x, y), FRAC_PI_2);
    }
    if y == 0.0 && x <= 1.0 {
        return (x.atanh(), y);
    }
    let away = (1.0 - x) * (1.0 + x);
    let (square, im) = match y < LEAST {
        true => (0.0, (2.0 * y).atan2(away)),
        false => (y * y, (2.0 * y).atan2(away - y * y)),
    };
    let re = match x == 1.0 && y < f64::EPSILON {
        true => 0.5 * (LN_2 - y.ln()),
        false => 0.25 * (4.0 * x / ((1.0 - x) * (1.0 - x) + square)).ln_1p(),
    };
    (re, 0.5 * im)
}

/// The real part of `1 / (x - iy)`.
fn reciprocal_part(x: f64, y: f64) -> f64 {
    if x.is_infinite() || y.is_infinite() {
        return 0.0;
    }
    if x >= y { 1.0 / (x + y * (y / x)) } else { x / y / (x * (x / y) + y) }
}
