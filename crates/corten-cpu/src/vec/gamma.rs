//! The logarithm of the gamma function and its derivative on `f64` vectors.
//!
//! The logarithm: on [0.5, 2.5] it is (x - 1)(x - 2) times a Chebyshev series, so that its two zeros are exact; the
//! coefficients are an interpolation computed with sixty digits. Smaller and larger numbers are led
//! there by Γ(x + 1) = x Γ(x); from 8 on Stirling's series serves (Abramowitz and Stegun 6.1.40).

use super::bessel::{powers, series};
use super::for_single;
use super::math64::{log, patch};
use super::real::{MaskBits, Real};
use crate::special;

/// The logarithm of the magnitude of the gamma function.
#[inline(always)]
pub(crate) fn lgamma<V: Real<Elem = f64>>(x: V) -> V {
    lgamma_of::<V, false>(x)
}

/// As [`lgamma`], with an error of about 10⁻⁹.
#[inline(always)]
pub(crate) fn lgamma_for_single<V: Real<Elem = f64>>(x: V) -> V {
    lgamma_of::<V, true>(x)
}

#[inline(always)]
fn lgamma_of<V: Real<Elem = f64>, const SINGLE: bool>(x: V) -> V {
    let unusual = !(x.gt(V::of(0.0)) & x.le(V::of(f64::MAX)));
    let usual = lgamma_right::<V, SINGLE>(x);
    // Poles, oscillations between them, infinity and NaN.
    patch(x, unusual, usual, special::gamma::lgamma)
}

/// The logarithm for positive numbers.
#[inline(always)]
fn lgamma_right<V: Real<Elem = f64>, const SINGLE: bool>(x: V) -> V {
    let far = x.ge(V::of(8.0));
    let small = x.lt(V::of(0.5));
    let mut z = V::select(small, x + V::of(1.0), x);
    let mut factor = V::select(small, x, V::of(1.0));
    loop {
        let above = z.gt(V::of(2.5)) & !far;
        if !above.any() {
            break;
        }
        let lower = z - V::of(1.0);
        z = V::select(above, lower, z);
        factor = V::select(above, factor * lower, factor);
    }
    let argument = V::select(far, x, factor);
    let logarithm = if SINGLE { for_single::log(argument) } else { log(argument) };
    let zeros = (z - V::of(1.0)) * (z - V::of(2.0));
    let t = z - V::of(1.5);
    let near = zeros * if SINGLE { t.long_poly(&NEAR_SINGLE) } else { series(t, &NEAR) };
    let near = V::select(small, near - logarithm, near + logarithm);
    if far.any() { V::select(far, stirling(x, logarithm), near) } else { near }
}

/// The logarithmic derivative of the gamma function: Γ'/Γ of `x + 1` is that of `x` and 1 / x; from 10 on
/// there is an asymptotic series (Abramowitz and Stegun 6.3.18).
#[inline(always)]
pub(crate) fn digamma<V: Real<Elem = f64>>(x: V) -> V {
    let unusual = !(x.gt(V::of(0.0)) & x.le(V::of(f64::MAX)));
    // Poles, reflections, infinity and NaN.
    patch(x, unusual, digamma_right(x), special::gamma::digamma)
}

/// The derivative for positive numbers.
#[inline(always)]
fn digamma_right<V: Real<Elem = f64>>(x: V) -> V {
    let small = x.lt(V::of(10.0));
    if !small.any() {
        return digamma_far(x);
    }
    // The sum of ten inverses, as one fraction.
    let (mut z, mut above, mut below) = (x + V::of(1.0), V::of(1.0), x);
    for _ in 1..10 {
        above = above.mul_add(z, below);
        below = below * z;
        z = z + V::of(1.0);
    }
    let result = digamma_far(V::select(small, z, x));
    V::select(small, result - above / below, result)
}

/// The derivative from 10 on.
#[inline(always)]
fn digamma_far<V: Real<Elem = f64>>(x: V) -> V {
    let inverse = V::of(1.0) / x;
    let square = inverse * inverse;
    log(x) - square.poly(&DIGAMMA).mul_add(square, V::of(0.5) * inverse)
}

/// ln Γ(x) of `x >= 8`, given ln x.
#[inline(always)]
fn stirling<V: Real<Elem = f64>>(x: V, logarithm: V) -> V {
    let inverse = V::of(1.0) / x;
    let square = inverse * inverse;
    let mut tail = V::of(0.0);
    for coefficient in STIRLING.iter().rev() {
        tail = tail.mul_add(square, V::of(*coefficient));
    }
    let main = (x - V::of(0.5)).mul_add(logarithm, -x);
    main + tail.mul_add(inverse, V::of(HALF_LOG_TWO_PI))
}

/// B₂ₖ / 2k.
const DIGAMMA: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 120.0,
    1.0 / 252.0,
    -1.0 / 240.0,
    1.0 / 132.0,
    -691.0 / 32_760.0,
    1.0 / 12.0,
    -3617.0 / 8160.0,
];

const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// B₂ₖ / (2k (2k - 1)).
const STIRLING: [f64; 9] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360_360.0,
    1.0 / 156.0,
    -3617.0 / 122_400.0,
    43_867.0 / 244_188.0,
];

/// The powers of [`NEAR`], as far as they are more than 10⁻¹⁰.
const NEAR_SINGLE: [f64; 24] = powers(&NEAR);

/// ln Γ(t + 3/2) / ((t + 1/2)(t - 1/2)).
const NEAR: [f64; 40] = [
    0.523_383_067_593_622_6,
    -0.177_972_337_295_298_63,
    0.043_707_765_509_376,
    -0.012_436_054_693_716_324,
    0.003_816_627_362_245_344_4,
    -0.001_224_831_011_016_868_9,
    0.000_404_630_730_933_769_5,
    -0.000_136_399_928_647_838_3,
    4.666_985_456_440_364_6e-5,
    -1.615_257_156_853_002_4e-5,
    5.641_861_294_289_138e-6,
    -1.985_468_608_994_096e-6,
    7.031_292_350_156_658e-7,
    -2.503_431_672_683_324e-7,
    8.954_655_195_462_511e-8,
    -3.216_038_816_813_161e-8,
    1.159_167_419_619_893_2e-8,
    -4.191_331_343_092_517e-9,
    1.519_828_794_283_801_8e-9,
    -5.525_248_244_354_367e-10,
    2.013_346_140_789_569_5e-10,
    -7.351_973_399_346_738e-11,
    2.689_857_543_682_736_7e-11,
    -9.858_828_866_177_58e-12,
    3.619_354_400_654_772e-12,
    -1.330_738_212_255_522_5e-12,
    4.899_613_435_234_918e-13,
    -1.806_324_240_450_250_5e-13,
    6.667_388_160_934_133e-14,
    -2.463_809_670_534_553_8e-14,
    9.114_199_669_747_885e-15,
    -3.374_903_720_885_661_4e-15,
    1.250_863_065_896_187e-15,
    -4.640_235_454_740_319e-16,
    1.722_782_613_831_633_2e-16,
    -6.401_198_458_457_187e-17,
    2.380_204_036_533_695_6e-17,
    -8.856_708_105_647_11e-18,
    3.297_768_578_661_290_5e-18,
    -1.228_692_841_884_980_7e-18,
];
