//! Orthogonal polynomials, by their recurrences; the degree is truncated, 0 below degree 0.

/// Degrees above which a recurrence would take too long: there is no result.
const MOST_STEPS: f64 = 1e7;
/// From here on the leading term decides, and from degree 4 on it is too large for a number.
const HUGE: f64 = 1e100;
/// Degrees above which Chebyshev's polynomials take their closed forms beyond [-1, 1], too.
const MOST_CHEBYSHEV: f64 = 1000.0;

fn even(n: f64) -> bool {
    n % 2.0 == 0.0
}

/// The number -1 to the power `n`.
fn parity(n: f64) -> f64 {
    if even(n) { 1.0 } else { -1.0 }
}

/// The polynomial of degree `n` whose values of degree 0 and 1 are 1 and `first`, which has the sign of
/// the leading term for large arguments; `next(k, q, p)` is degree k + 1 from k and k - 1.
fn recurrence(n: f64, first: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    match n {
        _ if n.is_nan() => f64::NAN,
        // Also of what is no number, as in PyTorch.
        _ if n < 1.0 => 1.0,
        _ if first.is_nan() => f64::NAN,
        _ if n < 2.0 => first,
        _ if first.is_infinite() || (n >= 4.0 && first.abs() >= HUGE) => {
            if first < 0.0 {
                parity(n) * f64::INFINITY
            } else {
                f64::INFINITY
            }
        }
        _ if n > MOST_STEPS => f64::NAN,
        _ => steps(n, first, next),
    }
}

/// The recurrence, on numbers that are scaled down where they grow out of range: later ones may be
/// smaller again, and a difference of infinities is no number.
fn steps(n: f64, first: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    /// A power of two, so that nothing is rounded.
    const LARGE: f64 = f64::from_bits((1023 + 500) << 52);
    let (mut p, mut q, mut scales) = (1.0, first, 0);
    let mut k = 1.0;
    while k < n {
        (p, q) = (q, next(k, q, p));
        k += 1.0;
        if q.abs() > LARGE && k < n {
            (p, q) = (p / LARGE, q / LARGE);
            scales += 1;
        }
    }
    for _ in 0..scales.min(3) {
        q *= LARGE;
    }
    q
}

/// Chebyshev's T.
pub(crate) fn chebyshev_t(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ if x.abs() == 1.0 => {
            if x > 0.0 || even(n) {
                1.0
            } else {
                -1.0
            }
        }
        _ if n > 6.0 && x.abs() < 1.0 => (n * x.acos()).cos(),
        _ if n > MOST_CHEBYSHEV && x < 0.0 => parity(n) * chebyshev_t(-x, n),
        _ if n > MOST_CHEBYSHEV => (n * x.acosh()).cosh(),
        _ => recurrence(n, x, |_, q, p| 2.0 * x * q - p),
    }
}

/// Chebyshev's U.
pub(crate) fn chebyshev_u(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ if x.abs() == 1.0 => {
            if x > 0.0 || even(n) {
                n + 1.0
            } else {
                -(n + 1.0)
            }
        }
        _ if n > 8.0 && x.abs() < 1.0 => {
            let angle = x.acos();
            ((n + 1.0) * angle).sin() / angle.sin()
        }
        _ if n > MOST_CHEBYSHEV && x < 0.0 => parity(n) * chebyshev_u(-x, n),
        _ if n > MOST_CHEBYSHEV => {
            let angle = x.acosh();
            ((n + 1.0) * angle).sinh() / angle.sinh()
        }
        _ => recurrence(n, 2.0 * x, |_, q, p| 2.0 * x * q - p),
    }
}

/// Chebyshev's V.
pub(crate) fn chebyshev_v(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ if x == 1.0 => 1.0,
        _ if x == -1.0 => {
            if even(n) {
                n + n + 1.0
            } else {
                -(n + n + 1.0)
            }
        }
        _ if n > 8.0 && x.abs() < 1.0 => {
            let angle = x.acos();
            ((n + 0.5) * angle).cos() / (angle / 2.0).cos()
        }
        _ if n > MOST_CHEBYSHEV && x < 0.0 => parity(n) * chebyshev_w(-x, n),
        _ if n > MOST_CHEBYSHEV => {
            let angle = x.acosh();
            ((n + 0.5) * angle).cosh() / (angle / 2.0).cosh()
        }
        _ => recurrence(n, 2.0 * x - 1.0, |_, q, p| 2.0 * x * q - p),
    }
}

/// Chebyshev's W.
pub(crate) fn chebyshev_w(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ if x == 1.0 => n + n + 1.0,
        _ if x == -1.0 => {
            if even(n) {
                1.0
            } else {
                -1.0
            }
        }
        _ if n > 8.0 && x.abs() < 1.0 => {
            let angle = x.acos();
            ((n + 0.5) * angle).sin() / (angle / 2.0).sin()
        }
        _ if n > MOST_CHEBYSHEV && x < 0.0 => parity(n) * chebyshev_v(-x, n),
        _ if n > MOST_CHEBYSHEV => {
            let angle = x.acosh();
            ((n + 0.5) * angle).sinh() / (angle / 2.0).sinh()
        }
        _ => recurrence(n, 2.0 * x + 1.0, |_, q, p| 2.0 * x * q - p),
    }
}

/// [`chebyshev_t`] of 2x - 1.
pub(crate) fn shifted_chebyshev_t(x: f64, n: f64) -> f64 {
    chebyshev_t(2.0 * x - 1.0, n)
}

/// [`chebyshev_u`] of 2x - 1.
pub(crate) fn shifted_chebyshev_u(x: f64, n: f64) -> f64 {
    chebyshev_u(2.0 * x - 1.0, n)
}

/// [`chebyshev_v`] of 2x - 1.
pub(crate) fn shifted_chebyshev_v(x: f64, n: f64) -> f64 {
    chebyshev_v(2.0 * x - 1.0, n)
}

/// [`chebyshev_w`] of 2x - 1.
pub(crate) fn shifted_chebyshev_w(x: f64, n: f64) -> f64 {
    chebyshev_w(2.0 * x - 1.0, n)
}

/// The physicists' Hermite polynomial.
pub(crate) fn hermite_h(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ => recurrence(n, 2.0 * x, |k, q, p| 2.0 * x * q - 2.0 * k * p),
    }
}

/// The probabilists' Hermite polynomial.
pub(crate) fn hermite_he(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ => recurrence(n, x, |k, q, p| x * q - k * p),
    }
}

/// Laguerre's polynomial.
pub(crate) fn laguerre_l(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ if x == 0.0 => 1.0,
        _ => recurrence(n, 1.0 - x, |k, q, p| ((2.0 * k + 1.0 - x) * q - k * p) / (k + 1.0)),
    }
}

/// Legendre's polynomial.
pub(crate) fn legendre_p(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ if x.abs() == 1.0 => {
            if x > 0.0 || even(n) {
                1.0
            } else {
                -1.0
            }
        }
        _ => recurrence(n, x, |k, q, p| ((2.0 * k + 1.0) * x * q - k * p) / (k + 1.0)),
    }
}
