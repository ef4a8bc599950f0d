//! The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x).
//!
//! Power series and continued fraction; around x = a, of large a, Temme's uniform expansion (DLMF
//! 8.12), as they would take √a steps there.

use super::error::erfcx;
use super::gamma::lgamma;
use std::f64::consts::PI;

/// P(a, x).
pub(crate) fn igamma(a: f64, x: f64) -> f64 {
    lower(a, x, f64::EPSILON)
}

/// [`igamma`] in single precision.
pub(crate) fn igamma_single(a: f64, x: f64) -> f64 {
    lower(a, x, SINGLE)
}

/// Q(a, x).
pub(crate) fn igammac(a: f64, x: f64) -> f64 {
    upper(a, x, f64::EPSILON)
}

/// [`igammac`] in single precision.
pub(crate) fn igammac_single(a: f64, x: f64) -> f64 {
    upper(a, x, SINGLE)
}

/// What the terms of a series may lack where the sum becomes an `f32`.
const SINGLE: f64 = 1e-10;

fn lower(a: f64, x: f64, least: f64) -> f64 {
    match at_the_border(a, x) {
        Some(lower) => lower,
        None if is_central(a, x) => central(a, x, -1.0),
        None if a < 1.0 && x > a => 1.0 - upper_of_small(a, x, least),
        None if x > a + 1.0 => 1.0 - upper_fraction(a, x, least),
        None => lower_series(a, x, least),
    }
}

fn upper(a: f64, x: f64, least: f64) -> f64 {
    match at_the_border(a, x) {
        Some(lower) => 1.0 - lower,
        None if is_central(a, x) => central(a, x, 1.0),
        None if a < 1.0 => upper_of_small(a, x, least),
        None if x > a + 1.0 => upper_fraction(a, x, least),
        None => 1.0 - lower_series(a, x, least),
    }
}

/// P where an argument is zero, infinite or out of range.
fn at_the_border(a: f64, x: f64) -> Option<f64> {
    Some(match (a, x) {
        _ if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 => f64::NAN,
        (0.0, 0.0) => f64::NAN,
        (0.0, _) => 1.0,
        (_, 0.0) => 0.0,
        _ if a.is_infinite() && x.is_infinite() => f64::NAN,
        _ if a.is_infinite() => 0.0,
        _ if x.is_infinite() => 1.0,
        _ => return None,
    })
}

/// Whether Temme's expansion has all digits.
fn is_central(a: f64, x: f64) -> bool {
    a > 20.0 && (x - a).abs() < 0.3 * a
}

/// Q with `side` 1, P with -1: erfc(±η √(a/2)) / 2 ± R, where η²/2 = λ - 1 - ln λ and λ = x / a.
fn central(a: f64, x: f64, side: f64) -> f64 {
    let distance = (x - a) / a;
    let half_square = less_log1p(distance);
    let eta = (2.0 * half_square).sqrt().copysign(distance);
    let (mut sum, mut scale) = (0.0, 1.0);
    for row in &TEMME {
        let term = scale * row.iter().rev().fold(0.0, |sum, c| sum * eta + c);
        sum += term;
        scale /= a;
        if term.abs() < f64::EPSILON / 8.0 * sum {
            break;
        }
    }
    let decay = (-a * half_square).exp();
    let rest = decay / (2.0 * PI * a).sqrt() * sum;
    let t = side * (a * half_square).sqrt().copysign(distance);
    // Far out erfc has the factor that the rest has.
    let main = if t > 1.0 { decay * erfcx(t) } else { libm::erfc(t) };
    0.5 * main + side * rest
}

/// x^a e^-x / Γ(a + 1), without the cancellation of large logarithms.
fn prefix(a: f64, x: f64) -> f64 {
    // Factors have their last digits, sums of large exponents do not.
    let power = x.powf(a);
    if a < 170.0 && power > 1e-290 && power < 1e290 && x < 600.0 {
        return power * (-x).exp() / libm::tgamma(a + 1.0);
    }
    if a < 20.0 {
        return (a * x.ln() - x - lgamma_plus_one(a)).exp();
    }
    // Γ(a + 1) = √(2πa) (a/e)^a e^r with Stirling's remainder r.
    let square = a * a;
    let r = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / a;
    let difference = (x - a) / a;
    let exponent = match difference > -0.5 && difference < 1.0 {
        true => -a * less_log1p(difference),
        false => a * ((x / a).ln() - difference),
    };
    (exponent - r).exp() / (2.0 * PI * a).sqrt()
}

/// y - ln(1 + y) of y from -1/2 to 1: with s = y / (2 + y) it is s (y - 2 s² (1/3 + s²/5 + …)).
fn less_log1p(y: f64) -> f64 {
    const TERMS: u32 = 17;
    let s = y / (2.0 + y);
    let z = s * s;
    let series = (0..TERMS).rev().fold(0.0, |sum, k| sum * z + 1.0 / f64::from(2 * k + 3));
    s * (y - 2.0 * z * series)
}

/// Steps after which a series or fraction is given up; none takes so many.
const STEPS: usize = 200_000;

