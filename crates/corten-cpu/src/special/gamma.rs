//! The gamma function and its kin.

use std::f64::consts::PI;

/// B₂ₖ for k from 1.
pub(crate) const BERNOULLI: [f64; 12] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174_611.0 / 330.0,
    854_513.0 / 138.0,
    -236_364_091.0 / 2730.0,
];

/// ln |Γ(x)|.
pub(crate) fn lgamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// ψ(x): by reflection, recurrence and the asymptotic series.
pub(crate) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.trunc() {
            return f64::NAN;
        }
        return digamma(1.0 - x) - PI / (PI * x.fract()).tan();
    }
    // The sum of the inverses, as one fraction.
    let (mut x, mut above, mut below) = (x, 0.0, 1.0);
    while x < 12.0 {
        above = above * x + below;
        below *= x;
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let (square, mut power) = (inverse * inverse, 1.0);
    let mut sum = x.ln() - 0.5 * inverse - above / below;
    for (k, b) in BERNOULLI.iter().enumerate().take(8) {
        power *= square;
        sum -= b / (2.0 * (k + 1) as f64) * power;
    }
    sum
}

/// ψ'(x).
fn trigamma(x: f64) -> f64 {
    if x < 0.5 { reflected(x, (PI * x).sin()) } else { trigamma_right(x) }
}

fn reflected(x: f64, sine: f64) -> f64 {
    PI * PI / (sine * sine) - trigamma_right(1.0 - x)
}

fn trigamma_right(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 12.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = x * x;
    let mut power = 1.0 / x;
    sum += power + 0.5 / square;
    for b in BERNOULLI.iter().take(8) {
        power /= square;
        sum += b * power;
    }
    sum
}

/// The derivative of ψ of order `n`.
pub(crate) fn polygamma(n: f64, x: f64) -> f64 {
    match n {
        0.0 => digamma(x),
        1.0 => trigamma(x),
        _ => {
            let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
            sign * lgamma(n + 1.0).exp() * zeta(n + 1.0, x)
        }
    }
}

/// [`polygamma`] in single precision: at a pole of ψ' the result says how well π is known.
pub(crate) fn polygamma_single(n: f64, x: f64) -> f64 {
    if n == 1.0 && x < 0.5 {
        let sine = (std::f32::consts::PI * x as f32).sin();
        return reflected(x, sine.into());
    }
    polygamma(n, x)
}

/// Hurwitz' ζ(s, q), by the Euler-Maclaurin formula.
pub(crate) fn zeta(s: f64, q: f64) -> f64 {
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s.is_nan() || q.is_nan() || s < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if s != s.floor() {
            return f64::NAN;
        }
    }
    let (mut a, mut term) = (q, q.powf(-s));
    let (mut sum, mut count) = (term, 0);
    // A start far below zero would take as many steps; its first terms decide.
    while count < 9 || (a <= 9.0 && count < 100_000) {
        count += 1;
        a += 1.0;
        term = a.powf(-s);
        sum += term;
        if (term / sum).abs() < f64::EPSILON / 2.0 {
            return sum;
        }
    }
    sum += term * a / (s - 1.0) - 0.5 * term;
    // The terms B₂ₖ/(2k)! s(s+1)…(s+2k-2) a^(1-s-2k).
    let mut factor = s * term / a / 2.0;
    for (k, b) in BERNOULLI.iter().enumerate() {
        let correction = b * factor;
        sum += correction;
        if (correction / sum).abs() < f64::EPSILON / 2.0 {
            break;
        }
        let j = 2.0 * k as f64 + 1.0;
        factor *= (s + j) * (s + j + 1.0) / (a * a) / ((j + 2.0) * (j + 3.0));
    }
    sum
}

/// The regularised lower incomplete gamma function P(a, x).
pub(crate) fn igamma(a: f64, x: f64) -> f64 {
    lower(a, x, f64::EPSILON)
}

/// [`igamma`] in single precision.
pub(crate) fn igamma_single(a: f64, x: f64) -> f64 {
    lower(a, x, SINGLE)
}

