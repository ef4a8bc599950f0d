//! Mathematics on `f32` vectors, within about 2 units in the last place. The frequent functions
//! stay in single precision, the others go through `math64`.

use super::coefficients as c;
use super::for_single;
use super::math64::{self, log_special, patch};
use super::power;
use super::real::{MaskBits, Real, Single};
use super::trig::{self, quadrant};
use std::f64::consts;

/// ln 2 in two parts; the first has enough trailing zeros for exact products with exponents.
const LN2_HIGH: f64 = 0.693_359_375;
const LN2_LOW: f64 = -2.121_944_400_546_905_8e-4;
/// What π/2 rounded to `f32` lacks.
const HALF_PI_LOW: f64 = -4.371_139_000_186_242_6e-8;

/// A function of `math64` or `trig` applied to both halves in double precision. A macro, since a
/// function passed as an argument is not always inlined; see Note [Vector inlining].
macro_rules! in_double {
    ($function:path, $($x:ident),+) => {{
        $(let $x = $x.widen();)+
        V::narrow([$function($($x[0]),+), $function($($x[1]),+)])
    }};
}

/// `x` kept where the exponent stays in reach; NaN stays NaN.
#[inline(always)]
fn clamp<V: Single>(x: V, low: f64, high: f64) -> V {
    V::of(low).max(V::of(high).min(x))
}

/// As `math64` does: e^x 2^k = e^first 2^(second + k), and that power where it is normal.
#[inline(always)]
fn reduce_exp<V: Single>(x: V, k: f64) -> (V, V, V) {
    let (n, power) = x.round_to_power(consts::LOG2_E, k);
    let r = n.neg_mul_add(V::of(LN2_LOW), n.neg_mul_add(V::of(LN2_HIGH), x));
    (r, n, power)
}

/// e^r of a reduced argument.
#[inline(always)]
fn exp_near<V: Single>(r: V) -> V {
    let one = V::of(1.0);
    // Two products that are rounded would cost half a unit more.
    if !V::FUSED {
        return one + expm1_near(r);
    }
    r.poly(&c::EXP_32).mul_add(r, one).mul_add(r, one)
}

/// e^r - 1 of a reduced argument, with the digits of a small one.
#[inline(always)]
pub(super) fn expm1_near<V: Real>(r: V) -> V {
    (r * r).mul_add(r.poly(&c::EXP_32), r)
}

#[inline(always)]
pub(crate) fn exp<V: Single>(x: V) -> V {
    // Normal results take one factor.
    if !V::SCALES && !x.any_beyond(87.0) {
        let (r, _, power) = reduce_exp(x, 0.0);
        return exp_near(r) * power;
    }
    // See Note [Results that underflow].
    let seen = x.not_lt(V::of(-104.0));
    let (r, n, _) = reduce_exp(V::select(seen, V::of(100.0).min(x), V::of(0.0)), 0.0);
    V::select(seen, exp_near(r).scale2(n), V::of(0.0))
}

#[inline(always)]
pub(crate) fn exp2<V: Single>(x: V) -> V {
    let x = clamp(x, -160.0, 140.0);
    let n = x.round();
    let r = (x - n) * V::of(consts::LN_2);
    exp_near(r).scale2(n)
}

#[inline(always)]
pub(crate) fn expm1<V: Single>(x: V) -> V {
    // Half of the power, since 2^128 is out of range where the result is not.
    let (r, n, half) = reduce_exp(clamp(x, -25.0, 89.0), -1.0);
    let r = expm1_near(r);
    let scaled = half.mul_add(r, half - V::of(0.5)) * V::of(2.0);
    V::select(n.eq(V::of(0.0)), r, scaled).copysign(x)
}

/// n ln 2 + ln(1 + f) + small, for 1 + f from √½ to √2.
#[inline(always)]
fn log_reduced<V: Single>(f: V, n: V, small: V) -> V {
    let z = f * f;
    let low = (f * z).mul_add(f.poly(&c::LOG_32), n.mul_add(V::of(LN2_LOW), small));
    n.mul_add(V::of(LN2_HIGH), f + z.neg_mul_add(V::of(0.5), low))
}

