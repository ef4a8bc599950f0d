//! Negative log likelihood of class indices.

use super::support::{contiguous, contiguous_opt, empty, expect_dtype, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, for_each_run, grain_of};
use crate::rows::{Float, Wide};
use corten_core::geometry::infer_broadcast;
use corten_core::{Access, AccessSet, DType, Result, ensure, match_dtype, try_collect, try_vec};
use corten_ops::{Tensor, op};

/// The loss and the sum of the weights of the targets, for inputs (N, C) or (C).
///
/// # Errors
/// `Index` for a target that is no class, `Runtime` when shapes or dtypes do not fit.
pub fn nll_loss_forward(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Tensor, Tensor)> {
    let problem = Problem::rows(self_, target, weight, reduction, ignore_index)?;
    let sizes =
        if reduction == 0 && self_.dim() == 2 { vec![problem.samples as i64] } else { vec![] };
    forward(self_, target, &problem, &sizes, "nll_loss_out_frame")
}

/// The loss and the sum of the weights of the targets, for inputs (N, C, H, W).
///
/// # Errors
/// As for [`nll_loss_forward`].
pub fn nll_loss2d_forward(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Tensor, Tensor)> {
    let problem = Problem::images(self_, target, weight, reduction, ignore_index)?;
    let sizes = if reduction == 0 { target.sizes().to_vec() } else { vec![] };
    forward(self_, target, &problem, &sizes, "nll_loss2d_forward_out_frame")
}

/// The gradient of [`nll_loss_forward`].
///
/// # Errors
/// As for `nll_loss_forward`.
pub fn nll_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    let problem = Problem::rows(self_, target, weight, reduction, ignore_index)?;
    let per_sample = reduction == 0 && self_.dim() == 2;
    backward(grad_output, self_, target, &problem, total_weight, per_sample)
}

/// The gradient of [`nll_loss2d_forward`].
///
/// # Errors
/// As for `nll_loss2d_forward`.
pub fn nll_loss2d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    let problem = Problem::images(self_, target, weight, reduction, ignore_index)?;
    backward(grad_output, self_, target, &problem, total_weight, reduction == 0)
}

/// The checked arguments; inputs are (samples, classes, pixels).
struct Problem {
    samples: usize,
    classes: usize,
    pixels: usize,
    weight: Option<Tensor>,
    mean: bool,
    none: bool,
    /// Whether the input is a single sample without a batch dimension.
    single: bool,
    ignore_index: i64,
}

impl Problem {
    fn rows(
        self_: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: i64,
        ignore_index: i64,
    ) -> Result<Self> {
        let (sizes, targets) = (self_.sizes(), target.sizes());
        ensure!(matches!(sizes.len(), 1 | 2), Runtime, "input tensor should be 1D or 2D");
        ensure!(
            targets.len() <= 1,
            Runtime,
            "0D or 1D target tensor expected, multi-target not supported"
        );
        if sizes.len() == 1 && targets.len() == 1 {
            ensure!(
                targets[0] == 1,
                Value,
                "For 1D input, 1D target must have size 1, but got target size: {}",
                targets[0]
            );
        }
        ensure!(
            sizes.len() == 1 || targets.first() == Some(&sizes[0]),
            Runtime,
            "size mismatch (got input: {:?}, target: {:?})",
            sizes.as_slice(),
            targets.as_slice()
        );
        let classes = sizes[sizes.len() - 1];
        let shape = weight.filter(|w| w.defined()).map(|weight| weight.sizes());
        if let Some(shape) = shape {
            ensure!(
                shape.as_slice() == [classes],
                Runtime,
                "weight tensor should be defined either for all {classes} classes or no classes \
                 but got weight tensor of shape: {:?}",
                shape.as_slice()
            );
        }
        let samples = if sizes.len() == 2 { sizes[0] } else { 1 };
        Self::new([samples, classes, 1], self_, target, weight, reduction, ignore_index)
    }

    fn images(
        self_: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: i64,
        ignore_index: i64,
    ) -> Result<Self> {
        let (sizes, targets) = (self_.sizes(), target.sizes());
        ensure!(
            targets.len() == 3,
            Runtime,
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
            targets.len()
        );
        ensure!(
            sizes.len() == 4,
            Runtime,
            "only batches of spatial inputs supported (4D tensors), but got input of dimension: {}",
            sizes.len()
        );
        let fits = sizes[0] == targets[0] && sizes[2..] == targets[1..];
        ensure!(
            fits,
            Runtime,
            "size mismatch (got input: {:?} , target: {:?}",
            sizes.as_slice(),
            targets.as_slice()
        );
        ensure!(
            weight.is_none_or(|weight| !weight.defined() || weight.numel() == sizes[1]),
            Runtime,
            "weight tensor should be defined either for all or no classes"
        );
        expect_dtype(target, DType::Int64)?;
        let shape = [sizes[0], sizes[1], sizes[2] * sizes[3]];
        Self::new(shape, self_, target, weight, reduction, ignore_index)
    }

