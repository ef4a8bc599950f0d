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
        // Exact, so that the results next to a pole have all digits.
        let distance = x - x.round();
        if distance == 0.0 {
            return f64::NAN;
        }
        return digamma(1.0 - x) - PI / (PI * distance).tan();
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

/// ψ'(x), infinite at its poles.
pub(super) fn trigamma(x: f64) -> f64 {
    if x > 0.0 || x.is_nan() {
        return trigamma_right(x);
    }
    let sine = (PI * (x - x.round())).sin();
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
