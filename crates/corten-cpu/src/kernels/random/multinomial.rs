//! Sampling indices by weight.

use super::distributions::uniform53;
use super::fill::with_generator;
use crate::kernels::support::is_shape_only;
use corten_core::{
    Access, AccessSet, DType, Element, Generator, MemoryFormat, Result, Writer, bail, cast, ensure,
    match_dtype, try_with_capacity, unwinding,
};
use corten_ops::{Tensor, derived, op};

/// Indices sampled from each row of weights.
///
/// # Errors
/// `Runtime` when weights are negative, infinite or sum to zero, or too few for sampling without
/// replacement.
pub fn multinomial(
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check(self_, num_samples, replacement)?;
    let mut shape = self_.sizes();
    if let Some(last) = shape.last_mut() {
        *last = num_samples;
    }
    let result = op::empty_memory_format(
        &shape,
        Some(DType::Int64),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    if result.numel() == 0 || is_shape_only(&result) {
        return Ok(result);
    }
    let weights = op::contiguous(self_, MemoryFormat::Contiguous)?;
    let categories = weights.size(-1)? as usize;
    // One sample is drawn as the race of exponential clocks, as without replacement.
    let by_race = !replacement || num_samples == 1;
    let clocks = match by_race {
        true => op::exponential_(
            &op::empty_like(&weights, None, None, None, None, None)?,
            1.0,
            generator,
        )?,
        false => weights.clone(),
    };
    match_dtype!(weights.dtype(), "multinomial", Float, T => {
        let set = AccessSet::acquire(&[(&weights, Access::Read), (&clocks, Access::Read)])?;
        let (weights, clocks) = (set.read::<T>(0)?, set.read::<T>(1)?);
        validate(weights, categories)?;
        let mut out = Writer::<i64>::new(&result)?;
        let samples = num_samples as usize;
        let rows = weights.chunks(categories).zip(clocks.chunks(categories));
        if by_race {
            let mut order = try_with_capacity(categories)?;
            for ((weights, clocks), out) in rows.zip(out.chunks_mut(samples)) {
                race(weights, clocks, &mut order, out);
            }
            return Ok(result.clone());
        }
        with_generator(generator, |rng| {
            for ((weights, _), out) in rows.zip(out.chunks_mut(samples)) {
                let cumulative = cumulative(weights);
                for slot in out {
                    let u = uniform53(rng);
                    let found = cumulative.partition_point(|c| cast::<T, f64>(*c) < u);
                    *slot = found.min(categories - 1) as i64;
                }
            }
            Ok(())
        })?;
        Ok(result.clone())
    })
}

/// [`multinomial`] into `out`.
///
/// # Errors
/// As for [`multinomial`]; `Runtime` when `out` is not of i64.
pub fn multinomial_out(
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
    out: &Tensor,
) -> Result<Tensor> {
    ensure!(
        out.dtype() == DType::Int64,
        Runtime,
        "multinomial expects Long tensor out, got: {}",
        out.dtype().type_name()
    );
    derived::write_out(out, &multinomial(self_, num_samples, replacement, generator)?)
}

fn check(self_: &Tensor, num_samples: i64, replacement: bool) -> Result<()> {
    let dim = self_.dim();
    ensure!(dim == 1 || dim == 2, Runtime, "prob_dist must be 1 or 2 dim");
    ensure!(
        self_.dtype().is_floating_point(),
        Runtime,
        "multinomial only supports floating-point dtypes for input, got: {}",
        self_.dtype().type_name()
    );
    ensure!(num_samples > 0, Runtime, "cannot sample n_sample <= 0 samples");
    let categories = self_.size(-1)?;
    ensure!(
        replacement || num_samples <= categories,
        Runtime,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    ensure!(categories <= 1 << 24, Runtime, "number of categories cannot exceed 2^24");
    Ok(())
}

fn validate<T: Element>(weights: &[T], categories: usize) -> Result<()> {
    for row in weights.chunks(categories) {
        let mut sum = 0.0;
        for weight in row.iter().map(|weight| cast::<T, f64>(*weight)) {
            if !(weight >= 0.0 && weight.is_finite()) {
                bail!(Runtime, "probability tensor contains either `inf`, `nan` or element < 0");
            }
            sum += weight;
        }
        ensure!(sum > 0.0, Runtime, "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    Ok(())
}

/// The categories with the largest ratio of weight to clock, largest first, of equal ones the first.
fn race<T: Element>(weights: &[T], clocks: &[T], order: &mut Vec<(f64, usize)>, out: &mut [i64]) {
    let ratio = |(weight, clock): (&T, &T)| {
        let rounded: T = cast(cast::<T, f64>(*weight) / cast::<T, f64>(*clock));
        cast::<T, f64>(rounded)
    };
    order.clear();
    order.extend(weights.iter().zip(clocks).map(ratio).enumerate().map(|(i, ratio)| (ratio, i)));
    let earlier = |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if out.len() < order.len() {
        order.select_nth_unstable_by(out.len(), earlier);
    }
    let winners = &mut order[..out.len()];
    winners.sort_unstable_by(earlier);
    for (slot, &mut (_, index)) in out.iter_mut().zip(winners) {
        *slot = index as i64;
    }
}

/// The cumulative distribution in the weights' precision, its last entry exactly 1.
fn cumulative<T: Element>(weights: &[T]) -> Vec<T> {
    let round = |value: f64| cast::<T, f64>(cast::<f64, T>(value));
    let mut sum = 0.0;
    let mut partial: Vec<f64> = unwinding::with_capacity(weights.len());
    for weight in weights {
        sum = round(sum + cast::<T, f64>(*weight));
        partial.push(sum);
    }
    let mut result: Vec<T> = unwinding::collect(partial.iter().map(|value| cast(value / sum)));
    if let Some(last) = result.last_mut() {
        *last = cast(1.0f64);
    }
    result
}
