//! Bessel functions.

use std::f64::consts::{LN_2, PI};

const EULER: f64 = 0.577_215_664_901_532_9;

/// J₀.
pub(crate) fn j0(x: f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { libm::j0(x) }
}

/// J₁.
pub(crate) fn j1(x: f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { libm::j1(x) }
}

/// Y₀, of numbers above zero.
pub(crate) fn y0(x: f64) -> f64 {
    second_kind(x, |x| if x <= 2.0 { y0_near(x) } else { libm::y0(x) })
}

/// Y₁, of numbers above zero.
pub(crate) fn y1(x: f64) -> f64 {
    second_kind(x, libm::y1)
}

/// Y₀ up to 2, by its power series (DLMF 10.2.2 and 10.8.2):
/// 2/π ((ln(x/2) + γ) J₀ - Σ Hₖ tᵏ / k!²) and J₀ = Σ tᵏ / k!² with t = -x²/4.
fn y0_near(x: f64) -> f64 {
    const TERMS: usize = 13;
    /// 1 / k!² and Hₖ / k!².
    const SERIES: [[f64; TERMS]; 2] = {
        let mut series = [[0.0; TERMS]; 2];
        let (mut term, mut harmonic, mut k) = (1.0, 0.0, 0);
        while k < TERMS {
            series[0][k] = term;
            series[1][k] = term * harmonic;
            k += 1;
            let count = k as f64;
            term /= count * count;
            harmonic += 1.0 / count;
        }
        series
    };
    let t = -0.25 * x * x;
    let [j0, rest] = SERIES.map(|terms| terms.iter().rev().fold(0.0, |sum, term| sum * t + term));
    std::f64::consts::FRAC_2_PI * ((x.ln() - LN_2 + EULER) * j0 - rest)
}

fn second_kind(x: f64, function: fn(f64) -> f64) -> f64 {
    match x {
        0.0 => f64::NEG_INFINITY,
        _ if x.is_infinite() || x < 0.0 => f64::NAN,
        _ => function(x),
    }
}

/// sin x / x.
pub(crate) fn spherical_j0(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    if x.abs() < 1e-4 { 1.0 - x * x / 6.0 } else { x.sin() / x }
}

/// Where power series give way to asymptotic ones.
const FAR: f64 = 20.0;

/// e^-|x| I₀.
pub(crate) fn i0e(x: f64) -> f64 {
    let x = x.abs();
    if x <= FAR { (-x).exp() * first_kind(x, 0) } else { first_kind_far(x, 0) }
}

/// e^-|x| I₁.
pub(crate) fn i1e(x: f64) -> f64 {
    let r = x.abs();
    let scaled = if r <= FAR { (-r).exp() * first_kind(r, 1) } else { first_kind_far(r, 1) };
    scaled.copysign(x)
}

/// I₀.
pub(crate) fn i0(x: f64) -> f64 {
    let r = x.abs();
    if r <= FAR { first_kind(r, 0) } else { grown(r, i0e(x)) }
}

/// I₁.
pub(crate) fn i1(x: f64) -> f64 {
    let r = x.abs();
    if r <= FAR { first_kind(r, 1).copysign(x) } else { grown(r, i1e(x)) }
}

/// e^x times `scaled`, which may be a number where the power is none.
fn grown(x: f64, scaled: f64) -> f64 {
    let root = (0.5 * x).exp();
    if root.is_infinite() { root.copysign(scaled) } else { root * scaled * root }
}

/// Σ (x/2)^(2k+n) / (k! (k+n)!).
fn first_kind(x: f64, n: u32) -> f64 {
    let quarter = x * x / 4.0;
    let mut term = if n == 0 { 1.0 } else { x / 2.0 };
    let (mut sum, mut k) = (term, 0.0);
    loop {
        k += 1.0;
        term *= quarter / (k * (k + f64::from(n)));
        sum += term;
        if term.is_nan() || term <= sum * (f64::EPSILON / 4.0) {
            return sum;
        }
    }
}

/// The asymptotic series, scaled by e^-x.
fn first_kind_far(x: f64, n: u32) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    let order = f64::from(4 * n * n);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..40 {
        let odd = f64::from(2 * k - 1);
        term *= (odd * odd - order) / (8.0 * f64::from(k) * x);
        sum += term;
        if term.abs() < f64::EPSILON / 4.0 {
            break;
        }
    }
    sum / (2.0 * PI * x).sqrt()
}

/// K₀, of numbers above zero.
pub(crate) fn k0(x: f64) -> f64 {
    modified_second(x, |x| if x <= 2.0 { k0_near(x) } else { (-x).exp() * scaled_second(x, 0.0) })
}

/// K₁, of numbers above zero.
pub(crate) fn k1(x: f64) -> f64 {
    modified_second(x, |x| if x <= 2.0 { k1_near(x) } else { (-x).exp() * scaled_second(x, 1.0) })
}

/// e^x K₀.
pub(crate) fn k0e(x: f64) -> f64 {
    modified_second(x, |x| if x <= 2.0 { x.exp() * k0_near(x) } else { scaled_second(x, 0.0) })
}

/// e^x K₁.
pub(crate) fn k1e(x: f64) -> f64 {
    modified_second(x, |x| if x <= 2.0 { x.exp() * k1_near(x) } else { scaled_second(x, 1.0) })
}

fn modified_second(x: f64, function: impl Fn(f64) -> f64) -> f64 {
    match x {
        0.0 => f64::INFINITY,
        _ if x.is_nan() || x < 0.0 => f64::NAN,
        _ if x.is_infinite() => 0.0,
        _ => function(x),
    }
}

fn k0_near(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut harmonic, mut sum) = (1.0, 0.0, 0.0);
    for k in 1..20 {
        let k = f64::from(k);
        term *= quarter / (k * k);
        harmonic += 1.0 / k;
        sum += term * harmonic;
    }
    sum - (x.ln() - LN_2 + EULER) * first_kind(x, 0)
}

fn k1_near(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    // ψ(k + 1) + ψ(k + 2), from k = 0.
    let (mut term, mut digammas, mut sum) = (1.0, 1.0 - 2.0 * EULER, 0.0);
    for k in 0..20 {
        let k = f64::from(k);
        sum += term * digammas;
        term *= quarter / ((k + 1.0) * (k + 2.0));
        digammas += 1.0 / (k + 1.0) + 1.0 / (k + 2.0);
    }
    1.0 / x + (x.ln() - LN_2) * first_kind(x, 1) - x / 4.0 * sum
}

/// e^x K_ν(x) as ∫ exp(-x (cosh t - 1)) cosh(νt) dt: the trapezoidal rule converges exponentially.
pub(super) fn scaled_second(x: f64, order: f64) -> f64 {
    const POINTS: u32 = 48;
    // Beyond the end, where cosh t - 1 = 2 sinh²(t/2) is 40 / x, the integrand is below e^-40 of its
    // start.
    let step = 2.0 * (20.0 / x).sqrt().asinh() / f64::from(POINTS);
    let value = |k: u32| {
        let t = step * f64::from(k);
        let half = (t / 2.0).sinh();
        (-2.0 * (x * half) * half).exp() * (order * t).cosh()
    };
    step * (0.5 + (1..=POINTS).map(value).sum::<f64>())
}
