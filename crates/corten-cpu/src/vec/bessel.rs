//! The modified Bessel functions of the first kind on `f64` vectors.
//!
//! Chebyshev series of e^-a I₀(a) and e^-a I₁(a) / a up to 8, and beyond of √a e^-a Iν(a) as a
//! function of 1 / a; the coefficients are interpolations computed with sixty digits.

use super::for_single;
use super::math64::exp;
use super::real::{MaskBits, Real};

/// The series at `t` in [-1, 1], by Clenshaw's recurrence.
#[inline(always)]
pub(super) fn series<V: Real<Elem = f64>, const N: usize>(t: V, terms: &[f64; N]) -> V {
    let twice = t + t;
    let (mut next, mut after) = (V::of(0.0), V::of(0.0));
    for k in (1..N).rev() {
        (next, after) = (twice.mul_add(next, V::of(terms[k]) - after), next);
    }
    t.mul_add(next, V::of(terms[0]) - after)
}

/// The first terms of a series as coefficients of powers, which are half as many operations; only
/// good for some ten digits, and so for what becomes an `f32`.
pub(super) const fn powers<const N: usize, const M: usize>(terms: &[f64; M]) -> [f64; N] {
    let mut sum = [0.0; N];
    // The polynomials T of two neighbouring degrees.
    let (mut before, mut now) = ([0.0; N], [0.0; N]);
    now[0] = 1.0;
    let mut degree = 0;
    while degree < N {
        let mut next = [0.0; N];
        let mut power = 0;
        while power < N {
            sum[power] += terms[degree] * now[power];
            let raised = if power > 0 { now[power - 1] } else { 0.0 };
            next[power] = (if degree > 0 { 2.0 } else { 1.0 }) * raised - before[power];
            power += 1;
        }
        (before, now) = (now, next);
        degree += 1;
    }
    sum
}

/// e^-a Iν(a) of `a >= 0`, divided by `a` below 8 where `divided`; `grown` leaves the factor e^-a
/// out. The tables are series, or, for `f32`, powers.
#[inline(always)]
fn scaled<V: Real<Elem = f64>, const N: usize, const M: usize, const SINGLE: bool>(
    a: V,
    near: &[f64; N],
    far: &[f64; M],
    divided: bool,
    grown: bool,
) -> V {
    let factor = match grown {
        // Beyond 180 the results are too large for `f32`.
        true if SINGLE => a.mul_add(V::of(0.0), for_single::exp(V::of(180.0).min(a))),
        // Half of the power, twice: the product may be a number where the power is none.
        true => exp(a * V::of(0.5)),
        false => V::of(1.0),
    };
    let again = if grown && !SINGLE { factor } else { V::of(1.0) };
    let t = a.mul_add(V::of(0.25), V::of(-1.0));
    let close = factor * if SINGLE { t.long_poly(near) } else { series(t, near) };
    let close = again * if divided { close * a } else { close };
    let beyond = a.gt(V::of(8.0));
    if !beyond.any() {
        return close;
    }
    let t = V::of(16.0) / a - V::of(1.0);
    let distant = factor / a.sqrt() * if SINGLE { t.poly(far) } else { series(t, far) } * again;
    // The power grows faster than its divisor: the quotient of the infinities is one.
    let distant = if grown { V::select(a.gt(V::of(f64::MAX)), a, distant) } else { distant };
    V::select(beyond, distant, close)
}

/// A function of `f64`, and the one for `f32`.
macro_rules! functions {
    ($($name:ident $single:ident = $order:literal($near:ident, $far:ident), $grown:literal;)+) => {$(
        #[inline(always)]
        pub(crate) fn $name<V: Real<Elem = f64>>(x: V) -> V {
            let y = scaled::<V, _, _, false>(x.abs(), &$near, &$far, $order == 1, $grown);
            if $order == 1 { y.copysign(x) } else { y }
        }

        #[inline(always)]
        pub(crate) fn $single<V: Real<Elem = f64>>(x: V) -> V {
            const NEAR: [f64; 20] = powers(&$near);
            const FAR: [f64; 8] = powers(&$far);
            let y = scaled::<V, _, _, true>(x.abs(), &NEAR, &FAR, $order == 1, $grown);
            if $order == 1 { y.copysign(x) } else { y }
        }
    )+};
}

functions! {
    i0 i0_for_single = 0(NEAR_0, FAR_0), true;
    i0e i0e_for_single = 0(NEAR_0, FAR_0), false;
    i1 i1_for_single = 1(NEAR_1, FAR_1), true;
    i1e i1e_for_single = 1(NEAR_1, FAR_1), false;
}

