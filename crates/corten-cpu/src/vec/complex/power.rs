//! Powers of complex numbers, in `f64`.

use super::C;
use super::exponential::{exp, polar_exp};
use super::inverse::log;
use super::pairs::{self, Pair, two_sum};
use super::quotient::reciprocal;
use corten_core::Complex;
use std::f64::consts::LN_2;

/// e to the product of the exponent and the logarithm, of which the C standard defines special
/// values; one where the exponent is zero. Where the magnitudes of the product are below `exact`, it
/// is rounded to `f64`: the relative error of the power is at most about `exact` roundings.
pub(super) fn pow(base: C, exponent: C, exact: f64) -> C {
    if exponent.re == 0.0 && exponent.im == 0.0 {
        return Complex::new(1.0, 0.0);
    }
    let finite = base.re.is_finite() && base.im.is_finite();
    if exponent.im == 0.0 && exponent.re.abs() == 1.0 && finite && base != Complex::new(0.0, 0.0) {
        let result = if exponent.re > 0.0 { base } else { reciprocal(base) };
        // An overflow is that of the exponential, which leaves the other part finite.
        if result.re.is_finite() && result.im.is_finite() {
            return result;
        }
    }
    let logarithm = log(base);
    let product = multiply(exponent, logarithm);
    let size = exponent.l1_norm() * logarithm.l1_norm();
    if size >= exact && size < 1e5 { precise(base, exponent, product.im) } else { exp(product) }
}

/// The product of annex G: what is infinite stays so, even where a part is NaN.
fn multiply(a: C, b: C) -> C {
    let product = a * b;
    if !(product.re.is_nan() && product.im.is_nan()) {
        return product;
    }
    let infinite = |z: C| z.re.is_infinite() || z.im.is_infinite();
    let boxed = |z: C| {
        let part = |x: f64| f64::from(u8::from(x.is_infinite())).copysign(x);
        Complex::new(part(z.re), part(z.im))
    };
    let unset = |z: C| {
        let part = |x: f64| if x.is_nan() { 0f64.copysign(x) } else { x };
        Complex::new(part(z.re), part(z.im))
    };
    let (a, b) = match (infinite(a), infinite(b)) {
        (true, true) => (boxed(a), boxed(b)),
        (true, false) => (boxed(a), unset(b)),
        (false, true) => (unset(a), boxed(b)),
        (false, false) => return product,
    };
    (a * b).scale(f64::INFINITY)
}

/// The power with a logarithm of twice the precision: its errors grow with the exponent. An angle of
/// zero has the sign of `zero`.
fn precise(base: C, exponent: C, zero: f64) -> C {
    let (re, im) = log_pair(base);
    let (x, y) = (Pair::of(exponent.re), Pair::of(exponent.im));
    let (magnitude, mut angle) = (x * re + -(y * im), x * im + y * re);
    if angle.high == 0.0 && zero == 0.0 {
        angle = Pair::of(zero);
    }
    let (sin, cos) = angle.high.sin_cos();
    let (sin, cos) = (sin + cos * angle.low, cos - sin * angle.low);
    let grown = 1.0 + magnitude.low;
    polar_exp(magnitude.high, sin * grown, cos * grown)
}

/// The logarithm of a number that is neither zero nor infinite.
fn log_pair(z: C) -> (Pair, Pair) {
    let (_, power) = libm::frexp(z.re.abs().max(z.im.abs()));
    let scale = libm::ldexp(1.0, -power / 2);
    let z = z.scale(scale).scale(libm::ldexp(1.0, -(power + -power / 2)));
    let guess = z.re.hypot(z.im).ln();
    let shrink = pairs::exp(-guess);
    let (x, y) = (Pair::of(z.re) * shrink, Pair::of(z.im) * shrink);
    let excess = (x * x + y * y + Pair::of(-1.0)).value();
    let shift = log_of_power(power);
    let re = two_sum(guess, 0.5 * excess) + shift;

    let angle = z.im.atan2(z.re);
    let (sin, cos) = pairs::sin_cos(angle);
    let across = Pair::of(z.im) * cos + -(Pair::of(z.re) * sin);
    (re, two_sum(angle, across.value() / guess.exp()))
}

/// `n ln 2`.
fn log_of_power(n: i32) -> Pair {
    /// What `f64` leaves of the logarithm.
    const REST: f64 = 2.319_046_813_846_299_6e-17;

    let n = f64::from(n);
    pairs::two_product(n, LN_2) + Pair::of(n * REST)
}
