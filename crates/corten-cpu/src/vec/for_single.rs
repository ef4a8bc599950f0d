//! Functions of `f64` vectors with an error of about 10⁻⁹, for arguments and results of `f32`: they
//! take half of what those of `math64` do.

use super::coefficients as c;
use super::math64::{log, log_special, split_around_one};
use super::real::{MaskBits, Real};
use std::f64::consts;

/// e^x for results that `f32` can tell from zero and infinity.
#[inline(always)]
fn exp<V: Real<Elem = f64>>(x: V) -> V {
    let n = (x * V::of(consts::LOG2_E)).round();
    let r = n.neg_mul_add(V::of(consts::LN_2), x);
    (V::of(1.0) + (r * r).mul_add(r.poly(&c::EXP_32), r)) * V::pow2(n)
}

/// ln x = n ln 2 + ln(1 + f): n and the second term.
#[inline(always)]
fn log_parts<V: Real<Elem = f64>>(x: V) -> (V, V) {
    let (m, n) = split_around_one(x);
    let f = m - V::of(1.0);
    (n, (f * f).mul_add(f.mul_add(f.poly(&c::LOG_32), V::of(-0.5)), f))
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
    let (n, rest) = log_parts(quotient);
    let logarithm = log_special(quotient, n.mul_add(V::of(consts::LN_2), rest));
    // The quotient of small numbers has too few of their digits, but they are their own result.
    V::select(a.lt(V::of(1e-5)), a, logarithm * V::of(0.5)).copysign(x)
}

#[inline(always)]
pub(crate) fn erfc<V: Real<Elem = f64>>(x: V) -> V {
    let a = V::of(14.0).min(x.abs());
    let inverse = V::of(1.0) / (a + V::of(2.0));
    let polynomial = ((a - V::of(2.0)) * inverse).poly(&c::ERFC_32);
    // The square of an `f32` is exact.
    let right = exp(-(a * a)) * (polynomial * inverse);
    V::select(x.lt(V::of(0.0)), V::of(2.0) - right, right)
}

/// The inverse of the error function.
#[inline(always)]
pub(crate) fn erfinv<V: Real<Elem = f64>>(y: V) -> V {
    let one = V::of(1.0);
    let w = -log(y.neg_mul_add(y, one));
    let slope = (w - V::of(3.125)).poly(&c::ERFINV_NEAR);
    let result = y * slope;
    let far = w.gt(V::of(6.25));
    if !far.any() {
        return result;
    }
    let slope = (w.sqrt() - V::of(3.25)).poly(&c::ERFINV_FAR);
    let result = V::select(far, y * slope, result);
    V::select(y.abs().eq(one), V::of(f64::INFINITY).copysign(y), result)
}
