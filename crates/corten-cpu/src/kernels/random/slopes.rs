//! How samples move with the parameter of their distribution when their quantile stays.
//!
//! Where F is the distribution function and f the density, the slope is -(dF/da) / f. F is a
//! prefactor times a power series; f over the prefactor is elementary, so nothing overflows.

use crate::special::gamma::digamma;

/// The most terms of a series; concentrations for which they do not suffice have an expansion.
const TERMS: usize = 20_000;

/// The slope of a gamma sample `x` in its concentration `a`; `least` is what terms may lack.
pub(super) fn gamma(a: f64, x: f64, least: f64) -> f64 {
    if !(a > 0.0 && x > 0.0) {
        return if a.is_nan() || x.is_nan() { f64::NAN } else { 0.0 };
    }
    if a > 1e6 {
        return gamma_of_many(a, x);
    }
    match x > 15.0 + 2.0 * a {
        true => gamma_in_the_tail(a, x, least),
        false => gamma_by_series(a, x, least),
    }
}

/// P(a, x) = x^a e^-x / Γ(a+1) · Σ xⁿ / ((a+1)…(a+n)).
fn gamma_by_series(a: f64, x: f64, least: f64) -> f64 {
    let (mut term, mut steps) = (1.0, 0.0);
    let (mut sum, mut slope) = (1.0, 0.0);
    for n in 1..TERMS {
        let next = a + n as f64;
        let inverse = 1.0 / next;
        term *= x * inverse;
        steps -= inverse;
        sum += term;
        slope += term * steps;
        if next > x && term * (1.0 - steps) < sum * least {
            break;
        }
    }
    -(sum * (x.ln() - digamma(a + 1.0)) + slope) * x / a
}

/// Γ(a, x) = x^(a-1) e^-x · (1 + (a-1)/x + (a-1)(a-2)/x² + …), as far as the terms fall.
fn gamma_in_the_tail(a: f64, x: f64, least: f64) -> f64 {
    let (mut term, mut term_slope) = (1.0, 0.0);
    let (mut sum, mut slope) = (1.0, 0.0);
    for k in 1..TERMS {
        let factor = (a - k as f64) / x;
        let next = term * factor;
        if factor.abs() > 1.0 || next == 0.0 && term_slope == 0.0 {
            break;
        }
        term_slope = term_slope * factor + term / x;
        term = next;
        sum += term;
        slope += term_slope;
        if term_slope.abs() + term.abs() < least * sum {
            break;
        }
    }
    (x.ln() - digamma(a)) * sum + slope
}

/// The cube of x/a is nearly normal for great a (E. Wilson and M. Hilferty, 1931).
fn gamma_of_many(a: f64, x: f64) -> f64 {
    let root = (x / a).cbrt();
    let z = (root - 1.0 + 1.0 / (9.0 * a)) * 3.0 * a.sqrt();
    root.powi(3) + 3.0 * a * root.powi(2) * (1.0 / (9.0 * a * a) - z / (6.0 * a.powf(1.5)))
}

/// The slope of a beta sample `x` in `a`, over `1 - x`.
pub(super) fn beta(x: f64, a: f64, b: f64) -> f64 {
    if !(x > 0.0 && x < 1.0 && a > 0.0 && b > 0.0) {
        return if x == 0.0 || x == 1.0 { 0.0 } else { f64::NAN };
    }
    let drift = x.ln() + digamma(a + b) - digamma(a);
    match x <= (a + 1.0) / (a + b + 2.0) {
        true => {
            let (sum, slope) = beta_series(a + b, a, x, 1.0);
            -(sum * (drift - 1.0 / a) + slope) * x / a
        }
        false => {
            let (sum, slope) = beta_series(a + b, b, 1.0 - x, 0.0);
            (sum * drift + slope) * x / b
        }
    }
}

/// Σ (s)ₙ / (c+1)ₙ · yⁿ, and its slope when `s` moves by one and `c` by `share`.
fn beta_series(s: f64, c: f64, y: f64, share: f64) -> (f64, f64) {
    let (mut term, mut steps) = (1.0, 0.0);
    let (mut sum, mut slope) = (1.0, 0.0);
    for n in 0..TERMS {
        let (up, down) = (s + n as f64, c + 1.0 + n as f64);
        let factor = up / down * y;
        term *= factor;
        steps += 1.0 / up - share / down;
        sum += term;
        slope += term * steps;
        if factor < 1.0 && term * (1.0 + steps.abs()) < 1e-16 * (1.0 - factor) * sum {
            break;
        }
    }
    (sum, slope)
}
