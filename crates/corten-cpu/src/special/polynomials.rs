//! Orthogonal polynomials, by their recurrences; the degree is truncated, 0 below degree 0.

/// Degrees above which the polynomials of Hermite are not computed.
const MOST_HERMITE: f64 = 512.0;

fn even(n: f64) -> bool {
    n % 2.0 == 0.0
}

/// The recurrence from degrees 0 and 1 to `n`; `next(k, q, p)` is degree k + 1 from k and k - 1.
fn recurrence(n: f64, first: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let (mut p, mut q) = (1.0, first);
    if n < 1.0 {
        return p;
    }
    let mut k = 1.0;
    while k < n && !q.is_nan() {
        (p, q) = (q, next(k, q, p));
        k += 1.0;
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
        _ if n > MOST_HERMITE => f64::NAN,
        _ => recurrence(n, 2.0 * x, |k, q, p| 2.0 * x * q - 2.0 * k * p),
    }
}

/// The probabilists' Hermite polynomial.
pub(crate) fn hermite_he(x: f64, n: f64) -> f64 {
    let n = n.trunc();
    match n {
        _ if n < 0.0 => 0.0,
        _ if n > MOST_HERMITE => f64::NAN,
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
