//! Exponentials, logarithms and error functions of `f64` vectors, within about 2 units in the last
//! place. `math32` uses them for the `f32` functions that are not worth a formula of their own.

pub(crate) use super::bessel::{i0, i0e, i1, i1e};
use super::coefficients as c;
pub(crate) use super::gamma::{digamma, lgamma};
pub(crate) use super::polynomials::*;
pub(crate) use super::power::pow;
use super::real::{MaskBits, Real};
use crate::special;
use crate::special::error::{CENTRE, FAR, MIDDLE};
use std::f64::consts;

/// ln 2 in two parts; the first has enough trailing zeros for exact products with exponents.
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// What the rounded 1/ln 2 lacks.
const LOG2_E_LOW: f64 = 2.035_527_374_093_103_3e-17;
/// 1/ln 10, what it lacks once rounded, and log10 2 in two parts.
const LOG10_E: f64 = consts::LOG10_E;
const LOG10_E_LOW: f64 = 1.098_319_650_216_765e-17;
const LOG10_2_HIGH: f64 = 3.010_299_956_636_117_7e-1;
const LOG10_2_LOW: f64 = 3.694_239_077_158_931e-13;

/// The reduced argument, its exponent, and a power of two, right where it is a normal number:
/// e^x 2^k = e^first 2^(second + k) = e^first third.
#[inline(always)]
fn reduce_exp<V: Real<Elem = f64>>(x: V, k: f64) -> (V, V, V) {
    let (n, power) = x.round_to_power(consts::LOG2_E, k);
    let r = n.neg_mul_add(V::of(LN2_LOW), n.neg_mul_add(V::of(LN2_HIGH), x));
    (r, n, power)
}

/// e^r of a reduced argument.
#[inline(always)]
fn exp_near<V: Real<Elem = f64>>(r: V) -> V {
    let one = V::of(1.0);
    // Two products that are rounded would cost half a unit more.
    if !V::FUSED {
        return one + expm1_near(r);
    }
    r.poly(&c::EXP_64).mul_add(r, one).mul_add(r, one)
}

/// e^r - 1 of a reduced argument, with the digits of a small one.
#[inline(always)]
fn expm1_near<V: Real<Elem = f64>>(r: V) -> V {
    (r * r).mul_add(r.poly(&c::EXP_64), r)
}

/// `x` kept where the exponent stays in reach; NaN stays NaN.
#[inline(always)]
pub(crate) fn clamp<V: Real>(x: V, low: f64, high: f64) -> V {
    V::of(low).max(V::of(high).min(x))
}

// Note [Results that underflow]
// They cost some processors a hundred cycles each, and masks of attention are nothing else. Where the
// result is certain to be zero another number is computed with. Rejected: a closure for what is in
// between; see Note [Vector inlining].

/// e^x 2^k.
#[inline(always)]
fn exp_scaled<V: Real<Elem = f64>>(x: V, k: f64) -> V {
    // Normal results take one factor.
    if !V::SCALES && !x.any_beyond(706.0) {
        let (r, _, power) = reduce_exp(x, k);
        return exp_near(r) * power;
    }
    // See Note [Results that underflow].
    let seen = x.not_lt(V::of(-746.0 - k * consts::LN_2));
    let x = V::select(seen, V::of(1000.0).min(x), V::of(0.0));
    let (r, n, _) = reduce_exp(x, 0.0);
    V::select(seen, exp_near(r).scale2(n + V::of(k)), V::of(0.0))
}

#[inline(always)]
pub(crate) fn exp<V: Real<Elem = f64>>(x: V) -> V {
    exp_scaled(x, 0.0)
}

#[inline(always)]
pub(crate) fn exp2<V: Real<Elem = f64>>(x: V) -> V {
    let x = clamp(x, -1500.0, 1500.0);
    let n = x.round();
    let r = (x - n) * V::of(consts::LN_2);
    exp_near(r).scale2(n)
}

#[inline(always)]
pub(crate) fn expm1<V: Real<Elem = f64>>(x: V) -> V {
    // Half of the power, since 2^1024 is out of range where the result is not.
    let (r, n, half) = reduce_exp(clamp(x, -50.0, 710.0), -1.0);
    let r = expm1_near(r);
    let scaled = half.mul_add(r, half - V::of(0.5)) * V::of(2.0);
    V::select(n.eq(V::of(0.0)), r, scaled).copysign(x)
}