fn lower_series(a: f64, x: f64, least: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0, 1.0, a);
    for _ in 0..STEPS {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term <= sum * (least / 4.0) {
            break;
        }
    }
    sum * prefix(a, x)
}

/// Lentz' evaluation of the continued fraction.
fn upper_fraction(a: f64, x: f64, least: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let prefix = prefix(a, x);
    if prefix == 0.0 {
        return 0.0;
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut h = d;
    for i in 1..STEPS {
        let i = i as f64;
        let numerator = -i * (i - a);
        b += 2.0;
        d = numerator * d + b;
        c = b + numerator / c;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = if c.abs() < TINY { TINY } else { c };
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < least {
            break;
        }
    }
    a * prefix * h
}

/// Q of a below 1, where 1 - P would lose digits.
fn upper_of_small(a: f64, x: f64, least: f64) -> f64 {
    if x > 1.5 {
        return upper_fraction(a, x, least);
    }
    // Q = 1 - x^a/Γ(1+a) - x^a/Γ(1+a) · a Σ (-x)^k / (k! (a+k)).
    let (mut power, mut sum) = (1.0, 0.0);
    for k in 1..60 {
        let k = f64::from(k);
        power *= -x / k;
        let term = power / (a + k);
        sum += term;
        if term.abs() <= f64::abs(sum) * (least / 4.0) {
            break;
        }
    }
    let less = (a * x.ln() - lgamma_plus_one(a)).exp_m1();
    -less - (less + 1.0) * a * sum
}

/// -γ, and (-1)^k ζ(k) / k from k = 2 on.
const LGAMMA_PLUS_ONE: [f64; 16] = [
    -0.577_215_664_901_532_9,
    0.822_467_033_424_113_2,
    -0.400_685_634_386_531_4,
    0.270_580_808_427_784_53,
    -0.207_385_551_028_673_98,
    0.169_557_176_997_408_2,
    -0.144_049_896_768_846_1,
    0.125_509_669_524_743_05,
    -0.111_334_265_869_564_7,
    0.100_099_457_512_781_8,
    -0.090_954_017_145_829_04,
    0.083_353_840_546_109,
    -0.076_932_516_411_352_2,
    0.071_432_946_295_361_34,
    -0.066_668_705_882_420_47,
    0.062_500_955_141_213_05,
];

/// ln Γ(1 + a), with the digits of small a.
fn lgamma_plus_one(a: f64) -> f64 {
    if a > 0.1 {
        return lgamma(1.0 + a);
    }
    a * LGAMMA_PLUS_ONE.iter().rev().fold(0.0, |sum, c| sum * a + c)
}

/// The coefficients of Temme's expansion: powers of η, and in each row one more of 1 / a.
const TEMME: [[f64; 16]; 10] = [
    [
        -0.333_333_333_333_333_3,
        0.083_333_333_333_333_33,
        -0.014_814_814_814_814_815,
        0.001_157_407_407_407_407_3,
        0.000_352_733_686_067_019_4,
        -0.000_178_755_144_032_921_8,
        3.919_263_178_522_438e-05,
        -2.185_448_510_679_992e-06,
        -1.854_062_210_715_16e-06,
        8.296_711_340_953_087e-07,
        -1.766_595_273_682_607_8e-07,
        6.707_853_543_401_498e-09,
        1.026_180_978_424_030_9e-08,
        -4.382_036_018_453_353e-09,
        9.147_699_582_236_79e-10,
        -2.551_419_399_494_624_8e-11,
    ],
    [
        -0.001_851_851_851_851_852,
        -0.003_472_222_222_222_222,
        0.002_645_502_645_502_645_4,
        -0.000_990_226_337_448_559_6,
        0.000_205_761_316_872_427_98,
        -4.018_775_720_164_609e-07,
        -1.809_855_033_448_997_7e-05,
        7.649_160_916_081_11e-06,
        -1.612_090_089_456_344_6e-06,
        4.647_127_802_807_434e-09,
        1.378_633_446_915_721e-07,
        -5.752_545_603_517_705e-08,
        1.195_162_859_977_814_8e-08,
        -1.754_324_171_974_764_7e-11,
        -1.009_154_371_060_041_3e-09,
        4.162_792_991_842_583e-10,
    ],
    [
        0.004_133_597_883_597_883,
        -0.002_681_327_160_493_827_3,
        0.000_771_604_938_271_604_9,
        2.009_387_860_082_304_7e-06,
        -0.000_107_366_532_263_651_6,
        5.292_344_882_912_012_5e-05,
        -1.276_063_518_861_872_8e-05,
        3.423_578_734_096_138e-08,
        1.372_195_730_906_293_4e-06,
        -6.298_992_138_380_055e-07,
        1.428_061_420_606_424_2e-07,
        -2.047_709_842_199_086_6e-10,
        -1.409_252_991_086_752e-08,
        6.228_974_084_922_022e-09,
        -1.367_048_839_661_711_4e-09,
        9.428_356_159_014_678e-13,
    ],
    [
        0.000_649_434_156_378_600_8,
        0.000_229_472_093_621_399_17,
        -0.000_469_189_494_395_255_7,
        0.000_267_720_632_062_838_85,
        -7.561_801_671_883_977e-05,
        -2.396_505_113_867_297e-07,
        1.108_265_411_534_730_2e-05,
        -5.674_952_826_991_596_5e-06,
        1.423_090_073_243_588_3e-06,
        -2.786_108_029_152_814_3e-11,
        -1.695_840_409_193_027_8e-07,
        8.099_464_905_388_083e-08,
        -1.911_116_848_597_365_5e-08,
        2.392_862_043_980_811_8e-12,
        2.062_013_181_548_879_7e-09,
        -9.460_496_661_855_133e-10,
    ],
    [
        -0.000_861_888_290_916_711_7,
        0.000_784_039_221_720_066_6,
        -0.000_299_072_480_303_190_2,
        -1.463_845_257_884_341_8e-06,
        6.641_498_215_465_122e-05,
        -3.968_365_047_179_435e-05,
        1.137_572_697_067_841_9e-05,
        2.507_497_226_237_533e-10,
        -1.695_414_953_655_830_5e-06,
        8.907_507_532_205_309e-07,
        -2.292_934_834_000_805e-07,
        2.956_794_137_544_049e-11,
        2.886_582_974_270_878_3e-08,
        -1.418_973_943_780_321_9e-08,
        3.446_358_049_946_489_6e-09,
        -2.302_451_717_452_806_7e-13,
    ],
    [
        -0.000_336_798_553_366_358_13,
        -6.972_813_758_365_857e-05,
        0.000_277_275_324_495_939_2,
        -0.000_199_325_705_161_888_47,
        6.797_780_477_937_208e-05,
        1.419_062_920_643_967e-07,
        -1.359_404_818_976_869_3e-05,
        8.018_470_256_334_202e-06,
        -2.291_481_176_508_095e-06,
        -3.252_473_551_298_454e-10,
        3.465_284_649_108_526_5e-07,
        -1.844_718_719_117_134_4e-07,
        4.824_096_703_789_418_4e-08,
        -1.798_946_672_174_351_4e-14,
        -6.306_194_500_013_523e-09,
        3.162_417_628_774_568e-09,
    ],
    [
        0.000_531_307_936_463_992_2,
        -0.000_592_166_437_353_693_9,
        0.000_270_878_209_671_804_5,
        7.902_353_232_660_328e-07,
        -8.153_969_367_561_969e-05,
        5.611_682_753_106_25e-05,
        -1.832_911_658_284_337_5e-05,
        -3.079_613_450_603_304_7e-09,
        3.465_155_368_803_609e-06,
        -2.029_132_739_605_860_3e-06,
        5.788_792_863_149_004e-07,
        2.338_630_673_826_657e-13,
        -8.828_600_746_330_484e-08,
        4.743_595_888_040_812_5e-08,
        -1.254_541_502_071_038_3e-08,
        8.649_648_858_010_293e-14,
    ],
    [
        0.000_344_367_606_892_377_65,
        5.171_790_908_260_592e-05,
        -0.000_334_931_610_811_422_34,
        0.000_281_269_515_476_323_7,
        -0.000_109_765_822_446_847_31,
        -1.274_100_909_548_448_5e-07,
        2.774_445_151_156_364_5e-05,
        -1.826_348_880_571_133_2e-05,
        5.787_694_949_735_052_5e-06,
        4.938_758_933_936_27e-10,
        -1.059_536_701_402_604_3e-06,
        6.166_714_376_110_408e-07,
        -1.756_297_335_906_046_3e-07,
        -1.297_447_328_701_544e-12,
        2.695_423_606_288_966e-08,
        -1.457_835_290_873_127_2e-08,
    ],
    [
        -0.000_652_623_918_595_309_4,
        0.000_839_498_720_672_087_3,
        -0.000_438_297_098_541_721,
        -6.969_091_458_420_552e-07,
        0.000_166_448_466_420_675_47,
        -0.000_127_835_176_797_692_18,
        4.629_953_263_691_304e-05,
        4.557_909_867_922_708e-09,
        -1.059_527_112_580_519_5e-05,
        6.783_342_904_865_167e-06,
        -2.107_547_666_625_880_3e-06,
        -1.721_373_143_281_714_4e-11,
        3.773_587_741_611_098e-07,
        -2.186_750_670_012_286_7e-07,
        6.220_228_804_018_927e-08,
        6.597_703_826_733e-16,
    ],
    [
        -0.000_596_761_290_192_746_3,
        -7.204_895_416_020_011e-05,
        0.000_678_230_883_766_732_8,
        -0.000_640_147_526_026_275_8,
        0.000_277_501_076_343_287_04,
        1.819_700_838_046_515e-07,
        -8.479_507_117_068_503e-05,
        6.105_192_082_501_531e-05,
        -2.107_392_018_340_486_2e-05,
        -8.858_589_014_125_599e-10,
        4.528_453_595_380_537_4e-06,
        -2.842_781_502_250_440_7e-06,
        8.708_234_177_864_641e-07,
        3.688_610_187_170_696_6e-12,
        -1.534_469_519_070_206e-07,
        8.862_466_778_790_695e-08,
    ],
];