/// n ln 2 + ln c + ln(m / c) with a c for each sixteenth of the mantissas m, such that ln c has few
/// digits: its sum with n ln 2 is exact. From 23/16 on m is halved, so that the logarithms around 1
/// have no sum to be lost in.
#[inline(always)]
fn log_by_table<V: Single>(x: V) -> V {
    let one = V::of(1.0);
    let (m, n) = x.split();
    let piece = m.sixteenth();
    let n = V::select(m.lt(V::of(1.4375)), n, n + one);
    let r = m.mul_add(piece.chosen(&c::LOG_INVERSES), -one);
    let low = (r * r).mul_add(r.poly(&c::LOG_SHORT_32), n * V::of(LN2_LOW));
    n.mul_add(V::of(LN2_HIGH), piece.chosen(&c::LOG_CENTRES)) + (r + low)
}

#[inline(always)]
pub(crate) fn log<V: Single>(x: V) -> V {
    if V::CHOOSES_AT_ONCE {
        let result = log_by_table(x);
        let ordinary = x.gt(V::of(0.0)) & x.lt(V::of(f64::INFINITY));
        return if (!ordinary).any() { log_special(x, result) } else { result };
    }
    let (m, n) = x.split_around_one();
    log_special(x, log_reduced(m - V::of(1.0), n, V::of(0.0)))
}

#[inline(always)]
pub(crate) fn log1p<V: Single>(x: V) -> V {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    let u = one + x;
    let (m, n) = u.split_around_one();
    let direct = n.eq(zero);
    // What rounding took from u, relative to u: the smaller one of the two shows it.
    let lost = V::select(x.gt(one), one - (u - x), x - (u - one)) / u;
    let f = V::select(direct, x, m - one);
    let lost = V::select(direct, zero, lost);
    log_special(u, log_reduced(f, n, lost)).copysign(x)
}

/// A logarithm in parts: n ln 2 + high + low.
struct Log<V> {
    n: V,
    high: V,
    low: V,
}

/// ln(1 + f) in two parts, for 1 + f from √½ to √2.
#[inline(always)]
fn log_parts<V: Single>(f: V, n: V) -> Log<V> {
    let z = f * f;
    let lost = f.mul_add(f, -z);
    let half = V::of(0.5) * z;
    let high = f - half;
    // The cube's own term comes last, where the others have no digits that could be lost, and with
    // what rounding took from it.
    let [third, rest @ ..] = c::LOG_32;
    let third = V::of(third);
    let cube = f * z;
    let lost = third.mul_add(f.mul_add(z, -cube), f.mul_add(third, V::of(-0.5)) * lost);
    let small = (cube * f).mul_add(f.long_poly(&rest), lost);
    let low = cube.mul_add(third, ((f - high) - half) + small);
    let sum = high + low;
    Log { n, high: sum, low: low - (sum - high) }
}

impl<V: Single> Log<V> {
    /// n `unit` and the logarithm times `factor`; each of the two in two parts, the first of which
    /// has so few digits, of the unit, that its products with exponents are exact.
    #[inline(always)]
    fn times(self, unit: [f64; 2], factor: [f64; 2]) -> V {
        let high = self.high * V::of(factor[0]);
        let low = self.high.mul_add(V::of(factor[0]), -high);
        let low = self.low.mul_add(V::of(factor[0]), self.high.mul_add(V::of(factor[1]), low));
        let whole = self.n * V::of(unit[0]);
        // The whole part is larger than the other, or zero.
        let sum = whole + high;
        let lost = (whole - sum) + high;
        sum + (lost + self.n.mul_add(V::of(unit[1]), low))
    }
}

/// 1/ln 2, 1/ln 10 and log10 2 in two parts each.
const LOG2_E: [f64; 2] = [1.442_695_021_629_333_5, 1.925_962_991_126_617_5e-8];
const LOG10_E: [f64; 2] = [0.434_294_492_006_301_9, -1.010_305_005_223_168_3e-8];
const LOG10_2: [f64; 2] = [0.301_025_390_625, 4.605_038_981_195_214e-6];

