//! Quotients and square roots of complex numbers.

use super::C;
use super::pairs::sum_of_products;
use corten_core::Complex;
use std::ops::Range;

/// The quotient of numbers of single precision, whose products are exact and within the range.
#[inline(always)]
pub(super) fn divide_single(a: C, b: C) -> C {
    let norm = b.re * b.re + b.im * b.im;
    let re = (a.re * b.re + a.im * b.im) / norm;
    let im = (a.im * b.re - a.re * b.im) / norm;
    let ordinary = re.is_finite() && im.is_finite() && re != 0.0 && im != 0.0;
    if ordinary { Complex::new(re, im) } else { checked(a, b, Complex::new(re, im)) }
}

/// The quotient with small errors of both parts.
#[inline(always)]
pub(super) fn divide(a: C, b: C) -> C {
    /// Products of these, and the errors of the products, are neither infinite nor subnormal.
    const RANGE: Range<f64> = 1e-120..1e120;

    if RANGE.contains(&magnitude(a)) && RANGE.contains(&magnitude(b)) {
        let result = direct(a, b);
        let ordinary = result.re != 0.0 && result.im != 0.0;
        return if ordinary { result } else { checked(a, b, result) };
    }
    scaled(a, b)
}

/// A quotient with the special values of [`smith`]: the part beside one that is not finite, and the
/// signs of zeros.
#[cold]
fn checked(a: C, b: C, result: C) -> C {
    let special = smith(a, b);
    if !(result.re.is_finite() && result.im.is_finite()) {
        return special;
    }
    let part = |x: f64, special: f64| if x == 0.0 && special == 0.0 { special } else { x };
    Complex::new(part(result.re, special.re), part(result.im, special.im))
}

/// The larger of the parts' magnitudes; not defined for NaN.
#[inline(always)]
fn magnitude(z: C) -> f64 {
    z.re.abs().max(z.im.abs())
}

/// A divisor with one part divides both parts of the dividend, which rounds less.
#[inline(always)]
fn direct(a: C, b: C) -> C {
    if b.im == 0.0 {
        let ratio = b.im / b.re;
        return Complex::new((a.re + a.im * ratio) / b.re, (a.im - a.re * ratio) / b.re);
    }
    if b.re == 0.0 {
        let ratio = b.re / b.im;
        return Complex::new((a.re * ratio + a.im) / b.im, (a.im * ratio - a.re) / b.im);
    }
    let norm = b.re * b.re + b.im * b.im;
    let re = sum_of_products(a.re, b.re, a.im, b.im);
    let im = sum_of_products(a.im, b.re, -a.re, b.im);
    Complex::new(re / norm, im / norm)
}

/// The quotient of numbers beyond the range: the divisor is brought near one, the dividend only as
/// far as it must be, since a part of it can be much smaller than the other.
#[cold]
fn scaled(a: C, b: C) -> C {
    let under = match magnitude(b) {
        near if (1e-120..4.0).contains(&near) => 0,
        far => exponent(far) + 1,
    };
    let over = match magnitude(a) {
        large if large > 1e300 => 4,
        small if small < 1e-120 => exponent(small),
        _ => 0,
    };
    let result = direct(shifted(a, -over), shifted(b, -under));
    checked(a, b, shifted(result, over - under))
}

/// The power of two below a number; something finite for zero, infinity and NaN.
fn exponent(x: f64) -> i64 {
    let of = |x: f64| (x.to_bits() >> 52 & 0x7ff) as i64 - 1023;
    if x < f64::MIN_POSITIVE { of(x * POWER_54) - 54 } else { of(x) }
}

const POWER_54: f64 = 18_014_398_509_481_984.0;

/// Times a power of two, in steps that are powers within the range.
fn shifted(mut z: C, mut power: i64) -> C {
    while power != 0 {
        let step = power.clamp(-1000, 1000);
        z = z.scale(f64::from_bits(((1023 + step) as u64) << 52));
        power -= step;
    }
    z
}

/// Smith's quotient, in the order of operations that PyTorch and NumPy have.
#[cold]
fn smith(a: C, b: C) -> C {
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

pub(super) fn reciprocal(z: C) -> C {
    divide(Complex::new(1.0, 0.0), z)
}

/// The root with a non-negative real part.
pub(super) fn sqrt(z: C) -> C {
    if z.im.is_infinite() {
        return Complex::new(f64::INFINITY, z.im);
    }
    if z.re == 0.0 && z.im == 0.0 {
        return Complex::new(0.0, z.im);
    }
    if z.re.is_infinite() {
        return infinite_root(z);
    }
    let size = magnitude(z);
    // The sum of magnitudes must neither overflow nor lose digits.
    let (z, back) = match size {
        _ if size > 1e307 => (z.scale(0.0625), 4.0),
        _ if size < 1e-290 => (z.scale(POWER_54), 1.0 / 134_217_728.0),
        _ => (z, 1.0),
    };
    let large = ((z.re.abs() + z.re.hypot(z.im)) / 2.0).sqrt();
    let small = z.im / (2.0 * large);
    let root = match z.re >= 0.0 {
        true => Complex::new(large, small),
        false => Complex::new(small.abs(), large.copysign(z.im)),
    };
    root.scale(back)
}

/// The root of a number with an infinite real part and a finite or no imaginary part.
fn infinite_root(z: C) -> C {
    let rest = if z.im.is_nan() { f64::NAN } else { 0.0 };
    match z.re > 0.0 {
        true => Complex::new(z.re, rest.copysign(z.im)),
        false => Complex::new(rest, f64::INFINITY.copysign(z.im)),
    }
}
