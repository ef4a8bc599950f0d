//! Samplers by rejection.

use super::distributions::uniform53;
use super::normal::normal_pair;
use crate::special::gamma::lgamma;
use corten_core::GeneratorGuard;

/// A Poisson number of a rate that is finite and not negative.
///
/// Small rates count uniform factors; others use transformed rejection with squeeze (W. Hörmann,
/// "The transformed rejection method for generating Poisson random variables", 1993, PTRS).
pub(super) fn poisson(rate: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    if rate == 0.0 {
        return 0.0;
    }
    if rate < 10.0 {
        return poisson_by_product(rate, rng);
    }
    let (root, log_rate) = (rate.sqrt(), rate.ln());
    let b = 0.931 + 2.53 * root;
    let a = -0.059 + 0.024_83 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let accepted = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let u = uniform53(rng) - 0.5;
        let v = uniform53(rng);
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        if us >= 0.07 && v <= accepted {
            return k;
        }
        if k < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        let height = v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln();
        if height <= -rate + k * log_rate - lgamma(k + 1.0) {
            return k;
        }
    }
}

fn poisson_by_product(rate: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    let limit = (-rate).exp();
    let (mut count, mut product) = (0.0, 1.0);
    loop {
        product *= uniform53(rng);
        if product <= limit {
            return count;
        }
        count += 1.0;
    }
}

/// A binomial number; counts and probabilities below zero give 0, probabilities over 1 the count.
pub(super) fn binomial(count: f64, prob: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    if count <= 0.0 || prob <= 0.0 {
        0.0
    } else if prob >= 1.0 {
        count
    } else if prob <= 0.5 {
        rare_successes(count, prob, rng)
    } else if prob > 0.5 {
        count - rare_successes(count, 1.0 - prob, rng)
    } else {
        f64::NAN
    }
}

fn rare_successes(count: f64, prob: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    match count * prob >= 10.0 {
        true => binomial_by_rejection(count, prob, rng),
        false => binomial_by_gaps(count, prob, rng),
    }
}

/// Counts how many geometric gaps between successes fit into the trials.
fn binomial_by_gaps(count: f64, prob: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    let log_failure = (-prob).ln_1p();
    let (mut trials, mut successes) = (0.0, 0.0);
    loop {
        trials += (uniform53(rng).ln() / log_failure).ceil();
        if trials > count || trials.is_nan() {
            return successes;
        }
        successes += 1.0;
    }
}

/// Transformed rejection (W. Hörmann, "The generation of binomial random variates", 1993, BTRS).
fn binomial_by_rejection(count: f64, prob: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    let deviation = (count * prob * (1.0 - prob)).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * prob;
    let c = count * prob + 0.5;
    let accepted = 0.92 - 4.2 / b;
    let odds = prob / (1.0 - prob);
    let alpha = (2.83 + 5.1 / b) * deviation;
    let mode = ((count + 1.0) * prob).floor();
    loop {
        let u = uniform53(rng) - 0.5;
        let v = uniform53(rng);
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + c).floor();
        if us >= 0.07 && v <= accepted {
            return k;
        }
        if k < 0.0 || k > count {
            continue;
        }
        let height = (v * alpha / (a / (us * us) + b)).ln();
        let bound = (mode + 0.5) * ((mode + 1.0) / (odds * (count - mode + 1.0))).ln()
            + (count + 1.0) * ((count - mode + 1.0) / (count - k + 1.0)).ln()
            + (k + 0.5) * (odds * (count - k + 1.0) / (k + 1.0)).ln()
            + stirling_rest(mode)
            + stirling_rest(count - mode)
            - stirling_rest(k)
            - stirling_rest(count - k);
        if height <= bound {
            return k;
        }
    }
}

/// What Stirling's formula for log k! leaves out.
fn stirling_rest(k: f64) -> f64 {
    if k <= 9.0 {
        let n = k + 1.0;
        let stirling = (k + 0.5) * n.ln() - n + 0.5 * std::f64::consts::TAU.ln();
        return lgamma(n) - stirling;
    }
    let square = (k + 1.0) * (k + 1.0);
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)
}

const THIRD: f32 = 1.0 / 3.0;

/// A gamma number of rate 1; the concentration has single precision.
pub(super) fn gamma_of_single(concentration: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    let single = concentration as f32;
    if single < 1.0 {
        if single == 0.0 {
            return 0.0;
        }
        let boost = (1.0 - uniform53(rng)).powf((1.0 / single).into());
        return gamma_over_one((single + 1.0 - THIRD).into(), boost, rng);
    }
    gamma_over_one((single - THIRD).into(), 1.0, rng)
}

/// A gamma number of rate 1.
pub(super) fn gamma_of_double(concentration: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    if concentration < 1.0 {
        if concentration == 0.0 {
            return 0.0;
        }
        let boost = (1.0 - uniform53(rng)).powf(1.0 / concentration);
        return gamma_over_one(concentration + 1.0 - f64::from(THIRD), boost, rng);
    }
    gamma_over_one(concentration - f64::from(THIRD), 1.0, rng)
}

/// G. Marsaglia and W. Tsang, "A simple method for generating gamma variables", 2000, times
/// `scale`, for `d`, the concentration less a third. This third and the constant of the squeeze have
/// single precision in the sequences of numbers that programs rely on.
fn gamma_over_one(d: f64, scale: f64, rng: &mut GeneratorGuard<'_>) -> f64 {
    let c = 1.0 / (9.0 * d).sqrt();
    if !d.is_finite() {
        return d;
    }
    loop {
        let (x, y) = loop {
            let x = normal_pair(rng);
            let y = 1.0 + c * x;
            if y > 0.0 {
                break (x, y);
            }
        };
        let v = y * y * y;
        let u = 1.0 - uniform53(rng);
        let square = x * x;
        let squeezed = u < 1.0 - f64::from(0.0331f32) * square * square;
        if squeezed || u.ln() < 0.5 * square + d * (1.0 - v + v.ln()) {
            return scale * d * v;
        }
    }
}