/// A logarithm in parts: ln x = n ln 2 + high + low.
struct Log<V> {
    n: V,
    high: V,
    low: V,
}

/// ln(1 + f) in two parts, for 1 + f from √½ to √2. Follows FDLIBM's e_log.c.
#[inline(always)]
fn log_reduced<V: Real<Elem = f64>>(f: V, n: V) -> Log<V> {
    let s = f / (V::of(2.0) + f);
    let z = s * s;
    let r = z * z.poly(&c::LOG_64);
    let half_square = V::of(0.5) * f * f;
    let high = f - half_square;
    let low = s.mul_add(half_square + r, (f - high) - half_square);
    Log { n, high, low }
}

#[inline(always)]
fn log_parts<V: Real<Elem = f64>>(x: V) -> Log<V> {
    let (m, n) = x.split_around_one();
    log_reduced(m - V::of(1.0), n)
}

/// Logarithms outside the positive numbers.
#[inline(always)]
pub(crate) fn log_special<V: Real>(x: V, result: V) -> V {
    let (zero, infinity) = (V::of(0.0), V::of(f64::INFINITY));
    let result = V::select(x.eq(infinity), infinity, result);
    let result = V::select(x.eq(zero), -infinity, result);
    V::select(x.ge(zero), result, V::of(f64::NAN))
}

#[inline(always)]
pub(crate) fn log<V: Real<Elem = f64>>(x: V) -> V {
    let p = log_parts(x);
    let low = p.n.mul_add(V::of(LN2_LOW), p.low);
    log_special(x, p.n.mul_add(V::of(LN2_HIGH), p.high + low))
}

#[inline(always)]
pub(crate) fn log2<V: Real<Elem = f64>>(x: V) -> V {
    let p = log_parts(x);
    let low = p.low.mul_add(V::of(consts::LOG2_E), p.high * V::of(LOG2_E_LOW));
    log_special(x, p.n + p.high.mul_add(V::of(consts::LOG2_E), low))
}

#[inline(always)]
pub(crate) fn log10<V: Real<Elem = f64>>(x: V) -> V {
    let p = log_parts(x);
    let low = p.low.mul_add(V::of(LOG10_E), p.high * V::of(LOG10_E_LOW));
    let low = p.n.mul_add(V::of(LOG10_2_LOW), low);
    log_special(x, p.n.mul_add(V::of(LOG10_2_HIGH), p.high.mul_add(V::of(LOG10_E), low)))
}

#[inline(always)]
pub(crate) fn log1p<V: Real<Elem = f64>>(x: V) -> V {
    let one = V::of(1.0);
    let u = one + x;
    let (m, n) = u.split_around_one();
    let direct = n.eq(V::of(0.0));
    // What rounding took from u, relative to u: the smaller one of the two shows it.
    let lost = V::select(x.gt(one), one - (u - x), x - (u - one)) / u;
    let p = log_reduced(V::select(direct, x, m - one), n);
    let lost = V::select(direct, V::of(0.0), lost);
    let low = n.mul_add(V::of(LN2_LOW), p.low + lost);
    log_special(u, n.mul_add(V::of(LN2_HIGH), p.high + low)).copysign(x)
}

#[inline(always)]
pub(crate) fn sinh<V: Real<Elem = f64>>(x: V) -> V {
    let a = x.abs();
    let e = expm1(a);
    let small = V::of(0.5) * (e + e / (e + V::of(1.0)));
    V::select(a.lt(V::of(40.0)), small, exp_scaled(a, -1.0)).copysign(x)
}

#[inline(always)]
pub(crate) fn cosh<V: Real<Elem = f64>>(x: V) -> V {
    let half = exp_scaled(x.abs(), -1.0);
    half + V::of(0.25) / half
}

#[inline(always)]
pub(crate) fn tanh<V: Real<Elem = f64>>(x: V) -> V {
    let e = expm1(V::of(44.0).min(V::of(2.0) * x.abs()));
    (e / (e + V::of(2.0))).copysign(x)
}

#[inline(always)]
pub(crate) fn asinh<V: Real<Elem = f64>>(x: V) -> V {
    let a = x.abs();
    let one = V::of(1.0);
    let square = a * a;
    let near = log1p(a + square / (one + (square + one).sqrt()));
    let far = log(a) + V::of(consts::LN_2);
    V::select(a.gt(V::of(1e150)), far, near).copysign(x)
}

