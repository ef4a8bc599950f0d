//! Numbers of twice the precision: unevaluated sums of two `f64`, for terms that cancel and for
//! logarithms that a large exponent multiplies.

use std::f64::consts;
use std::ops::{Add, Mul, Neg};

/// `high + low`, of which `low` is at most half a unit in the last place of `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) high: f64,
    pub(super) low: f64,
}

/// The sum and its rounding error (Knuth).
#[inline(always)]
pub(super) fn two_sum(a: f64, b: f64) -> Pair {
    let high = a + b;
    let part = high - a;
    Pair { high, low: (a - (high - part)) + (b - part) }
}

/// The product and its rounding error.
#[inline(always)]
pub(super) fn two_product(a: f64, b: f64) -> Pair {
    let high = a * b;
    Pair { high, low: a.mul_add(b, -high) }
}

/// `a b + c d`, accurate where the products cancel (Kahan).
#[inline(always)]
pub(super) fn sum_of_products(a: f64, b: f64, c: f64, d: f64) -> f64 {
    let second = c * d;
    a.mul_add(b, second) + c.mul_add(d, -second)
}

/// The natural logarithm of 2 in three pieces. Products of the first with exponents are exact.
const LN_2: [f64; 3] = [
    f64::from_bits(0x3fe6_2e42_fefa_3800),
    f64::from_bits(0x3d2e_f357_93c7_6730),
    f64::from_bits(0x398f_97b5_7a07_9a19),
];

/// Half of π in three pieces. Products of the first with numbers below 2²⁰ are exact.
const HALF_PI: [f64; 3] = [
    f64::from_bits(0x3ff9_21fb_5440_0000),
    f64::from_bits(0x3dd0_b461_1a60_0000),
    f64::from_bits(0x3ba3_198a_2e03_7073),
];

impl Pair {
    pub(super) const fn of(high: f64) -> Self {
        Self { high, low: 0.0 }
    }

    /// Both parts times a power of two.
    pub(super) fn scaled(self, power: f64) -> Self {
        Self { high: self.high * power, low: self.low * power }
    }

    pub(super) fn value(self) -> f64 {
        self.high + self.low
    }
}

impl Neg for Pair {
    type Output = Self;
    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Add for Pair {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (sum, rest) = (two_sum(self.high, other.high), two_sum(self.low, other.low));
        let sum = two_sum(sum.high, sum.low + rest.high);
        two_sum(sum.high, sum.low + rest.low)
    }
}

impl Mul for Pair {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let product = two_product(self.high, other.high);
        let cross = self.high.mul_add(other.low, self.low * other.high);
        two_sum(product.high, product.low + cross)
    }
}

/// `x - n (c₀ + c₁ + c₂)`.
fn reduced(x: Pair, n: f64, constants: [f64; 3]) -> Pair {
    let [first, second, third] = constants;
    let rest = Pair::of(-n * first) + x;
    rest + -two_product(n, second) + Pair::of(-n * third)
}

/// The coefficients 1/k! of the series.
const FACTORIALS: [Pair; 28] = inverse_factorials();

/// 1/k! for k from 0, divided in pairs.
const fn inverse_factorials() -> [Pair; 28] {
    let mut results = [Pair::of(1.0); 28];
    let mut k = 1;
    while k < results.len() {
        let (above, divisor) = (results[k - 1], k as f64);
        let high = above.high / divisor;
        // Quotient times divisor has at most 58 bits, of which the parts of `high` give the error.
        let cut = f64::from_bits(high.to_bits() & !0x7ff_ffff);
        let rest = above.high - cut * divisor - (high - cut) * divisor;
        results[k] = Pair { high, low: (rest + above.low) / divisor };
        k += 1;
    }
    results
}

/// e to the power of a number between -745 and 709, with a relative error near 2⁻¹⁰⁰ where that is
/// not subnormal.
pub(super) fn exp(x: f64) -> Pair {
    let n = (x * consts::LOG2_E).round_ties_even();
    // An eighth of the rest, raised to the eighth power at the end.
    let rest = reduced(Pair::of(x), n, LN_2).scaled(0.125);
    let mut sum = FACTORIALS[14];
    for &coefficient in FACTORIALS[..14].iter().rev() {
        sum = sum * rest + coefficient;
    }
    for _ in 0..3 {
        sum = sum * sum;
    }
    // In two steps, since the power itself can lie beyond the range.
    let half = (n / 2.0).trunc();
    sum.scaled(power_of_two(half)).scaled(power_of_two(n - half))
}

/// [`exp`] less one, of a number between -700 and 700 with a small relative error near zero too.
pub(super) fn exp_m1(x: f64) -> Pair {
    if x.abs() > 0.3 {
        return exp(x) + Pair::of(-1.0);
    }
    let x = Pair::of(x);
    let mut sum = FACTORIALS[24];
    for &coefficient in FACTORIALS[1..24].iter().rev() {
        sum = sum * x + coefficient;
    }
    sum * x
}

fn power_of_two(n: f64) -> f64 {
    f64::from_bits(((1023 + n as i64) as u64) << 52)
}

/// Sine and cosine of a number below 2¹⁹ with an absolute error near 2⁻¹⁰⁰.
pub(super) fn sin_cos(x: f64) -> (Pair, Pair) {
    let n = (x * consts::FRAC_2_PI).round_ties_even();
    let rest = reduced(Pair::of(x), n, HALF_PI);
    let square = -(rest * rest);
    let (mut sine, mut cosine) = (FACTORIALS[27], FACTORIALS[26]);
    for k in (0..13).rev() {
        sine = sine * square + FACTORIALS[2 * k + 1];
        cosine = cosine * square + FACTORIALS[2 * k];
    }
    sine = sine * rest;
    match (n as i64).rem_euclid(4) {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}
