//! Trigonometric functions of `f64` vectors and their inverses, within about 2 units in the last
//! place.

use super::coefficients as c;
use super::math64::patch;
use super::real::Real;
use std::f64::consts;

/// π/2 in three parts; the first two have enough trailing zeros for exact products with n < 2²⁰.
const HALF_PI: [f64; 3] =
    [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
/// What the rounded π/2 lacks.
const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17;
/// Beyond this the reduction in three parts is not exact.
const LARGE: f64 = 1.0e6;

/// n, and x - n π/2 but for the third part.
#[inline(always)]
fn reduce_twice<V: Real<Elem = f64>>(x: V) -> (V, V, V) {
    // Adding zero makes the n of a negative zero positive, which keeps the sign of x in r.
    let n = (x * V::of(consts::FRAC_2_PI)).round() + V::of(0.0);
    let first = n.neg_mul_add(V::of(HALF_PI[0]), x);
    (n, first, n.neg_mul_add(V::of(HALF_PI[1]), first))
}

/// x - n π/2 with the nearest n.
#[inline(always)]
fn reduce<V: Real<Elem = f64>>(x: V) -> (V, V) {
    let (n, _, r) = reduce_twice(x);
    (n.neg_mul_add(V::of(HALF_PI[2]), r), n)
}

/// The same, and what rounding took from the remainder.
#[inline(always)]
fn reduce_with_rest<V: Real<Elem = f64>>(x: V) -> (V, V, V) {
    let (n, first, second) = reduce_twice(x);
    let added = n.mul_add(V::of(HALF_PI[1]), second - first);
    let small = n.mul_add(V::of(HALF_PI[2]), added);
    // A difference keeps the sign of a negative zero.
    let r = second - small;
    (r, (second - r) - small, n)
}

/// Which polynomial serves quadrant n, and with which sign: (n odd, n in the lower half).
#[inline(always)]
pub(crate) fn quadrant<V: Real>(n: V) -> (V::Mask, V::Mask) {
    let half = n * V::of(0.5);
    let whole = half.floor();
    let quarter = whole * V::of(0.5);
    (whole.ne(half), quarter.floor().ne(quarter))
}

/// The sine of r, and of the rest that rounding took from it.
#[inline(always)]
fn sin_near<V: Real<Elem = f64>>(r: V, rest: Option<V>) -> V {
    let z = r * r;
    let (cube, slope) = (z * r, z.poly(&c::SIN_64));
    let y = match rest {
        Some(rest) => cube.mul_add(slope, rest) + r,
        None => cube.mul_add(slope, r),
    };
    // The sum would lose the sign of a negative zero.
    V::select(r.eq(V::of(0.0)), r, y)
}

/// The cosine of both.
#[inline(always)]
fn cos_near<V: Real<Elem = f64>>(r: V, rest: Option<V>) -> V {
    let z = r * r;
    let half = V::of(0.5) * z;
    let lead = V::of(1.0) - half;
    // What rounding took from 1 - z/2 goes to the small terms.
    let lost = (V::of(1.0) - lead) - half;
    let lost = rest.map_or(lost, |rest| r.neg_mul_add(rest, lost));
    lead + (z * z).mul_add(z.poly(&c::COS_64), lost)
}

#[inline(always)]
pub(crate) fn sin<V: Real<Elem = f64>>(x: V) -> V {
    let (r, n) = reduce(x);
    let (odd, lower) = quadrant(n);
    let y = V::select(odd, cos_near(r, None), sin_near(r, None));
    patch(x, x.abs().gt(V::of(LARGE)), V::select(lower, -y, y), libm::sin)
}

/// sin πx: of the difference from the nearest integer, which is exact.
#[inline(always)]
pub(crate) fn sinpi<V: Real<Elem = f64>>(x: V) -> V {
    let n = x.round();
    let (odd, _) = quadrant(n);
    let y = sin((x - n) * V::of(consts::PI));
    V::select(odd, -y, y)
}

#[inline(always)]
pub(crate) fn cos<V: Real<Elem = f64>>(x: V) -> V {
    let (r, n) = reduce(x);
    let (odd, _) = quadrant(n);
    let (_, lower) = quadrant(n + V::of(1.0));
    let y = V::select(odd, sin_near(r, None), cos_near(r, None));
    patch(x, x.abs().gt(V::of(LARGE)), V::select(lower, -y, y), libm::cos)
}

#[inline(always)]
pub(crate) fn tan<V: Real<Elem = f64>>(x: V) -> V {
    let (r, rest, n) = reduce_with_rest(x);
    let (odd, _) = quadrant(n);
    let (s, c) = (sin_near(r, Some(rest)), cos_near(r, Some(rest)));
    let y = V::select(odd, -c, s) / V::select(odd, s, c);
    patch(x, x.abs().gt(V::of(LARGE)), y, libm::tan)
}

#[inline(always)]
pub(crate) fn atan<V: Real<Elem = f64>>(x: V) -> V {
    let a = x.abs();
    let one = V::of(1.0);
    let (far, middle) = (a.gt(V::of(2.414_213_562_373_095)), a.gt(V::of(0.414_213_562_373_095)));
    let t = V::select(middle, a - one, a) / V::select(middle, a + one, one);
    let t = V::select(far, -(one / a), t);
    let base = V::select(middle, V::of(consts::FRAC_PI_4), V::of(0.0));
    let base = V::select(far, V::of(consts::FRAC_PI_2), base);
    let low = V::select(middle, V::of(0.5 * HALF_PI_LOW), V::of(0.0));
    let low = V::select(far, V::of(HALF_PI_LOW), low);
    let z = t * t;
    (base + (t + (z * t).mul_add(z.poly(&c::ATAN_64), low))).copysign(x)
}

/// The angle of the point (x, y).
#[inline(always)]
pub(crate) fn atan2<V: Real<Elem = f64>>(y: V, x: V) -> V {
    let (a, b) = (y.abs(), x.abs());
    let zero = V::of(0.0);
    // Both zero or both infinite leave no ratio of their own.
    let ratio = V::select(a.eq(b), V::of(1.0), a / b);
    let ratio = V::select(a.eq(zero), zero, ratio);
    let upright = ratio.eq(V::of(f64::INFINITY));
    let angle = atan(ratio);
    let left = (V::of(consts::PI) - angle) + V::of(2.0 * HALF_PI_LOW);
    let left = V::select(upright, angle, left);
    let angle = V::select(x.sign_bit(), left, angle).copysign(y);
    V::select(x.is_nan() | y.is_nan(), x + y, angle)
}

/// asin for |x| ≤ ½.
#[inline(always)]
fn asin_near<V: Real<Elem = f64>>(x: V) -> V {
    let z = x * x;
    (z * x).mul_add(z.poly(&c::ASIN_64), x)
}

#[inline(always)]
pub(crate) fn asin<V: Real<Elem = f64>>(x: V) -> V {
    let a = x.abs();
    let far = a.gt(V::of(0.5));
    let root = (V::of(0.5) * (V::of(1.0) - a)).sqrt();
    let near = asin_near(V::select(far, root, a));
    let wide = V::of(consts::FRAC_PI_2) - (V::of(2.0) * near - V::of(HALF_PI_LOW));
    V::select(far, wide, near).copysign(x)
}

#[inline(always)]
pub(crate) fn acos<V: Real<Elem = f64>>(x: V) -> V {
    let a = x.abs();
    let far = a.gt(V::of(0.5));
    let root = (V::of(0.5) * (V::of(1.0) - a)).sqrt();
    let near = asin_near(V::select(far, root, x));
    let middle = V::of(consts::FRAC_PI_2) - (near - V::of(HALF_PI_LOW));
    let twice = V::of(2.0) * near;
    let left = V::of(consts::PI) - (twice - V::of(2.0 * HALF_PI_LOW));
    V::select(far, V::select(x.lt(V::of(0.0)), left, twice), middle)
}
