//! Connectionist temporal classification: sums over alignments, in logarithms.

use crate::kernels::support::{contiguous, empty, is_shape_only};
use crate::parallel::chunks::for_each_chunk;
use corten_core::{
    Element, Reader, Result, Writer, cast, ensure, match_dtype, try_collect, unwinding,
};
use corten_ops::Tensor;

const NONE: f64 = f64::NEG_INFINITY;

/// The checked arguments.
struct Problem {
    steps: usize,
    samples: usize,
    classes: usize,
    /// The labels of each sample.
    labels: Vec<Vec<usize>>,
    input_lengths: Vec<usize>,
    /// One more than twice the longest target.
    states: usize,
    blank: usize,
}

impl Problem {
    fn of(
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &[i64],
        target_lengths: &[i64],
        blank: i64,
    ) -> Result<Self> {
        let whole = "(while checking arguments for ctc_loss_allocate_outputs)";
        let sizes = log_probs.sizes();
        ensure!(
            sizes.len() == 3,
            Runtime,
            "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 \
             'log_probs' {whole}",
            sizes.len()
        );
        ensure!(log_probs.numel() > 0, Runtime, "log_probs tensor must not be empty");
        let [steps, samples, classes] = [sizes[0], sizes[1], sizes[2]];
        ensure!((0..classes).contains(&blank), Runtime, "blank must be in label range");
        let per_sample = |lengths: &[i64]| lengths.len() as i64 == samples;
        ensure!(per_sample(input_lengths), Runtime, "input_lengths must be of size batch_size");
        ensure!(per_sample(target_lengths), Runtime, "target_lengths must be of size batch_size");
        for &length in target_lengths {
            ensure!(
                length >= 0,
                Runtime,
                "Expected target_lengths to have value at least 0, but got value {length} {whole}"
            );
        }
        for &length in input_lengths {
            ensure!(
                length >= 0,
                Runtime,
                "Expected input_lengths to have value at least 0, but got value {length} {whole}"
            );
            ensure!(
                length <= steps,
                Runtime,
                "Expected input_lengths to have value at most {steps}, but got value {length} \
                 {whole}"
            );
        }
        let labels = labels(targets, target_lengths, classes, whole)?;
        Ok(Self {
            steps: steps as usize,
            samples: samples as usize,
            classes: classes as usize,
            labels,
            input_lengths: try_collect(input_lengths.iter().map(|&length| length as usize))?,
            states: 2 * target_lengths.iter().max().map_or(0, |&longest| longest as usize) + 1,
            blank: blank as usize,
        })
    }

    /// The class of a state: labels between blanks.
    fn class(&self, sample: usize, state: usize) -> usize {
        if state.is_multiple_of(2) { self.blank } else { self.labels[sample][state / 2] }
    }

    /// Whether a state can be reached from two before: over a blank between different labels.
    fn skips(&self, sample: usize, state: usize) -> bool {
        state % 2 == 1
            && state >= 3
            && self.labels[sample][state / 2] != self.labels[sample][state / 2 - 1]
    }
}

/// The labels of each sample, from rows or from one row after the other.
fn labels(targets: &Tensor, lengths: &[i64], classes: i64, whole: &str) -> Result<Vec<Vec<usize>>> {
    let longest = lengths.iter().max().copied().unwrap_or(0);
    let width = match targets.dim() {
        1 => None,
        _ => Some(targets.size(1)?),
    };
    let wanted = if width.is_some() { longest } else { lengths.iter().sum() };
    let (dim, size) = (usize::from(width.is_some()), width.unwrap_or(targets.numel()));
    ensure!(
        size >= wanted && (width.is_none() || targets.size(0)? == lengths.len() as i64),
        Runtime,
        "Expected tensor to have size at least {wanted} at dimension {dim}, but got size {size} \
         for argument #2 'targets' {whole}"
    );
    if is_shape_only(targets) {
        return Ok(Vec::new());
    }
    let all = targets.to_vec::<i64>()?;
    let mut start = 0;
    let mut rows = Vec::new();
    for (i, &length) in lengths.iter().enumerate() {
        let from = width.map_or(start, |width| i * width as usize);
        let row = &all[from..from + length as usize];
        // A label that is no class has no probability to be read.
        let inside = row.iter().all(|&label| 0 <= label && label < classes);
        ensure!(inside, Runtime, "targets must be in label range");
        rows.push(try_collect(row.iter().map(|&label| label as usize))?);
        start += length as usize;
    }
    Ok(rows)
}

fn log_sum(values: [f64; 3]) -> f64 {
    let most = values.into_iter().fold(NONE, f64::max);
    if most == NONE {
        return NONE;
    }
    // The exponentials of the largest and of what is absent need not be computed.
    let term = |value: f64| match value - most {
        0.0 => 1.0,
        NONE => 0.0,
        difference => difference.exp(),
    };
    most + values.into_iter().map(term).sum::<f64>().ln()
}