#[inline(always)]
pub(crate) fn acosh<V: Real<Elem = f64>>(x: V) -> V {
    let one = V::of(1.0);
    let t = x - one;
    let near = log1p(t + (t * (t + V::of(2.0))).sqrt());
    let result = V::select(x.gt(V::of(1e150)), log(x) + V::of(consts::LN_2), near);
    V::select(x.ge(one), result, V::of(f64::NAN))
}

#[inline(always)]
pub(crate) fn atanh<V: Real<Elem = f64>>(x: V) -> V {
    let (a, one) = (x.abs(), V::of(1.0));
    let twice = a + a;
    let below = one - a;
    let quotient = twice / below;
    let logarithm = log1p(quotient);
    if !V::FUSED {
        return (V::of(0.5) * logarithm).copysign(x);
    }
    // What rounding took from 1 - a and from the quotient, whose logarithm has the slope (1 - a) / (1 + a).
    let lost = (one - below) - a;
    let rest = quotient.neg_mul_add(lost, quotient.neg_mul_add(below, twice)) / (one + a);
    let exact = V::of(0.5) * (logarithm + rest);
    V::select(a.lt(one), exact, logarithm).copysign(x)
}

/// erf for |x| below 1.
#[inline(always)]
fn erf_near<V: Real<Elem = f64>>(x: V) -> V {
    let z = x * x;
    let slope = V::of(consts::FRAC_2_SQRT_PI - 1.0);
    z.mul_add(z.poly(&c::ERF_64), slope).mul_add(x, x)
}

/// e^{x²} erfc(x) for x ≥ 0: a polynomial in t = (x - 3) / (x + 3), and 1 + 2x, which divides it.
#[inline(always)]
fn erfc_scaled<V: Real<Elem = f64>>(x: V) -> (V, V) {
    let t = (x - V::of(3.0)) / (x + V::of(3.0));
    (t.poly(&c::ERFC_64), V::of(1.0) + V::of(2.0) * x)
}

/// erfc for x ≥ 0.
#[inline(always)]
fn erfc_far<V: Real<Elem = f64>>(x: V) -> V {
    let x = V::of(28.0).min(x);
    // The square in two parts: that of the leading 26 bits is exact.
    let leading = x.bit_and(V::of_bits(0xffff_ffff_f800_0000));
    let rest = (leading - x) * (leading + x);
    let small = rest * rest.poly(&[1.0, 0.5, 1.0 / 6.0]);
    let (above, below) = erfc_scaled(x);
    let inverse = V::of(1.0) / below;
    let quotient = above * inverse;
    // What rounding took from the divisor, where 2x is at least 1, and from the quotient.
    let lost = V::of(2.0) * x - (below - V::of(1.0));
    let apart = match V::FUSED {
        true => quotient.neg_mul_add(lost, quotient.neg_mul_add(below, above)) * inverse,
        false => V::of(0.0),
    };
    exp(-(leading * leading)) * (quotient + quotient.mul_add(small, apart))
}

#[inline(always)]
pub(crate) fn erf<V: Real<Elem = f64>>(x: V) -> V {
    let (a, near) = (x.abs(), erf_near(x));
    let outside = !a.lt(V::of(1.0));
    if !outside.any() {
        return near;
    }
    // From 6 on it is 1. Beside 1 the digits that the square loses do not count.
    let a = V::of(6.0).min(a);
    let (above, below) = erfc_scaled(a);
    let far = (V::of(1.0) - exp(-(a * a)) * (above / below)).copysign(x);
    V::select(outside, far, near)
}

#[inline(always)]
pub(crate) fn erfc<V: Real<Elem = f64>>(x: V) -> V {
    let a = x.abs();
    let far = erfc_far(a);
    let far = V::select(x.lt(V::of(0.0)), V::of(2.0) - far, far);
    V::select(a.lt(V::of(0.5)), V::of(1.0) - erf_near(x), far)
}

/// The normal distribution function; the left tail has no digits of its own.
#[inline(always)]
pub(crate) fn normal_cdf<V: Real<Elem = f64>>(x: V) -> V {
    V::of(0.5) * (V::of(1.0) + erf(x * V::of(consts::FRAC_1_SQRT_2)))
}

/// The normal distribution function, and e^(-x²/2), which is its slope but for a factor.
#[inline(always)]
pub(crate) fn normal<V: Real<Elem = f64>>(x: V) -> [V; 2] {
    [normal_cdf(x), exp(x * x * V::of(-0.5))]
}

