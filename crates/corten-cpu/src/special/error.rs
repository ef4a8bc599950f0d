//! The error function's kin: inverses and logarithms of the normal distribution.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, SQRT_2};

/// e^(x²) erfc(x).
pub(crate) fn erfcx(x: f64) -> f64 {
    if x < 0.0 {
        return if x < -26.7 { f64::INFINITY } else { 2.0 * (x * x).exp() - erfcx(-x) };
    }
    if x < 5.0 {
        return (x * x).exp() * libm::erfc(x);
    }
    if x.is_infinite() {
        return 0.0;
    }
    // The continued fraction 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …)))).
    let mut tail = x;
    for k in (1..=40).rev() {
        tail = x + 0.5 * f64::from(k) / tail;
    }
    FRAC_2_SQRT_PI / 2.0 / tail
}

/// The inverse of erf.
pub(crate) fn erfinv(y: f64) -> f64 {
    let magnitude = y.abs();
    if magnitude.is_nan() || magnitude > 1.0 {
        return f64::NAN;
    }
    if magnitude == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if magnitude == 0.0 {
        return y;
    }
    let root = match magnitude <= 0.85 {
        true => central_erfinv(magnitude),
        false => tail_erfinv(1.0 - magnitude),
    };
    root.copysign(y)
}

fn central_erfinv(y: f64) -> f64 {
    y * ratio(0.180_625 - 0.25 * y * y, &CENTRE)
}

/// The inverse of erfc up to 0.15.
fn tail_erfinv(y: f64) -> f64 {
    let r = (LN_2 - y.ln()).sqrt();
    FRAC_1_SQRT_2 * if r <= 5.0 { ratio(r - 1.6, &MIDDLE) } else { ratio(r - 5.0, &FAR) }
}

/// The inverse of erfc up to 1/2.
fn erfcinv(y: f64) -> f64 {
    if y <= 0.15 { tail_erfinv(y) } else { central_erfinv(1.0 - y) }
}

/// Numerator and denominator, from the constant term on.
type Ratio = [[f64; 8]; 2];

fn ratio(x: f64, [above, below]: &Ratio) -> f64 {
    let at = |terms: &[f64; 8]| terms.iter().rev().fold(0.0, |sum, term| sum * x + term);
    at(above) / at(below)
}

// Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied
// Statistics 37 (1988): rational approximations of the normal quantile to 16 digits. For the
// inverse of erf those of the centre are scaled by 1/√2.

const CENTRE: Ratio = [
    [
        1.197_532_311_567_091_256_457_8e0,
        4.707_268_811_238_397_801_228_5e1,
        6.970_626_653_438_959_823_846_5e2,
        4.854_886_889_384_388_679_464_8e3,
        1.623_586_251_516_757_538_425_2e4,
        2.378_204_138_211_438_573_125_2e4,
        1.181_949_334_706_229_440_427_8e4,
        8.870_940_696_254_551_483_02e2,
    ],
    [
        1.0,
        4.231_333_070_160_091_125_2e1,
        6.871_870_074_920_579_083e2,
        5.394_196_021_424_751_107_7e3,
        2.121_379_430_158_659_586_7e4,
        3.930_789_580_009_271_061e4,
        2.872_908_573_572_194_267_4e4,
        5.226_495_278_852_854_561e3,
    ],
];

const MIDDLE: Ratio = [
    [
        1.423_437_110_749_683_577_34e0,
        4.630_337_846_156_545_295_9e0,
        5.769_497_221_460_691_405_5e0,
        3.647_848_324_763_204_605_04e0,
        1.270_458_252_452_368_382_58e0,
        2.417_807_251_774_506_117_7e-1,
        2.272_384_498_926_918_458_33e-2,
        7.745_450_142_783_414_076_4e-4,
    ],
    [
        1.0,
        2.053_191_626_637_758_821_87e0,
        1.676_384_830_183_803_849_4e0,
        6.897_673_349_851_000_045_5e-1,
        1.481_039_764_274_800_745_9e-1,
        1.519_866_656_361_645_719_66e-2,
        5.475_938_084_995_344_946e-4,
        1.050_750_071_644_416_843_24e-9,
    ],
];

const FAR: Ratio = [
    [
        6.657_904_643_501_103_777_2e0,
        5.463_784_911_164_114_369_9e0,
        1.784_826_539_917_291_335_8e0,
        2.965_605_718_285_048_912_3e-1,
        2.653_218_952_657_612_309_3e-2,
        1.242_660_947_388_078_438_6e-3,
        2.711_555_568_743_487_578_15e-5,
        2.010_334_399_292_288_132_65e-7,
    ],
    [
        1.0,
        5.998_322_065_558_879_376_9e-1,
        1.369_298_809_227_358_053_1e-1,
        1.487_536_129_085_061_485_25e-2,
        7.868_691_311_456_132_591e-4,
        1.846_318_317_510_054_681_8e-5,
        1.421_511_758_316_445_888_7e-7,
        2.044_263_103_389_939_785_64e-15,
    ],
];

/// The quantile of the normal distribution.
pub(crate) fn ndtri(p: f64) -> f64 {
    match p {
        0.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        _ if !(0.0..=1.0).contains(&p) => f64::NAN,
        _ if p > 0.75 => SQRT_2 * erfcinv(2.0 * (1.0 - p)),
        _ if p < 0.25 => -SQRT_2 * erfcinv(2.0 * p),
        _ => SQRT_2 * erfinv(2.0 * p - 1.0),
    }
}

/// The logarithm of the normal distribution function.
pub(crate) fn log_ndtr(x: f64) -> f64 {
    let t = x * FRAC_1_SQRT_2;
    if x < -1.0 { (erfcx(-t) / 2.0).ln() - t * t } else { (-libm::erfc(t) / 2.0).ln_1p() }
}
