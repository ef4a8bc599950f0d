//! The error function's kin: inverses and logarithms of the normal distribution.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, SQRT_2};

/// e^(x²), with what rounding takes from the square.
fn exp_of_square(x: f64) -> f64 {
    let square = x * x;
    let lost = libm::fma(x, x, -square);
    let power = square.exp();
    if power.is_infinite() { power } else { power + power * lost }
}

/// e^(x²) erfc(x).
pub(crate) fn erfcx(x: f64) -> f64 {
    if x < 0.0 {
        return if x < -26.7 { f64::INFINITY } else { 2.0 * exp_of_square(x) - erfcx(-x) };
    }
    if x < 5.0 {
        return exp_of_square(x) * libm::erfc(x);
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

pub(crate) const CENTRE: Ratio = [
    [
        1.197_532_311_567_091_3,
        47.072_688_112_383_98,
        697.062_665_343_896,
        4_854.886_889_384_388,
        16_235.862_515_167_575,
        23_782.041_382_114_385,
        11_819.493_347_062_295,
        887.094_069_625_455_2,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
];

pub(crate) const MIDDLE: Ratio = [
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        0.000_774_545_014_278_341_4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        0.000_547_593_808_499_534_5,
        1.050_750_071_644_416_9e-9,
    ],
];

pub(crate) const FAR: Ratio = [
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        0.000_786_869_131_145_613_3,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_7e-15,
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
    if x < -1.0 {
        return (erfcx(-t) / 2.0).ln() - t * t;
    }
    if x > 5.0 {
        // Half of e^(-t²) erfcx(t); the logarithm of what is left of one is that of a small number.
        let square = x * x;
        let lost = libm::fma(x, x, -square);
        let density = (-0.5 * square).exp();
        if density == 0.0 {
            return -0.0;
        }
        return (-0.5 * erfcx(t) * (density - 0.5 * density * lost)).ln_1p();
    }
    (-libm::erfc(t) / 2.0).ln_1p()
}
