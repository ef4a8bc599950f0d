//! Functions of `f64` vectors with an error of about 10⁻⁹, for arguments and results of `f32`: they
//! take half of what those of `math64` do.

pub(crate) use super::bessel::{
    i0_for_single as i0, i0e_for_single as i0e, i1_for_single as i1, i1e_for_single as i1e,
};
pub(crate) use super::bessel_jy::{j0, j1, y0, y1};
use super::coefficients as c;
pub(crate) use super::gamma::lgamma_for_single as lgamma;
use super::math32::{expm1_near, reduce_double};
use super::math64::{clamp, log_special};
use super::real::{MaskBits, Real};
use super::trig::quadrant;
use crate::special;
use crate::special::gamma::BERNOULLI;
use std::f64::consts;

/// e^x for results that `f32` can tell from zero and infinity.
#[inline(always)]
pub(super) fn exp<V: Real<Elem = f64>>(x: V) -> V {
    let (n, power) = x.round_to_power(consts::LOG2_E, 0.0);
    let r = n.neg_mul_add(V::of(consts::LN_2), x);
    power.mul_add(expm1_near(r), power)
}

/// ln x = n ln 2 + ln(1 + f): n and the second term.
#[inline(always)]
fn log_parts<V: Real<Elem = f64>>(x: V) -> (V, V) {
    let (m, n) = x.split_normal();
    let f = m - V::of(1.0);
    (n, (f * f).mul_add(f.mul_add(f.long_poly(&c::LOG_32), V::of(-0.5)), f))
}

/// x^y of `x >= 0`. The logarithm has two digits more than the others, for an exponent of up to 150.
#[inline(always)]
pub(crate) fn positive_power<V: Real<Elem = f64>>(x: V, y: V) -> V {
    let (m, n) = x.split_normal();
    let f = m - V::of(1.0);
    let rest = (f * f).mul_add(f.mul_add(f.long_poly(&c::LOG_POWER_32), V::of(-0.5)), f);
    let logarithm = log_special(x, rest.mul_add(V::of(consts::LOG2_E), n));
    // Beyond it `f32` has zero and infinity.
    let power = clamp(y * logarithm, -200.0, 200.0);
    let n = power.round();
    let r = (power - n) * V::of(consts::LN_2);
    (V::of(1.0) + expm1_near(r)) * V::pow2(n)
}

/// ln x of positive numbers.
#[inline(always)]
pub(super) fn log<V: Real<Elem = f64>>(x: V) -> V {
    let (n, rest) = log_parts(x);
    n.mul_add(V::of(consts::LN_2), rest)
}

#[inline(always)]
pub(crate) fn log2<V: Real<Elem = f64>>(x: V) -> V {
    let (n, rest) = log_parts(x);
    log_special(x, rest.mul_add(V::of(consts::LOG2_E), n))
}

#[inline(always)]
pub(crate) fn log10<V: Real<Elem = f64>>(x: V) -> V {
    let (n, rest) = log_parts(x);
    log_special(x, n.mul_add(V::of(consts::LOG10_2), rest * V::of(consts::LOG10_E)))
}

#[inline(always)]
pub(crate) fn atanh<V: Real<Elem = f64>>(x: V) -> V {
    let (a, one) = (x.abs(), V::of(1.0));
    let quotient = (one + a) / (one - a);
    let logarithm = log_special(quotient, log(quotient));
    // The quotient of small numbers has too few of their digits, but they are their own result.
    V::select(a.lt(V::of(1e-5)), a, logarithm * V::of(0.5)).copysign(x)
}

#[inline(always)]
pub(crate) fn acosh<V: Real<Elem = f64>>(x: V) -> V {
    let one = V::of(1.0);
    // The square of an `f32` is exact, and not too large.
    let sum = x + (x * x - one).sqrt();
    let logarithm = log_special(sum, log(sum));
    V::select(x.ge(one), logarithm, V::of(f64::NAN))
}

#[inline(always)]
pub(crate) fn tan<V: Real<Elem = f64>>(x: V) -> V {
    let (r, n) = reduce_double(x);
    let (odd, _) = quadrant(n);
    let z = r * r;
    let (above, below) = (r * z.poly(&c::TAN_32_ABOVE), z.poly(&c::TAN_32_BELOW));
    V::select(odd, -below, above) / V::select(odd, above, below)
}

