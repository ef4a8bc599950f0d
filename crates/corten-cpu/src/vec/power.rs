//! Powers of vectors.
//!
//! x^y = 2^(y log₂ x). Of `f64` the logarithm is the sum of two numbers: y may shift its digits by
//! ten bits to the left, and those that come after them decide how the result is rounded.

use super::coefficients as c;
use super::math64::{clamp, log_special};
use super::real::Real;
use std::f64::consts;

/// The sum of two numbers, the second too small to change the first.
#[derive(Clone, Copy)]
struct Twofold<V> {
    high: V,
    low: V,
}

impl<V: Real<Elem = f64>> Twofold<V> {
    #[inline(always)]
    fn of(high: f64, low: f64) -> Self {
        Self { high: V::of(high), low: V::of(low) }
    }

    /// a + b; exact where a has no smaller exponent than b (Dekker 1971).
    #[inline(always)]
    fn sum(a: V, b: V) -> Self {
        let high = a + b;
        Self { high, low: b - (high - a) }
    }

    /// a b, exact where `mul_add` rounds once.
    #[inline(always)]
    fn product(a: V, b: V) -> Self {
        let high = a * b;
        Self { high, low: a.mul_add(b, -high) }
    }

    #[inline(always)]
    fn plus(self, small: V) -> Self {
        Self::sum(self.high, self.low + small)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let product = Self::product(self.high, other.high);
        let cross = self.high.mul_add(other.low, self.low * other.high);
        product.plus(cross)
    }
}

/// x^y with C's special cases.
#[inline(always)]
pub(crate) fn pow<V: Real<Elem = f64>>(x: V, y: V) -> V {
    match V::FUSED {
        true => signed(x, y, positive(x.abs(), y)),
        false => x.zip(y, f64::powf),
    }
}

/// x^y with C's special cases, given |x|^y.
#[inline(always)]
pub(crate) fn signed<V: Real>(x: V, y: V, result: V) -> V {
    let (zero, one, infinity) = (V::of(0.0), V::of(1.0), V::of(f64::INFINITY));
    let a = x.abs();
    let half = y * V::of(0.5);
    let whole = y.trunc().eq(y);
    let odd = whole & half.trunc().ne(half);
    let result = V::select(odd, result.flip(x), result);
    let result = V::select(x.lt(zero) & !whole & a.lt(infinity), V::of(f64::NAN), result);
    let unit = a.eq(one) & y.abs().eq(infinity);
    V::select(x.eq(one) | y.eq(zero) | unit, one, result)
}

/// x^y of `x >= 0`.
#[inline(always)]
fn positive<V: Real<Elem = f64>>(x: V, y: V) -> V {
    let logarithm = log2(x);
    let exponent = Twofold::product(y, logarithm.high);
    let low = y.mul_add(logarithm.low, exponent.low);
    // Beyond the exponents of numbers the low part may be that of an infinity.
    let within = exponent.high.abs().lt(V::of(1200.0));
    let low = V::select(within, low, V::of(0.0));
    exp2(clamp(exponent.high, -1200.0, 1200.0), low)
}

/// log₂ x of `x >= 0`, with some seventy bits.
#[inline(always)]
fn log2<V: Real<Elem = f64>>(x: V) -> Twofold<V> {
    let (m, n) = x.split_around_one();
    let (one, f) = (V::of(1.0), m - V::of(1.0));
    // s = (m - 1) / (m + 1), where m - 1 is exact.
    let below = Twofold::sum(one, m);
    let inverse = one / below.high;
    let s = f * inverse;
    let rest = s.neg_mul_add(below.low, s.neg_mul_add(below.high, f));
    let s = Twofold::sum(s, rest * inverse);
    // ln m = 2 s (1 + z / 3 + z² …), z = s².
    let z = s.times(s);
    let third = z.times(Twofold::of(1.0 / 3.0, 1.850_371_707_708_594e-17));
    let tail = z.high * z.high * z.high.poly(&c::LOG_TAIL_64);
    let third = third.plus(tail);
    let series = Twofold::sum(one, third.high).plus(third.low);
    let scaled = s.times(Twofold::of(2.885_390_081_777_926_8, 4.071_054_748_206_687e-17));
    let logarithm = scaled.times(series);
    let sum = Twofold::sum(n, logarithm.high).plus(logarithm.low);
    let usual = x.gt(V::of(0.0)) & x.lt(V::of(f64::INFINITY));
    Twofold { high: log_special(x, sum.high), low: V::select(usual, sum.low, V::of(0.0)) }
}

/// 2^(high + low).
#[inline(always)]
fn exp2<V: Real<Elem = f64>>(high: V, low: V) -> V {
    let n = high.round();
    let ln_2 = Twofold::of(consts::LN_2, 2.319_046_813_846_299_6e-17);
    let t = Twofold::sum(high - n, low).times(ln_2);
    let curve = (t.high * t.high).mul_add(t.high.poly(&c::EXP_64), t.low.mul_add(t.high, t.low));
    let sum = Twofold::sum(V::of(1.0), t.high);
    (sum.high + (sum.low + curve)).scale2(n)
}