    fn new(
        shape: [i64; 3],
        self_: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: i64,
        ignore_index: i64,
    ) -> Result<Self> {
        ensure!(
            matches!(target.dtype(), DType::Int64 | DType::UInt8),
            Runtime,
            "expected target dtype to be Long or Byte, but got {}",
            target.dtype().type_name()
        );
        let weight = contiguous_opt(weight)?;
        if self_.dtype().is_floating_point() {
            weight.as_ref().map_or(Ok(()), |weight| expect_dtype(weight, self_.dtype()))?;
        }
        let [samples, classes, pixels] = shape.map(|size| size as usize);
        let (mean, none, single) = (reduction == 1, reduction == 0, self_.dim() == 1);
        Ok(Self { samples, classes, pixels, weight, mean, none, single, ignore_index })
    }

    /// The targets as 64-bit integers, in memory order.
    fn labels(target: &Tensor) -> Result<Tensor> {
        match target.dtype() {
            DType::Int64 => contiguous(target),
            _ => contiguous(&op::to_dtype(target, DType::Int64, false, false, None)?),
        }
    }

    /// Refuses labels that are neither ignored nor a class.
    fn check(&self, labels: &[i64]) -> Result<()> {
        let classes = self.classes as u64;
        // One comparison per label: negative ones are large without a sign.
        let fits = |label: i64| (label as u64) < classes || label == self.ignore_index;
        let outside = labels.iter().find(|&&label| !fits(label));
        ensure!(outside.is_none(), Index, "Target {} is out of bounds.", outside.unwrap_or(&0));
        Ok(())
    }

    /// The class of a checked label, if it counts.
    fn class(&self, label: i64) -> Option<usize> {
        (label != self.ignore_index).then_some(label as usize)
    }

    fn weights<T: Float>(&self) -> Result<Vec<T::Wide>> {
        let Some(weight) = &self.weight else { return try_vec(T::Wide::ONE, self.classes) };
        let access = AccessSet::acquire(&[(weight, Access::Read)])?;
        try_collect(access.read::<T>(0)?.iter().map(|value| value.widen()))
    }
}

fn forward(
    self_: &Tensor,
    target: &Tensor,
    problem: &Problem,
    sizes: &[i64],
    name: &'static str,
) -> Result<(Tensor, Tensor)> {
    let input = contiguous(self_)?;
    let (output, total) = (empty(sizes, self_)?, empty(&[], self_)?);
    if is_shape_only(&output) {
        return Ok((output, total));
    }
    let labels = Problem::labels(target)?;
    match_dtype!(self_.dtype(), name, Float, T => {
        let access = AccessSet::acquire(&[
            (&output, Access::Write),
            (&total, Access::Write),
            (&input, Access::Read),
            (&labels, Access::Read),
        ])?;
        let (output, total) = (access.write::<T>(0)?, access.write::<T>(1)?);
        let labels = access.read::<i64>(3)?;
        problem.check(labels)?;
        add_losses(problem, labels, access.read::<T>(2)?, output, &mut total[0])
    })?;
    Ok((output, total))
}

/// Fills in the losses and the sum of the weights.
fn add_losses<T: Float>(
    problem: &Problem,
    labels: &[i64],
    values: &[T],
    output: &mut [T],
    total: &mut T,
) -> Result<()> {
    let weights = problem.weights::<T>()?;
    let pixels = problem.pixels.max(1);
    let image = problem.classes * problem.pixels;
    let samples = || {
        let labels = labels.chunks(pixels).enumerate();
        labels.map(|(sample, labels)| (labels, &values[sample * image..][..image]))
    };
    let loss = |values: &[T], pixel: usize, class: usize| {
        -values[class * problem.pixels + pixel].widen() * weights[class]
    };
    if problem.none {
        for (output, (labels, values)) in output.chunks_mut(pixels).zip(samples()) {
            for (pixel, (output, &label)) in output.iter_mut().zip(labels).enumerate() {
                let loss = problem.class(label).map(|class| loss(values, pixel, class));
                *output = T::narrow(loss.unwrap_or(T::Wide::ZERO));
            }
        }
        // Only a loss that is a single number comes with its weight.
        let only =
            labels.first().filter(|_| problem.single).and_then(|&label| problem.class(label));
        *total = T::narrow(only.map_or(T::Wide::ZERO, |class| weights[class]));
        return Ok(());
    }
    let (mut sum, mut weight) = (0.0, 0.0);
    for (labels, values) in samples() {
        for (pixel, &label) in labels.iter().enumerate() {
            if let Some(class) = problem.class(label) {
                sum += loss(values, pixel, class).as_f64();
                weight += weights[class].as_f64();
            }
        }
    }
    *total = T::narrow(T::Wide::of(weight));
    output[0] = T::narrow(T::Wide::of(if problem.mean { sum / weight } else { sum }));
    Ok(())
}

