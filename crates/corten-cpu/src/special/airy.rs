//! Airy's function Ai.

use super::bessel::scaled_second;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_4, PI};

/// The sum of two numbers, the second too small to change the first: some 106 bits.
#[derive(Clone, Copy, PartialEq)]
struct Twofold {
    high: f64,
    low: f64,
}

impl Twofold {
    const fn new(high: f64, low: f64) -> Self {
        Self { high, low }
    }

    /// a + b (Knuth).
    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let from_b = high - a;
        Self { high, low: (a - (high - from_b)) + (b - from_b) }
    }

    fn product(a: f64, b: f64) -> Self {
        let high = a * b;
        Self { high, low: libm::fma(a, b, -high) }
    }

    fn plus(self, other: Self) -> Self {
        let sum = Self::sum(self.high, other.high);
        Self::sum(sum.high, sum.low + self.low + other.low)
    }

    fn times(self, other: Self) -> Self {
        let product = Self::product(self.high, other.high);
        let cross = self.high * other.low + self.low * other.high;
        Self::sum(product.high, product.low + cross)
    }

    fn divided_by(self, number: f64) -> Self {
        let quotient = self.high / number;
        let rest = libm::fma(-quotient, number, self.high) + self.low;
        Self::sum(quotient, rest / number)
    }
}

/// Ai. Below -3·10¹⁰ its phase is not known, and it is NaN.
pub(crate) fn airy(x: f64) -> f64 {
    match x {
        _ if x.is_infinite() || x.is_nan() => f64::NAN,
        _ if x > 110.0 => 0.0,
        _ if x > 2.0 => decaying(x),
        _ if x > -2.0 => near(x),
        _ if x > -9.0 => near_twofold(x),
        _ => oscillating(-x),
    }
}

/// Ai(0) and -Ai'(0).
const VALUE: Twofold = Twofold::new(0.355_028_053_887_817_2, 2.052_336_324_362_12e-17);
const SLOPE: Twofold = Twofold::new(0.258_819_403_792_806_8, -2.522_243_111_610_832e-17);

/// 2/3 x^(3/2).
fn two_thirds_power(x: f64) -> Twofold {
    const TWO_THIRDS: Twofold = Twofold::new(0.666_666_666_666_666_6, 3.700_743_415_417_188e-17);
    let root = x.sqrt();
    let lost = libm::fma(-root, root, x) / (2.0 * root);
    Twofold::new(root, lost).times(Twofold::new(x, 0.0)).times(TWO_THIRDS)
}

/// √(x/3) / π K of order 1/3.
fn decaying(x: f64) -> f64 {
    let Twofold { high, low } = two_thirds_power(x);
    // Half of the exponent twice, as the product may be a number where the power is none.
    let half = (-0.5 * high).exp();
    (x / 3.0).sqrt() / PI * half * scaled_second(high, 1.0 / 3.0) * (1.0 - low) * half
}

/// The power series Ai(0) f(x) + Ai'(0) g(x).
fn near(x: f64) -> f64 {
    let cube = x * x * x;
    let (mut f, mut g) = (1.0, x);
    let (mut even, mut odd) = (f, g);
    for k in 1..30 {
        let k = 3.0 * f64::from(k);
        f *= cube / (k * (k - 1.0));
        g *= cube / (k * (k + 1.0));
        let before = (even, odd);
        even += f;
        odd += g;
        if (even, odd) == before {
            break;
        }
    }
    VALUE.high * even - SLOPE.high * odd
}

/// The power series where its terms are much larger than their sum.
fn near_twofold(x: f64) -> f64 {
    let cube = Twofold::product(x, x).times(Twofold::new(x, 0.0));
    let (mut f, mut g) = (VALUE, SLOPE.times(Twofold::new(-x, 0.0)));
    let mut sum = f.plus(g);
    for k in 1..60 {
        let k = 3.0 * f64::from(k);
        f = f.times(cube).divided_by(k * (k - 1.0));
        g = g.times(cube).divided_by(k * (k + 1.0));
        let before = sum;
        sum = sum.plus(f.plus(g));
        if sum == before {
            break;
        }
    }
    sum.high
}

/// The oscillating asymptotic series of Ai(-x).
fn oscillating(x: f64) -> f64 {
    let phase = two_thirds_power(x);
    let zeta = phase.high;
    let (mut term, mut sums) = (1.0, [0.0f64; 2]);
    for k in 0..24u32 {
        let sign = if k % 4 < 2 { 1.0 } else { -1.0 };
        sums[(k % 2) as usize] += sign * term;
        let k = f64::from(k);
        let next = term * (6.0 * k + 5.0) * (6.0 * k + 1.0) / (72.0 * (k + 1.0) * zeta);
        // An asymptotic series is best cut where its terms start to grow.
        if next > term {
            break;
        }
        term = next;
    }
    let (sin, cos) = sin_cos(phase);
    // Those of the phase less π/4.
    let root = FRAC_PI_4.sin();
    let (sin, cos) = (root * (sin - cos), root * (cos + sin));
    (cos * sums[0] + sin * sums[1]) / (PI.sqrt() * x.sqrt().sqrt())
}

/// Sine and cosine; NaN for phases that the two numbers do not tell.
fn sin_cos(phase: Twofold) -> (f64, f64) {
    /// The largest multiple of π/2 that is counted.
    const MOST: f64 = (1u64 << 52) as f64;
    const HALF_PI: [f64; 3] =
        [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];
    let n = (phase.high * FRAC_2_PI).round();
    if n.is_nan() || n > MOST {
        return (f64::NAN, f64::NAN);
    }
    let rest = HALF_PI.iter().fold(phase, |rest, part| {
        let product = Twofold::product(-n, *part);
        rest.plus(product)
    });
    let (sin, cos) = rest.high.sin_cos();
    let (sin, cos) = (sin + rest.low * cos, cos - rest.low * sin);
    match n % 4.0 {
        0.0 => (sin, cos),
        1.0 => (cos, -sin),
        2.0 => (-sin, -cos),
        _ => (-cos, sin),
    }
}