#[inline(always)]
pub(crate) fn log2<V: Single>(x: V) -> V {
    if !V::FUSED {
        return in_double!(for_single::log2, x);
    }
    let (m, n) = x.split_around_one();
    log_special(x, log_parts(m - V::of(1.0), n).times([1.0, 0.0], LOG2_E))
}

#[inline(always)]
pub(crate) fn log10<V: Single>(x: V) -> V {
    if !V::FUSED {
        return in_double!(for_single::log10, x);
    }
    let (m, n) = x.split_around_one();
    log_special(x, log_parts(m - V::of(1.0), n).times(LOG10_2, LOG10_E))
}

#[inline(always)]
pub(crate) fn tanh<V: Single>(x: V) -> V {
    let a = x.abs();
    // e^2a - 1, which keeps its digits where a is small.
    let (r, _, power) = reduce_exp(V::of(20.0).min(a + a), 0.0);
    let e = power.mul_add(expm1_near(r), power - V::of(1.0));
    (e / (e + V::of(2.0))).copysign(x)
}

#[inline(always)]
pub(crate) fn sinh<V: Single>(x: V) -> V {
    in_double!(math64::sinh, x)
}

#[inline(always)]
pub(crate) fn cosh<V: Single>(x: V) -> V {
    in_double!(math64::cosh, x)
}

#[inline(always)]
pub(crate) fn asinh<V: Single>(x: V) -> V {
    in_double!(math64::asinh, x)
}

#[inline(always)]
pub(crate) fn acosh<V: Single>(x: V) -> V {
    in_double!(for_single::acosh, x)
}

#[inline(always)]
pub(crate) fn atanh<V: Single>(x: V) -> V {
    in_double!(for_single::atanh, x)
}

/// π/2 in three parts. The first two have the mantissa of a single.
const HALF_PI: [f64; 3] =
    [1.570_796_370_506_286_6, -4.371_138_828_673_793e-8, -1.715_124_510_005_881e-15];
/// Up to here x - n π/2 is found in single precision: the first difference is exact, since its
/// last digit is that of the first part.
const NEAR: f64 = 20_000.0;

/// x - n π/2 with the nearest n; in double precision where singles are not enough.
#[inline(always)]
fn reduce<V: Single>(x: V) -> (V, V) {
    if V::FUSED && !(!x.abs().le(V::of(NEAR))).any() {
        let n = (x * V::of(consts::FRAC_2_PI)).round();
        let r = n.neg_mul_add(V::of(HALF_PI[0]), x);
        let r = n.neg_mul_add(V::of(HALF_PI[1]), r);
        let r = n.neg_mul_add(V::of(HALF_PI[2]), r);
        return (V::select(n.eq(V::of(0.0)), x, r), n);
    }
    let [low, high] = x.widen();
    let ((low, n_low), (high, n_high)) = (reduce_double(low), reduce_double(high));
    (V::narrow([low, high]), V::narrow([n_low, n_high]))
}

#[inline(always)]
pub(super) fn reduce_double<D: Real<Elem = f64>>(x: D) -> (D, D) {
    // Adding zero makes the n of a negative zero positive, which keeps the sign of x in r.
    let n = (x * D::of(consts::FRAC_2_PI)).round() + D::of(0.0);
    // π/2 in two parts; the first has 31 bits, so that its products with n < 2²² are exact.
    let r = n.neg_mul_add(D::of(1.570_796_326_734_125_6), x);
    (n.neg_mul_add(D::of(6.077_100_506_506_192e-11), r), n)
}

/// Beyond this n does not fit 22 bits.
const LARGE: f64 = 6.0e6;

#[inline(always)]
fn sin_near<V: Single>(r: V) -> V {
    let z = r * r;
    let y = (z * r).mul_add(z.poly(&c::SIN_32), r);
    // The sum would lose the sign of a negative zero.
    V::select(r.eq(V::of(0.0)), r, y)
}

#[inline(always)]
fn cos_near<V: Single>(r: V) -> V {
    let z = r * r;
    (z * z).mul_add(z.poly(&c::COS_32), z.neg_mul_add(V::of(0.5), V::of(1.0)))
}

