//! Hurwitz' zeta function and the derivatives of ψ.

use super::gamma::{BERNOULLI, digamma, lgamma, trigamma};

/// Hurwitz' ζ(s, q) for s > 1; below zero for integral s only.
pub(crate) fn zeta(s: f64, q: f64) -> f64 {
    match (s, q) {
        (1.0, _) => f64::INFINITY,
        _ if s.is_nan() || q.is_nan() || s < 1.0 => f64::NAN,
        _ if q > 0.0 => sum(1.0, s, q),
        _ if q == q.floor() => f64::INFINITY,
        _ if s == s.floor() => sum_left(1.0, s, q),
        _ => f64::NAN,
    }
}

/// The derivative of ψ of order `n`.
pub(crate) fn polygamma(n: f64, x: f64) -> f64 {
    match n {
        0.0 => digamma(x),
        1.0 => trigamma(x),
        _ => {
            let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
            sign * magnitude(n, x)
        }
    }
}

/// n! ζ(n + 1, x).
fn magnitude(n: f64, x: f64) -> f64 {
    /// The largest factorial of `f64`.
    const MOST: f64 = 170.0;
    match n {
        _ if x.is_nan() => f64::NAN,
        _ if x == f64::INFINITY => 0.0,
        _ if x <= 0.0 && x == x.floor() => f64::INFINITY,
        _ if n <= MOST => {
            let factorial = (2..=n as u32).map(f64::from).product();
            if x > 0.0 { sum(factorial, n + 1.0, x) } else { sum_left(factorial, n + 1.0, x) }
        }
        _ if x > 0.0 => (lgamma(n + 1.0) - (n + 1.0) * x.ln()).exp() * relative_sum(n + 1.0, x),
        _ => {
            let root = (0.5 * lgamma(n + 1.0)).exp();
            root * sum_left(root, n + 1.0, x)
        }
    }
}

/// `factor` ζ(s, q) of q < 0 that is no integer, for integral s: the terms of negative numbers are
/// those of positive ones but for the sign, and a difference of two sums.
fn sum_left(factor: f64, s: f64, q: f64) -> f64 {
    // Exact, so that the results next to a pole have all digits.
    let distance = q - q.round();
    let (above, below) = match distance > 0.0 {
        true => (distance, 1.0 - distance),
        false => (1.0 + distance, -distance),
    };
    let mirrored = sum(factor, s, below);
    let sign = if s % 2.0 == 0.0 { 1.0 } else { -1.0 };
    let near = sum(factor, s, above) + sign * mirrored;
    // Where the sum overflows the rest is nothing to it.
    if near.is_infinite() { near } else { near - sign * sum(factor, s, 1.0 - q) }
}

/// `factor` ζ(s, q) of q > 0.
fn sum(factor: f64, s: f64, q: f64) -> f64 {
    if q.is_infinite() {
        return if s.is_infinite() { f64::NAN } else { 0.0 };
    }
    let sum = relative_sum(s, q);
    let power = q.powf(-s);
    if (f64::MIN_POSITIVE..f64::INFINITY).contains(&power) {
        return factor * power * sum;
    }
    // The product may lie in the range of numbers although the power does not.
    let half = q.powf(-0.5 * s);
    factor * half * sum * half
}

/// q^s ζ(s, q) of q > 0, by the Euler-Maclaurin formula.
fn relative_sum(s: f64, q: f64) -> f64 {
    const LEAST: f64 = f64::EPSILON / 4.0;
    // The asymptotic series takes a number that is not small beside s.
    let start = 0.5 * s + 10.0;
    let (mut sum, mut term, mut a, mut count) = (1.0, 1.0, q, 0.0);
    while a < start {
        count += 1.0;
        a = q + count;
        term = if s < 40.0 { (q / a).powf(s) } else { (-s * f64::ln_1p(count / q)).exp() };
        sum += term;
        if term < sum * LEAST {
            return sum;
        }
    }
    sum += term * (a / (s - 1.0) - 0.5);
    // The terms B₂ₖ/(2k)! s(s+1)…(s+2k-2) a^(1-s-2k).
    let mut factor = 0.5 * term * (s / a);
    for (k, b) in BERNOULLI.iter().enumerate() {
        let correction = b * factor;
        sum += correction;
        if correction.abs() < sum * LEAST {
            break;
        }
        let j = 2.0 * k as f64 + 1.0;
        factor *= (s + j) / a * ((s + j + 1.0) / a) / ((j + 2.0) * (j + 3.0));
    }
    sum
}