/// The normal distribution function, accurate far out.
#[inline(always)]
pub(crate) fn ndtr<V: Real<Elem = f64>>(x: V) -> V {
    /// What the rounded 1/√2 lacks.
    const LOW: f64 = -4.833_646_656_726_457e-17;
    let t = x * V::of(-consts::FRAC_1_SQRT_2);
    let half = V::of(0.5) * erfc(t);
    // What rounding took from t, times the slope of the logarithm, which is nearly -2t far out.
    let exact = x.mul_add(V::of(-consts::FRAC_1_SQRT_2), -t);
    let lost = x.neg_mul_add(V::of(LOW), exact);
    let corrected = (t + t).mul_add(-lost * half, half);
    V::select(t.gt(V::of(1.0)) & t.lt(V::of(40.0)), corrected, half)
}

/// √(x² + y²) without overflow on the way.
#[inline(always)]
pub(crate) fn hypot<V: Real<Elem = f64>>(x: V, y: V) -> V {
    let (a, b) = (x.abs(), y.abs());
    let (large, small) = (a.max(b), a.min(b));
    let ratio = small / large;
    let result = large * ratio.mul_add(ratio, V::of(1.0)).sqrt();
    let infinity = V::of(f64::INFINITY);
    let result = V::select(large.eq(V::of(0.0)), V::of(0.0), result);
    let result = V::select(x.is_nan() | y.is_nan(), x + y, result);
    V::select(a.eq(infinity) | b.eq(infinity), infinity, result)
}

/// The numbers of `x` where `slow` is set replaced by `f` of them, one at a time.
#[inline(always)]
pub(crate) fn patch<V: Real>(x: V, slow: V::Mask, fast: V, f: impl Fn(V::Elem) -> V::Elem) -> V {
    if slow.any() { V::select(slow, x.map(f), fast) } else { fast }
}

/// The exact remainder of the truncated quotient.
#[inline(always)]
pub(crate) fn fmod<V: Real<Elem = f64>>(x: V, y: V) -> V {
    let (a, b) = (x.abs(), y.abs());
    let quotient = a / b;
    let usual = quotient.lt(V::of((1u64 << 52) as f64)) & b.lt(V::of(f64::INFINITY));
    if !V::FUSED || (!usual).any() {
        return x.zip(y, |x, y| x % y);
    }
    // The quotient may have been rounded up to the next integer; the remainder is exact all the same.
    let rest = quotient.trunc().neg_mul_add(b, a);
    V::select(rest.lt(V::of(0.0)), rest + b, rest).copysign(x)
}

/// The inverse of the error function, as `special::error::erfinv`.
#[inline(always)]
pub(crate) fn erfinv<V: Real<Elem = f64>>(y: V) -> V {
    let (a, one) = (y.abs(), V::of(1.0));
    let t = (a * a).neg_mul_add(V::of(0.25), V::of(0.180_625));
    let (mut above, mut below) = (a * t.poly(&CENTRE[0]), t.poly(&CENTRE[1]));
    let outside = !a.le(V::of(0.85));
    if outside.any() {
        let r = (V::of(consts::LN_2) - log(one - a)).sqrt();
        let t = r - V::of(1.6);
        above = V::select(outside, V::of(consts::FRAC_1_SQRT_2) * t.poly(&MIDDLE[0]), above);
        below = V::select(outside, t.poly(&MIDDLE[1]), below);
        let far = r.gt(V::of(5.0));
        if far.any() {
            let t = r - V::of(5.0);
            above = V::select(far, V::of(consts::FRAC_1_SQRT_2) * t.poly(&FAR[0]), above);
            below = V::select(far, t.poly(&FAR[1]), below);
        }
    }
    V::select(a.eq(one), V::of(f64::INFINITY), above / below).copysign(y)
}

/// Functions that have no vectors: one number at a time.
macro_rules! one_by_one {
    ($($module:ident::$function:ident)+) => {$(
        #[inline(always)]
        pub(crate) fn $function<V: Real<Elem = f64>>(x: V) -> V {
            x.map(special::$module::$function)
        }
    )+};
}

one_by_one! { error::ndtri bessel::j0 bessel::j1 bessel::y0 bessel::y1 }

/// Hurwitz' ζ(s, q).
#[inline(always)]
pub(crate) fn zeta<V: Real<Elem = f64>>(s: V, q: V) -> V {
    s.zip(q, special::zeta::zeta)
}