#[inline(always)]
pub(crate) fn erfc<V: Real<Elem = f64>>(x: V) -> V {
    let a = V::of(14.0).min(x.abs());
    // The square of an `f32` is exact.
    let right = exp(-(a * a)) * a.poly(&c::ERFC_32_ABOVE) / a.poly(&c::ERFC_32_BELOW);
    V::select(x.lt(V::of(0.0)), V::of(2.0) - right, right)
}

/// The normal distribution function.
#[inline(always)]
pub(crate) fn ndtr<V: Real<Elem = f64>>(x: V) -> V {
    V::of(0.5) * erfc(x * V::of(-consts::FRAC_1_SQRT_2))
}

/// erf⁻¹ of `y`, given 1 - y².
#[inline(always)]
fn erfinv_of<V: Real<Elem = f64>>(y: V, rest: V) -> V {
    let w = -log(rest);
    let slope = (w - V::of(3.125)).long_poly(&c::ERFINV_NEAR);
    let far = !w.le(V::of(6.25));
    if !far.any() {
        return y * slope;
    }
    let root = w.sqrt();
    let slope = V::select(far, (root - V::of(3.25)).poly(&c::ERFINV_FAR), slope);
    let beyond = root.gt(V::of(4.0));
    if !beyond.any() {
        return y * slope;
    }
    y * V::select(beyond, (root - V::of(7.25)).poly(&c::ERFINV_BEYOND), slope)
}

/// The inverse of the error function.
#[inline(always)]
pub(crate) fn erfinv<V: Real<Elem = f64>>(y: V) -> V {
    let (a, one) = (y.abs(), V::of(1.0));
    let result = erfinv_of(y, y.neg_mul_add(y, one));
    let outside = !a.lt(one);
    if !outside.any() {
        return result;
    }
    let limit = V::select(a.eq(one), V::of(f64::INFINITY).copysign(y), V::of(f64::NAN));
    V::select(outside, limit, result)
}

/// The quantile of the normal distribution.
#[inline(always)]
pub(crate) fn ndtri<V: Real<Elem = f64>>(p: V) -> V {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    // 1 - (2p - 1)², which has all digits where p is next to 0 or 1.
    let rest = V::of(4.0) * p * (one - p);
    let result = V::of(consts::SQRT_2) * erfinv_of(p + p - one, rest);
    let inside = p.gt(zero) & p.lt(one);
    if !(!inside).any() {
        return result;
    }
    let infinity = V::of(f64::INFINITY);
    let limit = V::select(p.eq(one), infinity, V::of(f64::NAN));
    let limit = V::select(p.eq(zero), -infinity, limit);
    V::select(inside, result, limit)
}

/// Hurwitz' ζ(s, q), by the Euler-Maclaurin formula.
#[inline(always)]
pub(crate) fn zeta<V: Real<Elem = f64>>(s: V, q: V) -> V {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    let below = s.lt(one);
    if !(!below).any() {
        return V::of(f64::NAN);
    }
    // Where the powers neither vanish nor leave the range of `f32` on one side only.
    let usual = s.gt(one) & s.lt(V::of(100.0)) & q.gt(zero) & q.lt(V::of(1e4));
    if (!usual).any() {
        return s.zip(q, special::zeta::zeta);
    }
    let (mut sum, mut a) = (positive_power(q, -s), q);
    for _ in 0..8 {
        a = a + one;
        sum = sum + positive_power(a, -s);
    }
    let last = positive_power(a, -s);
    sum = sum + last * (a / (s - one) - V::of(0.5));
    // The terms B₂ₖ/(2k)! s(s+1)…(s+2k-2) a^(1-s-2k).
    let inverse = one / a;
    let square = inverse * inverse;
    let mut factor = s * last * inverse * V::of(0.5);
    for (k, b) in BERNOULLI.iter().enumerate().take(6) {
        sum = V::of(*b).mul_add(factor, sum);
        let j = 2.0 * k as f64 + 1.0;
        let next = (s + V::of(j)) * (s + V::of(j + 1.0)) * V::of(1.0 / ((j + 2.0) * (j + 3.0)));
        factor = factor * square * next;
    }
    sum
}