#[inline(always)]
pub(crate) fn sin<V: Single>(x: V) -> V {
    let (r, n) = reduce(x);
    let (odd, lower) = quadrant(n);
    let y = V::select(odd, cos_near(r), sin_near(r));
    let y = V::select(lower, -y, y);
    patch(x, !x.abs().le(V::of(LARGE)), y, |x| f64::from(x).sin() as f32)
}

/// sin πx: of the difference from the nearest integer, which is exact.
#[inline(always)]
pub(crate) fn sinpi<V: Single>(x: V) -> V {
    let n = x.round();
    let (odd, _) = quadrant(n);
    let y = sin((x - n) * V::of(consts::PI));
    V::select(odd, -y, y)
}

#[inline(always)]
pub(crate) fn cos<V: Single>(x: V) -> V {
    let (r, n) = reduce(x);
    let (odd, _) = quadrant(n);
    let (_, lower) = quadrant(n + V::of(1.0));
    let y = V::select(odd, sin_near(r), cos_near(r));
    let y = V::select(lower, -y, y);
    patch(x, !x.abs().le(V::of(LARGE)), y, |x| f64::from(x).cos() as f32)
}

#[inline(always)]
pub(crate) fn tan<V: Single>(x: V) -> V {
    let y = in_double!(for_single::tan, x);
    patch(x, !x.abs().le(V::of(LARGE)), y, |x| f64::from(x).tan() as f32)
}

#[inline(always)]
pub(crate) fn atan<V: Single>(x: V) -> V {
    let a = x.abs();
    let one = V::of(1.0);
    let (far, middle) = (a.gt(V::of(2.414_213_562)), a.gt(V::of(0.414_213_562)));
    let t = V::select(middle, a - one, a) / V::select(middle, a + one, one);
    let t = V::select(far, -(one / a), t);
    let base = V::select(middle, V::of(consts::FRAC_PI_4), V::of(0.0));
    let base = V::select(far, V::of(consts::FRAC_PI_2), base);
    let low = V::select(middle, V::of(0.5 * HALF_PI_LOW), V::of(0.0));
    let low = V::select(far, V::of(HALF_PI_LOW), low);
    let z = t * t;
    (base + (t + (z * t).mul_add(z.poly(&c::ATAN_32), low))).copysign(x)
}

/// The angle of the point (x, y).
#[inline(always)]
pub(crate) fn atan2<V: Single>(y: V, x: V) -> V {
    let (a, b) = (y.abs(), x.abs());
    let (zero, low) = (V::of(0.0), V::of(HALF_PI_LOW));
    let larger = a.max(b);
    let ratio = a.min(b) / larger;
    let z = ratio * ratio;
    let angle = (z * ratio).mul_add(z.poly(&c::ATAN_WIDE_32), ratio);
    // Both zero or both infinite leave no ratio of their own.
    let angle = V::select(a.eq(b), V::of(consts::FRAC_PI_4), angle);
    let angle = V::select(larger.eq(zero), zero, angle);
    let left = V::of(consts::PI) - (angle - V::of(2.0) * low);
    let steep = V::of(consts::FRAC_PI_2) - (angle.flip(x) - low);
    let flat = V::select(x.sign_bit(), left, angle);
    let angle = V::select(b.lt(a), steep, flat).copysign(y);
    V::select(x.is_nan() | y.is_nan(), x + y, angle)
}

#[inline(always)]
fn asin_near<V: Single>(x: V) -> V {
    let z = x * x;
    (z * x).mul_add(z.poly(&c::ASIN_32), x)
}

#[inline(always)]
pub(crate) fn asin<V: Single>(x: V) -> V {
    if !V::FUSED {
        return in_double!(trig::asin, x);
    }
    let a = x.abs();
    let far = a.gt(V::of(0.5));
    let square = V::of(0.5) * (V::of(1.0) - a);
    let root = square.sqrt();
    let t = V::select(far, root, a);
    let z = V::select(far, square, a * a);
    let (cube, curve) = (z * t, z.poly(&c::ASIN_32));
    // π/2 - 2 asin √z, with what the root lacks, twice, and what the difference does.
    let lost = root.neg_mul_add(root, square) / root.max(V::of(1e-30));
    let (half_pi, twice) = (V::of(consts::FRAC_PI_2), root + root);
    let wide = half_pi - twice;
    let low = (V::of(HALF_PI_LOW) - lost) + ((half_pi - wide) - twice);
    let wide = wide + (cube + cube).neg_mul_add(curve, low);
    V::select(far, wide, cube.mul_add(curve, a)).copysign(x)
}

