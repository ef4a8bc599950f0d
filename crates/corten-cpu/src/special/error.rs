//! The error function's kin: inverses and logarithms of the normal distribution.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI, SQRT_2};

/// e^(x²) erfc(x).
pub(crate) fn erfcx(x: f64) -> f64 {
    if x < 0.0 {
        return if x < -26.7 { f64::INFINITY } else { 2.0 * (x * x).exp() - erfcx(-x) };
    }
    if x < 5.0 {
        return (x * x).exp() * libm::erfc(x);
    }
    if x.is_infinite() {
        return 0.0;
    }
    // The continued fraction 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …)))).
    let mut tail = x;
    for k in (1..=40).rev() {
        tail = x + 0.5 * f64::from(k) / tail;
    }
    FRAC_2_SQRT_PI / 2.0 / tail
}

/// The inverse of erf.
pub(crate) fn erfinv(y: f64) -> f64 {
    let magnitude = y.abs();
    if magnitude.is_nan() || magnitude > 1.0 {
        return f64::NAN;
    }
    if magnitude == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if magnitude == 0.0 {
        return y;
    }
    let root = match magnitude > 0.75 {
        true => erfcinv(1.0 - magnitude),
        false => central_erfinv(magnitude),
    };
    root.copysign(y)
}

/// Winitzki's approximation, refined by Halley's method.
fn central_erfinv(y: f64) -> f64 {
    const A: f64 = 0.147;
    let log = (-y * y).ln_1p();
    let half = 2.0 / (PI * A) + 0.5 * log;
    let mut x = ((half * half - log / A).sqrt() - half).max(0.0).sqrt();
    for _ in 0..3 {
        let step = (libm::erf(x) - y) / (FRAC_2_SQRT_PI * (-x * x).exp());
        x -= step / (1.0 + x * step);
    }
    x
}

/// The inverse of erfc below 1/2: Newton's method on the logarithms.
fn erfcinv(y: f64) -> f64 {
    let log = y.ln();
    let mut x = (-log - 0.5 * (-log * PI).ln().max(0.0)).max(0.2).sqrt();
    for _ in 0..60 {
        let scaled = erfcx(x);
        let step = (scaled.ln() - x * x - log) * scaled / FRAC_2_SQRT_PI;
        x += step;
        if step.abs() <= 1e-15 * x.abs() {
            break;
        }
    }
    x
}

/// The quantile of the normal distribution.
pub(crate) fn ndtri(p: f64) -> f64 {
    match p {
        0.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        _ if !(0.0..=1.0).contains(&p) => f64::NAN,
        _ if p > 0.75 => SQRT_2 * erfcinv(2.0 * (1.0 - p)),
        _ if p < 0.25 => -SQRT_2 * erfcinv(2.0 * p),
        _ => SQRT_2 * erfinv(2.0 * p - 1.0),
    }
}

/// The logarithm of the normal distribution function.
pub(crate) fn log_ndtr(x: f64) -> f64 {
    let t = x * FRAC_1_SQRT_2;
    if x < -1.0 { (erfcx(-t) / 2.0).ln() - t * t } else { (-libm::erfc(t) / 2.0).ln_1p() }
}
