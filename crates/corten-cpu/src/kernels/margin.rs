//! The margin loss of several labels.

use super::loss::check_single_grad;
use super::support::{contiguous, empty, expect_dtype, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use crate::rows::Wide;
use corten_core::{
    Access, AccessSet, Result, ensure, match_dtype, try_collect, try_vec, unwinding,
};

use corten_ops::composite::margin::{check_dtypes, shape_of};
use corten_ops::{Tensor, op};

/// The checked arguments.
struct Problem {
    samples: usize,
    classes: usize,
    /// Whether every sample has a result of its own.
    per_sample: bool,
    /// The divisor of the losses of a sample.
    divisor: usize,
}

impl Problem {
    fn of(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Self> {
        let [samples, classes] = shape_of(self_)?;
        let fits = match self_.dim() {
            2 => target.sizes() == self_.sizes(),
            _ => target.dim() <= 1 && target.numel() == classes,
        };
        ensure!(
            fits,
            Runtime,
            "inconsistent target size: {:?} for input of size: {:?}",
            target.sizes().as_slice(),
            self_.sizes().as_slice()
        );
        let (samples, classes) = (samples as usize, classes as usize);
        let per_sample = reduction == 0 && self_.dim() == 2;
        let divisor = if reduction == 1 { samples * classes } else { classes };
        Ok(Self { samples, classes, per_sample, divisor })
    }

    fn check_labels(&self, labels: &[i64]) -> Result<()> {
        let inside = labels.iter().all(|&label| -1 <= label && label < self.classes as i64);
        ensure!(inside, Runtime, "argument #2 'target' is out of range");
        Ok(())
    }
}

/// The labels of a sample, which end at the first negative one.
fn labels_of(labels: &[i64]) -> impl Iterator<Item = usize> {
    labels.iter().take_while(|&&label| label >= 0).map(|&label| label as usize)
}

/// `multilabel_margin_loss` and which classes are targets, as ones and zeros.
///
/// # Errors
/// `Runtime` for operands that do not fit or labels that are no class, `NotImplemented` for dtypes
/// other than float and double.
pub fn multilabel_margin_loss_forward(
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "multilabel_margin_loss_forward_out_frame";
    let problem = Problem::of(self_, target, reduction)?;
    let is_target = empty(&target.sizes(), self_)?;
    let sizes = if problem.per_sample { vec![problem.samples as i64] } else { vec![] };
    let out = empty(&sizes, self_)?;
    if self_.numel() == 0 {
        return Ok((op::zero_(&out)?, is_target));
    }
    check_dtypes(self_, target, NAME)?;
    if is_shape_only(&out) {
        return Ok((out, is_target));
    }
    let (input, target) = (contiguous(self_)?, contiguous(target)?);
    match_dtype!(self_.dtype(), NAME, SingleDouble, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write),
            (&is_target, Access::Write),
            (&input, Access::Read),
            (&target, Access::Read),
        ])?;
        let labels = access.read::<i64>(3)?;
        problem.check_labels(labels)?;
        let (out, marks) = (access.write::<T>(0)?, access.write::<T>(1)?);
        let losses = losses(&problem, access.read::<T>(2)?, labels, marks)?;
        if problem.per_sample {
            out.iter_mut().zip(losses).for_each(|(out, loss)| *out = loss as T);
        } else {
            out[0] = losses.iter().sum::<f64>() as T;
        }
        Ok(())
    })?;
    Ok((out, is_target))
}

/// The losses of the samples, divided; marks the targets.
fn losses<T: Wide>(
    problem: &Problem,
    values: &[T],
    labels: &[i64],
    marks: &mut [T],
) -> Result<Vec<f64>> {
    let classes = problem.classes;
    let mut losses = try_vec(0f64, problem.samples)?;
    let grain = grain_of(classes * classes);
    for_each_chunk2((&mut losses, 1), (marks, classes), grain, |sample, loss, marks| {
        let range = sample * classes..(sample + 1) * classes;
        let (values, labels) = (&values[range.clone()], &labels[range]);
        marks.fill(T::ZERO);
        labels_of(labels).for_each(|label| marks[label] = T::ONE);
        let others = values.iter().zip(&*marks).filter(|&(_, &mark)| mark == T::ZERO);
        let others: Vec<T> = try_collect(others.map(|(&value, _)| value))?;
        let sum: f64 = labels_of(labels).map(|label| shortfall(values[label], &others)).sum();
        loss[0] = sum / problem.divisor as f64;
        Ok(())
    })?;
    Ok(losses)
}