#[inline(always)]
pub(crate) fn acos<V: Single>(x: V) -> V {
    let a = x.abs();
    let far = a.gt(V::of(0.5));
    let root = (V::of(0.5) * (V::of(1.0) - a)).sqrt();
    let near = asin_near(V::select(far, root, x));
    let low = V::of(HALF_PI_LOW);
    let middle = V::of(consts::FRAC_PI_2) - (near - low);
    let twice = V::of(2.0) * near;
    let left = V::of(consts::PI) - (twice - V::of(2.0) * low);
    V::select(far, V::select(x.lt(V::of(0.0)), left, twice), middle)
}

#[inline(always)]
pub(crate) fn erf<V: Single>(x: V) -> V {
    if V::CHOOSES {
        return erf_by_pieces(x);
    }
    let a = x.abs();
    let z = x * x;
    let slope = V::of(consts::FRAC_2_SQRT_PI - 1.0);
    let near = z.mul_add(z.poly(&c::ERF_32), slope).mul_add(x, x);
    let tail = V::of(4.0).min(a) - V::of(2.5);
    let far = (V::of(1.0) - exp(-tail.poly(&c::ERF_TAIL_32))).copysign(x);
    V::select(a.lt(V::of(1.0)), near, far)
}

/// Each lane has coefficients of its own, which takes half of what the other way does.
#[inline(always)]
fn erf_by_pieces<V: Single>(x: V) -> V {
    const WIDTH: f64 = 17.0 / 64.0;
    // Adding it leaves the nearest integer in the low bits.
    let magic = V::of(1.5 * (1 << 23) as f64);
    let a = V::of(4.0).min(x.abs());
    let piece = a.mul_add(V::of(1.0 / WIDTH), magic);
    let index = piece - magic;
    let distance = index.neg_mul_add(V::of(WIDTH), a);
    let powers = &c::ERF_PIECES;
    let mut sum = piece.chosen(&powers[powers.len() - 1]);
    for power in (0..powers.len() - 1).rev() {
        sum = sum.mul_add(distance, piece.chosen(&powers[power]));
    }
    let base = V::select(index.lt(V::of(3.5)), a, V::of(1.0));
    (sum + base).copysign(x)
}

/// The normal distribution function, accurate far out.
#[inline(always)]
pub(crate) fn ndtr<V: Single>(x: V) -> V {
    in_double!(for_single::ndtr, x)
}

/// The normal distribution function; the left tail has no digits of its own.
#[inline(always)]
pub(crate) fn normal_cdf<V: Single>(x: V) -> V {
    let half = V::of(0.5);
    if V::CHOOSES_AT_ONCE {
        // This erf takes less than a division.
        return half * (V::of(1.0) + erf(x * V::of(consts::FRAC_1_SQRT_2)));
    }
    let z = x * x;
    let slope = z.long_poly(&c::NORMAL_32_ABOVE) / z.long_poly(&c::NORMAL_32_BELOW);
    // Beyond 5.5 what is left is less than half of the last digit of 1.
    let beyond = V::select(x.sign_bit(), V::of(0.0), V::of(1.0));
    V::select(z.ge(V::of(30.25)), beyond, x.mul_add(slope, half))
}

/// -a²/2 in two parts.
#[inline(always)]
fn negative_half_square<V: Single>(a: V) -> (V, V) {
    let half = a * V::of(-0.5);
    if V::FUSED {
        let square = half * a;
        return (square, half.mul_add(a, -square));
    }
    // The square of the leading twelve bits is exact.
    let leading = a.bit_and(V::of_bits(0xffff_f000));
    let rest = (a - leading) * V::of(-0.5);
    (leading * leading * V::of(-0.5), rest * (a + leading))
}

/// Beyond it e^(-x²/2) is below the normal numbers, and taken as zero: its power of two is 2^-127,
/// which has the bits of zero.
const FAR_FROM_MEAN: f64 = 13.27;