/// What the terms of a series may lack where the sum becomes an `f32`.
const SINGLE: f64 = 1e-10;

fn lower(a: f64, x: f64, least: f64) -> f64 {
    match at_the_border(a, x) {
        Some(lower) => lower,
        None if x > a + 1.0 => 1.0 - upper_fraction(a, x, least),
        None => lower_series(a, x, least),
    }
}

/// The regularised upper incomplete gamma function Q(a, x).
pub(crate) fn igammac(a: f64, x: f64) -> f64 {
    upper(a, x, f64::EPSILON)
}

/// [`igammac`] in single precision.
pub(crate) fn igammac_single(a: f64, x: f64) -> f64 {
    upper(a, x, SINGLE)
}

fn upper(a: f64, x: f64, least: f64) -> f64 {
    match at_the_border(a, x) {
        Some(lower) => 1.0 - lower,
        None if x > a + 1.0 => upper_fraction(a, x, least),
        None if x < 1.0 && a < 1.0 => upper_of_small(a, x, least),
        None => 1.0 - lower_series(a, x, least),
    }
}

/// P where an argument is zero, infinite or out of range.
fn at_the_border(a: f64, x: f64) -> Option<f64> {
    Some(match (a, x) {
        _ if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 => f64::NAN,
        _ if a == 0.0 => {
            if x > 0.0 {
                1.0
            } else {
                f64::NAN
            }
        }
        _ if x == 0.0 => 0.0,
        _ if a.is_infinite() => {
            if x.is_infinite() {
                f64::NAN
            } else {
                0.0
            }
        }
        _ if x.is_infinite() => 1.0,
        _ => return None,
    })
}

/// x^a e^-x / Γ(a + 1), without the cancellation of large logarithms.
fn prefix(a: f64, x: f64) -> f64 {
    if a < 20.0 {
        return (a * x.ln() - x - lgamma(a + 1.0)).exp();
    }
    // Γ(a + 1) = √(2πa) (a/e)^a e^r with Stirling's remainder r.
    let square = a * a;
    let r = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / a;
    let difference = (x - a) / a;
    let exponent = match difference.abs() < 0.5 {
        true => -a * less_log1p(difference),
        false => a * (x / a).ln() + a - x,
    };
    (exponent - r).exp() / (2.0 * PI * a).sqrt()
}

/// y - ln(1 + y), accurate near zero.
fn less_log1p(y: f64) -> f64 {
    if y.abs() > 0.1 {
        return y - y.ln_1p();
    }
    let (mut power, mut sum) = (y, 0.0);
    for k in 2..24 {
        power *= -y;
        sum -= power / f64::from(k);
    }
    sum
}

/// Steps after which a series or fraction is given up: enough for arguments up to 10⁹.
const STEPS: usize = 200_000;

fn lower_series(a: f64, x: f64, least: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0, 1.0, a);
    for _ in 0..STEPS {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term <= sum * (least / 4.0) {
            break;
        }
    }
    sum * prefix(a, x)
}

/// Lentz' evaluation of the continued fraction.
fn upper_fraction(a: f64, x: f64, least: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut h = d;
    for i in 1..STEPS {
        let i = i as f64;
        let numerator = -i * (i - a);
        b += 2.0;
        d = numerator * d + b;
        c = b + numerator / c;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = if c.abs() < TINY { TINY } else { c };
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < least {
            break;
        }
    }
    a * prefix(a, x) * h
}

/// Q for arguments below 1, where 1 - P would lose digits.
fn upper_of_small(a: f64, x: f64, least: f64) -> f64 {
    // Q = 1 - x^a/Γ(1+a) - x^a/Γ(1+a) · a Σ (-x)^k / (k! (a+k)).
    let (mut power, mut sum) = (1.0, 0.0);
    for k in 1..60 {
        let k = f64::from(k);
        power *= -x / k;
        let term = power / (a + k);
        sum += term;
        if term.abs() <= sum.abs() * (least / 4.0) {
            break;
        }
    }
    let less = (a * x.ln() - lgamma(1.0 + a)).exp_m1();
    -less - (less + 1.0) * a * sum
}