/// By how much the other values come closer to a target's than 1, summed.
fn shortfall<T: Wide>(own: T, others: &[T]) -> f64 {
    const LANES: usize = 8;
    let room = T::ONE - own;
    // A comparison with NaN is false: such pairs count for nothing.
    let part = |value: T| {
        let gap = room + value;
        if gap > T::ZERO { gap.as_f64() } else { 0.0 }
    };
    let mut sums = [0f64; LANES];
    let groups = others.chunks_exact(LANES);
    let rest: f64 = groups.remainder().iter().map(|&value| part(value)).sum();
    for group in groups {
        sums.iter_mut().zip(group).for_each(|(sum, &value)| *sum += part(value));
    }
    rest + sums.iter().sum::<f64>()
}

/// The gradient of `multilabel_margin_loss_forward`.
///
/// # Errors
/// As for `multilabel_margin_loss_forward`.
pub fn multilabel_margin_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    is_target: &Tensor,
) -> Result<Tensor> {
    const NAME: &str = "multilabel_margin_loss_backward_cpu_template";
    let problem = Problem::of(self_, target, reduction)?;
    check_grads(&problem, grad_output, target, is_target)?;
    let out = empty(&self_.sizes(), self_)?;
    if self_.numel() == 0 {
        return Ok(out);
    }
    check_dtypes(self_, target, NAME)?;
    for operand in [grad_output, is_target] {
        expect_dtype(operand, self_.dtype())?;
    }
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (input, target) = (contiguous(self_)?, contiguous(target)?);
    let (grad, marks) = (contiguous(grad_output)?, contiguous(is_target)?);
    match_dtype!(self_.dtype(), NAME, SingleDouble, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write),
            (&grad, Access::Read),
            (&input, Access::Read),
            (&target, Access::Read),
            (&marks, Access::Read),
        ])?;
        let labels = access.read::<i64>(3)?;
        problem.check_labels(labels)?;
        let (grad, values, marks) =
            (access.read::<T>(1)?, access.read::<T>(2)?, access.read::<T>(4)?);
        let classes = problem.classes;
        for_each_chunk(access.write::<T>(0)?, classes, grain_of(classes * classes), |n, out| {
            let range = n * classes..(n + 1) * classes;
            let grad = grad[if problem.per_sample { n } else { 0 }].as_f64();
            let counts = counts(&values[range.clone()], &labels[range.clone()], &marks[range]);
            let share = grad / problem.divisor as f64;
            out.iter_mut().zip(counts).for_each(|(out, count)| *out = (count as f64 * share) as T);
            Ok(())
        })
    })?;
    Ok(out)
}

/// How often every class is in a pair that adds to the loss; targets count down.
fn counts<T: Wide>(values: &[T], labels: &[i64], marks: &[T]) -> Vec<i64> {
    let mut counts = unwinding::vec(0i64, values.len());
    for label in labels_of(labels) {
        let room = T::ONE - values[label];
        let mut pairs = 0;
        for ((count, &value), &mark) in counts.iter_mut().zip(values).zip(marks) {
            let adds = i64::from(mark == T::ZERO && room + value > T::ZERO);
            *count += adds;
            pairs += adds;
        }
        counts[label] -= pairs;
    }
    counts
}

fn check_grads(
    problem: &Problem,
    grad_output: &Tensor,
    target: &Tensor,
    is_target: &Tensor,
) -> Result<()> {
    ensure!(
        target.sizes() == is_target.sizes(),
        Runtime,
        "Expected tensor for argument #3 'target' to have same size as tensor for argument #5 \
         'is_target'; but {:?} does not equal {:?} (while checking arguments for \
         multilabel_margin_loss_backward_cpu_template)",
        target.sizes().as_slice(),
        is_target.sizes().as_slice()
    );
    if !problem.per_sample {
        return check_single_grad(grad_output);
    }
    let (samples, sizes) = (problem.samples as i64, grad_output.sizes());
    ensure!(
        sizes.as_slice() == [samples],
        Runtime,
        "Expected a tensor of dimension 1 and tensor.size[0] == {samples} but got: dimension {} \
         and tensor.size[0] = {}",
        sizes.len(),
        sizes.first().unwrap_or(&1)
    );
    Ok(())
}