/// The normal distribution function, and e^(-x²/2), which is its slope but for a factor.
#[inline(always)]
pub(crate) fn normal<V: Single>(x: V) -> [V; 2] {
    let one = V::of(1.0);
    if V::CHOOSES_AT_ONCE {
        return [normal_cdf(x), exp(x * x * V::of(-0.5))];
    }
    let a = V::of(FAR_FROM_MEAN).min(x.abs());
    let (square, lost) = negative_half_square(a);
    let n = (square * V::of(consts::LOG2_E)).round();
    let r = n.neg_mul_add(V::of(LN2_HIGH), square) + n.neg_mul_add(V::of(LN2_LOW), lost);
    let bell = exp_near(r) * V::pow2(n);
    let tail = bell * a.poly(&c::NORMAL_TAIL_ABOVE) / a.poly(&c::NORMAL_TAIL_BELOW);
    [V::select(x.sign_bit(), tail, one - tail), bell]
}

#[inline(always)]
pub(crate) fn erfc<V: Single>(x: V) -> V {
    in_double!(for_single::erfc, x)
}

#[inline(always)]
pub(crate) fn erfinv<V: Single>(x: V) -> V {
    in_double!(for_single::erfinv, x)
}

/// Functions that go through double precision.
macro_rules! by_double {
    ($($module:ident::$function:ident)+) => {$(
        #[inline(always)]
        pub(crate) fn $function<V: Single>(x: V) -> V {
            in_double!($module::$function, x)
        }
    )+};
}

by_double! {
    for_single::i0 for_single::i0e for_single::i1 for_single::i1e
    for_single::lgamma math64::digamma for_single::ndtri
    for_single::j0 for_single::j1 for_single::y0 for_single::y1
}

/// Functions of two numbers that go through double precision.
macro_rules! by_double2 {
    ($module:ident: $($function:ident)+) => {$(
        #[inline(always)]
        pub(crate) fn $function<V: Single>(x: V, y: V) -> V {
            in_double!($module::$function, x, y)
        }
    )+};
}

by_double2! { for_single: zeta }

by_double2! {
    math64: chebyshev_t chebyshev_u chebyshev_v chebyshev_w shifted_chebyshev_t shifted_chebyshev_u
    shifted_chebyshev_v shifted_chebyshev_w hermite_h hermite_he laguerre_l legendre_p
}

#[inline(always)]
fn root_of_squares<D: Real<Elem = f64>>(x: D, y: D) -> D {
    (x * x + y * y).sqrt()
}

/// √(x² + y²); the squares fit in double precision.
#[inline(always)]
pub(crate) fn hypot<V: Single>(x: V, y: V) -> V {
    let result = in_double!(root_of_squares, x, y);
    let infinity = V::of(f64::INFINITY);
    V::select(x.abs().eq(infinity) | y.abs().eq(infinity), infinity, result)
}

/// x^y with C's special cases.
#[inline(always)]
pub(crate) fn pow<V: Single>(x: V, y: V) -> V {
    let a = x.abs();
    power::signed(x, y, in_double!(for_single::positive_power, a, y))
}

/// The exact remainder of the truncated quotient.
#[inline(always)]
pub(crate) fn fmod<V: Single>(x: V, y: V) -> V {
    let ([x_low, x_high], [y_low, y_high]) = (x.widen(), y.widen());
    let (low, slow_low) = rest_of_division(x_low, y_low);
    let (high, slow_high) = rest_of_division(x_high, y_high);
    if slow_low.any() || slow_high.any() {
        return x.zip(y, |x, y| x % y);
    }
    V::narrow([low, high]).copysign(x)
}

/// The remainder, and where the quotient is too large for it to be exact: below 2²⁸ its integer
/// part is right and the product of that with y is exact.
#[inline(always)]
fn rest_of_division<D: Real<Elem = f64>>(x: D, y: D) -> (D, D::Mask) {
    let quotient = x / y;
    let rest = quotient.trunc().neg_mul_add(y, x);
    let exact = quotient.abs().lt(D::of((1u32 << 28) as f64)) & y.abs().lt(D::of(f64::INFINITY));
    (rest, !exact)
}