fn backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    problem: &Problem,
    total_weight: &Tensor,
    per_sample: bool,
) -> Result<Tensor> {
    ensure!(
        total_weight.numel() == 1,
        Runtime,
        "expected total_weight to be a  single element tensor, got: {:?} ({} elements)",
        total_weight.sizes().as_slice(),
        total_weight.numel()
    );
    check_grad(grad_output, target, per_sample)?;
    expect_dtype(grad_output, self_.dtype())?;
    expect_dtype(total_weight, self_.dtype())?;
    let (grad, total) = (contiguous(grad_output)?, contiguous(total_weight)?);
    let out = empty(&self_.sizes(), self_)?;
    op::zero_(&out)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let labels = Problem::labels(target)?;
    match_dtype!(self_.dtype(), "nll_loss_backward_out_frame", Float, T => {
        let weights = problem.weights::<T>()?;
        let access = AccessSet::acquire(&[
            (&out, Access::Write),
            (&grad, Access::Read),
            (&total, Access::Read),
            (&labels, Access::Read),
        ])?;
        let (out, grad) = (access.write::<T>(0)?, access.read::<T>(1)?);
        let labels = access.read::<i64>(3)?;
        problem.check(labels)?;
        let total = access.read::<T>(2)?[0].widen();
        let pixels = problem.pixels;
        let chunk = problem.classes * pixels;
        for_each_chunk(out, chunk, grain_of(chunk), |sample, out| {
            for pixel in 0..pixels {
                let index = sample * pixels + pixel;
                let Some(class) = problem.class(labels[index]) else { continue };
                let grad = grad[if per_sample { index } else { 0 }].widen();
                let share = -weights[class] * grad;
                let share = if problem.mean { share / total } else { share };
                out[class * pixels + pixel] = T::narrow(share);
            }
            Ok(())
        })
    })?;
    Ok(out)
}

fn check_grad(grad_output: &Tensor, target: &Tensor, per_sample: bool) -> Result<()> {
    if per_sample {
        ensure!(
            grad_output.sizes() == target.sizes(),
            Runtime,
            "Expected a tensor of size {:?} for grad_output, but got: {:?}",
            target.sizes().as_slice(),
            grad_output.sizes().as_slice()
        );
        return Ok(());
    }
    check_single_grad(grad_output)
}

/// Refuses gradients of a loss that are not one number.
pub(super) fn check_single_grad(grad_output: &Tensor) -> Result<()> {
    ensure!(
        grad_output.dim() <= 1 && grad_output.numel() == 1,
        Runtime,
        "Expected a single element grad_output tensor, but got: {:?}",
        grad_output.sizes().as_slice()
    );
    Ok(())
}

/// Binary cross entropy of probabilities.
///
/// # Errors
/// `Runtime` for numbers outside 0..=1 or shapes and dtypes that do not fit.
pub fn binary_cross_entropy(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    if !self_.dtype().is_floating_point() {
        return Err(corten_core::not_implemented_for("binary_cross_entropy", self_.dtype()));
    }
    ensure!(
        target.dtype() == self_.dtype(),
        Runtime,
        "Found dtype {} but expected {}",
        target.dtype().type_name(),
        self_.dtype().type_name()
    );
    let sizes = infer_broadcast(&self_.sizes(), &target.sizes())?;
    let full = |tensor: &Tensor| contiguous(&op::expand(tensor, &sizes, false)?);
    let (input, target) = (full(self_)?, full(target)?);
    let out = empty(&sizes, self_)?;
    if !is_shape_only(&out) {
        fill_cross_entropies(&out, &input, &target)?;
    }
    let losses = match weight.filter(|weight| weight.defined()) {
        Some(weight) => op::mul_tensor(&out, weight)?,
        None => out,
    };
    match reduction {
        1 => op::mean(&losses, None),
        2 => op::sum(&losses, None),
        _ => Ok(losses),
    }
}

fn fill_cross_entropies(out: &Tensor, input: &Tensor, target: &Tensor) -> Result<()> {
    match_dtype!(input.dtype(), "binary_cross_entropy", Float, T => {
        let access = AccessSet::acquire(
            &[(out, Access::Write), (input, Access::Read), (target, Access::Read)])?;
        let (values, targets) = (access.read::<T>(1)?, access.read::<T>(2)?);
        cross_entropies(access.write::<T>(0)?, values, targets)
    })
}

fn cross_entropies<T: Float>(out: &mut [T], values: &[T], targets: &[T]) -> Result<()> {
    let (zero, one) = (T::Wide::ZERO, T::Wide::ONE);
    ensure!(
        values.iter().all(|value| (zero..=one).contains(&value.widen())),
        Runtime,
        "all elements of input should be between 0 and 1"
    );
    for_each_run(out, 1, grain_of(8), |range, out| {
        for (i, out) in range.zip(out) {
            let (x, t) = (values[i].widen(), targets[i].widen());
            *out = T::narrow((t - one) * bounded_log(one - x) - t * bounded_log(x));
        }
        Ok(())
    })
}

/// The logarithm, not below -100, so that the loss stays finite.
fn bounded_log<W: Wide>(value: W) -> W {
    let log = value.ln();
    let bound = W::of(-100.0);
    if log < bound { bound } else { log }
}