const NEAR_0: [f64; 31] = [
    0.338_397_637_204_738_03,
    -0.304_682_672_343_198_4,
    0.171_620_901_522_208_77,
    -0.094_901_097_048_047_64,
    0.049_305_284_239_670_71,
    -0.023_737_414_805_899_47,
    0.010_546_460_394_594_998,
    -0.004_324_309_995_050_576,
    0.001_639_475_616_941_335_7,
    -0.000_576_375_574_538_582_4,
    0.000_188_502_885_095_841_65,
    -5.754_195_010_082_104e-5,
    1.644_844_807_072_889_6e-5,
    -4.416_738_358_458_750_5e-6,
    1.117_387_539_120_103_7e-6,
    -2.670_793_853_940_612e-7,
    6.046_995_022_541_919e-8,
    -1.300_025_009_986_248e-8,
    2.659_823_724_682_386_6e-9,
    -5.189_795_601_635_263e-10,
    9.675_809_035_373_237e-11,
    -1.726_826_291_441_556e-11,
    2.955_052_663_129_64e-12,
    -4.856_446_783_111_929e-13,
    7.676_185_498_604_936e-14,
    -1.168_533_287_799_345_1e-14,
    1.715_391_285_555_133e-15,
    -2.431_279_846_547_955e-16,
    3.330_794_518_822_238_4e-17,
    -4.415_341_646_479_339_5e-18,
    5.669_178_006_921_496e-19,
];

const FAR_0: [f64; 27] = [
    0.402_245_205_507_054_4,
    0.003_369_116_478_255_694_3,
    6.889_758_346_916_825e-5,
    2.891_370_520_834_756_7e-6,
    2.048_918_589_469_063_8e-7,
    2.266_668_990_498_178e-8,
    3.396_232_025_708_386_5e-9,
    4.940_602_388_224_97e-10,
    1.188_914_710_784_643_9e-11,
    -3.149_916_527_963_241_6e-11,
    -1.321_581_184_044_771_3e-11,
    -1.794_178_531_506_806_2e-12,
    7.180_124_451_383_666e-13,
    3.852_778_382_742_142_6e-13,
    1.540_086_217_521_41e-14,
    -4.150_569_347_287_222e-14,
    -9.554_846_698_828_307e-15,
    3.811_680_669_352_622_4e-15,
    1.772_560_133_056_526_3e-15,
    -3.425_485_619_677_219e-16,
    -2.827_623_980_516_583_6e-16,
    3.461_222_867_697_461e-17,
    4.465_621_420_296_76e-17,
    -4.830_504_485_944_178e-18,
    -7.233_180_487_874_76e-18,
    9.921_475_412_173_676e-19,
    1.193_650_890_846_006_3e-18,
];

const NEAR_1: [f64; 30] = [
    0.126_293_593_221_816_82,
    -0.176_416_518_357_834_06,
    0.102_643_658_689_847_1,
    -0.052_945_981_208_094_99,
    0.024_726_449_030_626_516,
    -0.010_564_084_894_626_197,
    0.004_156_422_944_312_888,
    -0.001_513_572_450_631_253_2,
    0.000_512_285_956_168_575_8,
    -0.000_161_760_815_825_896_74,
    4.781_565_107_550_054e-5,
    -1.327_316_365_603_943_6e-5,
    3.470_251_308_137_678_5e-6,
    -8.568_720_264_695_455e-7,
    2.003_294_753_552_135_3e-7,
    -4.445_059_128_796_328e-8,
    9.381_537_386_495_773e-9,
    -1.887_249_751_722_829_4e-9,
    3.625_590_281_552_117e-10,
    -6.663_489_723_502_027e-11,
    1.173_618_629_889_090_1e-11,
    -1.983_974_397_764_943_6e-12,
    3.223_793_365_945_575e-13,
    -5.042_185_504_727_912e-14,
    7.600_684_294_735_408e-15,
    -1.105_596_947_735_386_2e-15,
    1.553_631_957_736_200_5e-16,
    -2.111_421_214_358_166e-17,
    2.777_914_112_761_046_4e-18,
    -3.541_581_772_542_136e-19,
];

const FAR_1: [f64; 27] = [
    0.389_288_117_509_140_05,
    -0.009_761_097_491_361_469,
    -0.000_110_588_938_762_623_71,
    -3.882_564_808_877_691e-6,
    -2.512_236_237_870_209e-7,
    -2.631_468_846_889_519_6e-8,
    -3.835_380_385_964_237e-9,
    -5.589_743_462_196_584e-10,
    -1.897_495_812_350_541_3e-11,
    3.252_603_583_015_488_4e-11,
    1.412_580_743_661_378_2e-11,
    2.035_628_544_147_089_6e-12,
    -7.198_551_776_245_908e-13,
    -4.083_551_111_092_197_4e-13,
    -2.101_541_842_772_664_3e-14,
    4.272_440_016_711_951e-14,
    1.042_027_698_412_880_2e-14,
    -3.814_403_072_437_007_5e-15,
    -1.880_354_775_510_782_5e-15,
    3.308_202_310_920_928_5e-16,
    2.962_628_997_645_95e-16,
    -3.209_525_921_993_424e-17,
    -4.650_305_368_489_358e-17,
    4.414_348_323_071_704e-18,
    7.517_296_310_842_111e-18,
    -9.314_178_867_326_863e-19,
    -1.242_193_275_194_915_2e-18,
];
