//! Functions of `f64` vectors with an error of about 10⁻⁹, for arguments and results of `f32`: they
//! take half of what those of `math64` do.

pub(crate) use super::bessel::{
    i0_for_single as i0, i0e_for_single as i0e, i1_for_single as i1, i1e_for_single as i1e,
};
use super::coefficients as c;
pub(crate) use super::gamma::lgamma_for_single as lgamma;
use super::math32::reduce_double;
use super::math64::log_special;
use super::real::{MaskBits, Real};
use super::trig::quadrant;
use std::f64::consts;

/// e^x for results that `f32` can tell from zero and infinity.
#[inline(always)]
pub(super) fn exp<V: Real<Elem = f64>>(x: V) -> V {
    let n = (x * V::of(consts::LOG2_E)).round();
    let r = n.neg_mul_add(V::of(consts::LN_2), x);
    (V::of(1.0) + (r * r).mul_add(r.poly(&c::EXP_32), r)) * V::pow2(n)
}

/// ln x = n ln 2 + ln(1 + f): n and the second term.
#[inline(always)]
fn log_parts<V: Real<Elem = f64>>(x: V) -> (V, V) {
    let (m, n) = x.split_normal();
    let f = m - V::of(1.0);
    (n, (f * f).mul_add(f.mul_add(f.poly(&c::LOG_32), V::of(-0.5)), f))
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

/// The inverse of the error function.
#[inline(always)]
pub(crate) fn erfinv<V: Real<Elem = f64>>(y: V) -> V {
    let one = V::of(1.0);
    let w = -log(y.neg_mul_add(y, one));
    let slope = (w - V::of(3.125)).poly(&c::ERFINV_NEAR);
    let result = y * slope;
    let far = !(w.le(V::of(6.25)) & y.abs().lt(one));
    if !far.any() {
        return result;
    }
    let slope = (w.sqrt() - V::of(3.25)).poly(&c::ERFINV_FAR);
    let result = V::select(far, y * slope, result);
    let result = V::select(y.abs().eq(one), V::of(f64::INFINITY).copysign(y), result);
    V::select(y.abs().le(one), result, V::of(f64::NAN))
}