/// `_ctc_loss`: the losses and the logarithms of the sums of all beginnings.
///
/// # Errors
/// `Runtime` for operands that do not fit, `NotImplemented` for the half precisions.
pub fn ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    _zero_infinity: bool,
) -> Result<(Tensor, Tensor)> {
    match_dtype!(log_probs.dtype(), "ctc_loss_cpu", SingleDouble, T => Ok(size_of::<T>()))?;
    let problem = Problem::of(log_probs, targets, input_lengths, target_lengths, blank)?;
    let samples = problem.samples as i64;
    let losses = empty(&[samples], log_probs)?;
    let shape = [samples, problem.steps as i64, problem.states as i64];
    let alphas = empty(&shape, log_probs)?;
    if is_shape_only(&losses) {
        return Ok((losses, alphas));
    }
    let dense = contiguous(log_probs)?;
    match_dtype!(log_probs.dtype(), "ctc_loss_cpu", SingleDouble, T => {
        let log_probs = Reader::<T>::new(&dense)?;
        let probabilities: &[T] = &log_probs;
        let (mut losses, mut alphas) = (Writer::<T>::new(&losses)?, Writer::<T>::new(&alphas)?);
        let length = problem.steps * problem.states;
        for_each_chunk(&mut alphas, length, 1, |sample, alpha| {
            beginnings(&problem, probabilities, sample, alpha);
            Ok(())
        })?;
        for (sample, loss) in losses.iter_mut().enumerate() {
            let alpha = &alphas[sample * length..][..length];
            *loss = cast(-total(&problem, sample, alpha));
        }
        Ok(())
    })?;
    Ok((losses, alphas))
}

/// The logarithm of the sum over all alignments.
fn total<T: Element>(problem: &Problem, sample: usize, alpha: &[T]) -> f64 {
    let (steps, labels) = (problem.input_lengths[sample], problem.labels[sample].len());
    if steps == 0 {
        return if labels == 0 { 0.0 } else { NONE };
    }
    let last = &alpha[(steps - 1) * problem.states..];
    let end = cast(last[2 * labels]);
    let before = if labels > 0 { cast(last[2 * labels - 1]) } else { NONE };
    log_sum([end, before, NONE])
}

fn beginnings<T: Element>(problem: &Problem, log_probs: &[T], sample: usize, alpha: &mut [T]) {
    let width = problem.states;
    let states = 2 * problem.labels[sample].len() + 1;
    alpha.fill(cast(NONE));
    for t in 0..problem.input_lengths[sample] {
        let row = &log_probs[(t * problem.samples + sample) * problem.classes..];
        for s in 0..states {
            let emitted: f64 = cast(row[problem.class(sample, s)]);
            let from = |back: usize| match s.checked_sub(back) {
                Some(before) => cast(alpha[(t - 1) * width + before]),
                None => NONE,
            };
            let sum = match t {
                0 if s < 2 => 0.0,
                0 => NONE,
                _ => {
                    let skipped = if problem.skips(sample, s) { from(2) } else { NONE };
                    log_sum([from(0), from(1), skipped])
                }
            };
            alpha[t * width + s] = cast(sum + emitted);
        }
    }
}

/// `_ctc_loss_backward`.
///
/// # Errors
/// As for [`ctc_loss`].
pub fn ctc_loss_backward(
    grad: &Tensor,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    neg_log_likelihood: &Tensor,
    log_alpha: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let problem = Problem::of(log_probs, targets, input_lengths, target_lengths, blank)?;
    let out = empty(&log_probs.sizes(), log_probs)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (dense, alphas) = (contiguous(log_probs)?, contiguous(log_alpha)?);
    let (grads, losses) = (grad.to_vec::<f64>()?, neg_log_likelihood.to_vec::<f64>()?);
    match_dtype!(log_probs.dtype(), "ctc_loss_backward_cpu", SingleDouble, T => {
        let (log_probs, alphas) = (Reader::<T>::new(&dense)?, Reader::<T>::new(&alphas)?);
        let mut out = Writer::<T>::new(&out)?;
        out.fill(cast(0.0));
        let length = problem.steps * problem.states;
        for sample in 0..problem.samples {
            let grad = grads[if grads.len() == 1 { 0 } else { sample }];
            let loss = losses[sample];
            if zero_infinity && loss == f64::INFINITY {
                continue;
            }
            let alpha = &alphas[sample * length..][..length];
            slopes(&problem, &log_probs, sample, alpha, (grad, loss), &mut out);
        }
        Ok(())
    })?;
    Ok(out)
}

/// The gradient of one sample, by the sums of all ends.
fn slopes<T: Element>(
    problem: &Problem,
    log_probs: &[T],
    sample: usize,
    alpha: &[T],
    (grad, loss): (f64, f64),
    out: &mut [T],
) {
    let states = 2 * problem.labels[sample].len() + 1;
    let steps = problem.input_lengths[sample];
    let mut beta = unwinding::vec(NONE, states);
    for t in (0..steps).rev() {
        let start = (t * problem.samples + sample) * problem.classes;
        let row = &log_probs[start..start + problem.classes];
        let next = beta.clone();
        for (s, beta) in beta.iter_mut().enumerate() {
            let to = |on: usize| next.get(s + on).copied().unwrap_or(NONE);
            let sum = match steps - 1 - t {
                0 if s + 2 >= states => 0.0,
                0 => NONE,
                _ => {
                    let skips = s + 2 < states && problem.skips(sample, s + 2);
                    log_sum([to(0), to(1), if skips { to(2) } else { NONE }])
                }
            };
            *beta = sum + cast::<T, f64>(row[problem.class(sample, s)]);
        }
        let mut sums = unwinding::vec(NONE, problem.classes);
        for (s, beta) in beta.iter().enumerate() {
            let class = problem.class(sample, s);
            let both = cast::<T, f64>(alpha[t * problem.states + s]) + beta;
            sums[class] = log_sum([sums[class], both, NONE]);
        }
        for (class, sum) in sums.into_iter().enumerate() {
            let log: f64 = cast(row[class]);
            out[start + class] = cast((log.exp() - (sum + loss - log).exp()) * grad);
        }
    }
}
