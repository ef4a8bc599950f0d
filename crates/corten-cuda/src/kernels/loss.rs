//! Negative log likelihood of class indices, and binary cross entropy.

use crate::failure;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta, zeros};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static NLL: Template = Template { name: "nll", text: &[text::LOSS] };
static NLL_TOTAL: Template = Template { name: "nll_total", text: &[text::LOSS] };
static NLL_BACKWARD: Template = Template { name: "nll_backward", text: &[text::LOSS] };
static CROSS_ENTROPY: Template = Template { name: "cross_entropy", text: &[text::LOSS] };

/// `LabelShape` of `loss.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LabelShape {
    samples: u64,
    classes: u64,
    pixels: u64,
    ignored: i64,
}

/// The checked arguments on the device.
struct Problem {
    shape: LabelShape,
    labels: Tensor,
    weight: Option<Tensor>,
    reduction: i64,
    single: bool,
}

impl Problem {
    fn new(
        self_: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: i64,
        ignored: i64,
    ) -> Result<Self> {
        let sizes = self_.sizes();
        let [samples, classes, pixels] = match sizes.as_slice() {
            [classes] => [1, *classes, 1],
            [samples, classes] => [*samples, *classes, 1],
            [samples, classes, rest @ ..] => [*samples, *classes, rest.iter().product()],
            [] => [1, 1, 1],
        };
        if !self_.dtype().is_floating_point() || self_.itemsize() == 1 {
            return Err(not_implemented_for("nll_loss_forward_reduce_cuda_kernel", self_.dtype()));
        }
        let labels = op::to_device(target, self_.device(), DType::Int64, false, false, None)?;
        let shape = LabelShape {
            samples: samples as u64,
            classes: classes as u64,
            pixels: pixels as u64,
            ignored,
        };
        let weight = weight.filter(|weight| weight.defined()).map(contiguous).transpose()?;
        let single = sizes.len() == 1;
        Ok(Self { shape, labels: contiguous(&labels)?, weight, reduction, single })
    }

    fn count(&self) -> u64 {
        self.shape.samples * self.shape.pixels
    }
}

fn meta_of(tensor: Option<&Tensor>) -> Result<Option<Tensor>> {
    tensor.filter(|tensor| tensor.defined()).map(on_meta).transpose()
}

/// The loss and the sum of the weights of the targets, for inputs (N, C) or (C).
///
/// # Errors
/// Those of the CPU's checks; a target that is no class is reported later. Of the functions below
/// likewise.
pub fn nll_loss_forward(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Tensor, Tensor)> {
    let own = meta_of(weight)?;
    let (input, labels) = (on_meta(self_)?, on_meta(target)?);
    let planned = op::nll_loss_forward(&input, &labels, own.as_ref(), reduction, ignore_index)?;
    let problem = Problem::new(self_, target, weight, reduction, ignore_index)?;
    forward(self_, &planned.0.sizes(), &problem)
}

/// The loss and the sum of the weights of the targets, for inputs (N, C, H, W).
///
/// # Errors
/// As [`nll_loss_forward`].
pub fn nll_loss2d_forward(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Tensor, Tensor)> {
    let own = meta_of(weight)?;
    let (input, labels) = (on_meta(self_)?, on_meta(target)?);
    let planned = op::nll_loss2d_forward(&input, &labels, own.as_ref(), reduction, ignore_index)?;
    let problem = Problem::new(self_, target, weight, reduction, ignore_index)?;
    forward(self_, &planned.0.sizes(), &problem)
}

fn forward(self_: &Tensor, sizes: &[i64], problem: &Problem) -> Result<(Tensor, Tensor)> {
    let dtype = self_.dtype();
    let input = contiguous(self_)?;
    let (out, total) = (empty(sizes, dtype, self_)?, zeros(&[], dtype, self_)?);
    let none = problem.reduction == 0;
    let count = problem.count();
    if none && count == 0 {
        return Ok((out, total));
    }
    let mut blocks = count.div_ceil(256).max(1) as u32;
    if !none {
        blocks = blocks.min(256);
    }
    let partial = empty(&[2 * i64::from(blocks)], DType::Float64, self_)?;
    let undefined = Tensor::default();
    let weight = problem.weight.as_ref().unwrap_or(&undefined);
    let held = Operands::hold(&[
        (&out, Access::Write),
        (&total, Access::Write),
        (&partial, Access::Write),
        (&input, Access::Read),
        (&problem.labels, Access::Read),
        (weight, Access::Read),
    ])?;
    let (mut to, mut sum, mut sums) = (held.at(0), held.at(1), held.at(2));
    let (mut from, mut labels, mut weights) = (held.at(3), held.at(4), held.at(5));
    let mut no_sums = if none { std::ptr::null_mut() } else { sums };
    let (mut shape, mut single) = (problem.shape, u32::from(problem.single));
    let stream = Stream::current(self_.device().index);
    let mut report = failure::address(stream.device())?;
    let of = [Argument::Storage(dtype), Argument::Value(dtype)];
    let grid = Shape { grid: [blocks, 1, 1], block: [256, 1, 1], shared: 0 };
    let mut mean = u32::from(problem.reduction == 1);
    // SAFETY: the tensors are contiguous and held; labels that are no class are not followed.
    unsafe {
        let parameters =
            parameters!(to, sum, no_sums, from, labels, weights, shape, single, report);
        NLL.launch(&of, grid, stream, parameters)?;
        if !none {
            let parameters = parameters!(to, sum, sums, blocks, mean);
            NLL_TOTAL.launch(&of, Shape::over(1), stream, parameters)?;
        }
    }
    drop(held);
    Ok((out, total))
}

/// The gradient of [`nll_loss_forward`].
///
/// # Errors
/// As [`nll_loss_forward`].
pub fn nll_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    let own = meta_of(weight)?;
    op::nll_loss_backward(
        &on_meta(grad_output)?,
        &on_meta(self_)?,
        &on_meta(target)?,
        own.as_ref(),
        reduction,
        ignore_index,
        &on_meta(total_weight)?,
    )?;
    let problem = Problem::new(self_, target, weight, reduction, ignore_index)?;
    backward(grad_output, self_, &problem, total_weight, reduction == 0 && self_.dim() == 2)
}

/// The gradient of [`nll_loss2d_forward`].
///
/// # Errors
/// As [`nll_loss_forward`].
pub fn nll_loss2d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    let own = meta_of(weight)?;
    op::nll_loss2d_backward(
        &on_meta(grad_output)?,
        &on_meta(self_)?,
        &on_meta(target)?,
        own.as_ref(),
        reduction,
        ignore_index,
        &on_meta(total_weight)?,
    )?;
    let problem = Problem::new(self_, target, weight, reduction, ignore_index)?;
    backward(grad_output, self_, &problem, total_weight, reduction == 0)
}

fn backward(
    grad_output: &Tensor,
    self_: &Tensor,
    problem: &Problem,
    total_weight: &Tensor,
    each: bool,
) -> Result<Tensor> {
    let dtype = self_.dtype();
    let out = zeros(&self_.sizes(), dtype, self_)?;
    if problem.count() == 0 {
        return Ok(out);
    }
    let (grad, total) = (contiguous(grad_output)?, contiguous(total_weight)?);
    let undefined = Tensor::default();
    let weight = problem.weight.as_ref().unwrap_or(&undefined);
    let held = Operands::hold(&[
        (&out, Access::Write),
        (&grad, Access::Read),
        (&total, Access::Read),
        (&problem.labels, Access::Read),
        (weight, Access::Read),
    ])?;
    let (mut to, mut from, mut sum) = (held.at(0), held.at(1), held.at(2));
    let (mut labels, mut weights) = (held.at(3), held.at(4));
    let (mut shape, mut each) = (problem.shape, u32::from(each));
    let mut mean = u32::from(problem.reduction == 1);
    let stream = Stream::current(self_.device().index);
    let mut report = failure::address(stream.device())?;
    let of = [Argument::Storage(dtype), Argument::Value(dtype)];
    let grid = Shape::over(problem.count() as i64);
    let parameters = parameters!(to, from, sum, labels, weights, shape, each, mean, report);
    // SAFETY: the tensors are contiguous and held; labels that are no class are not followed.
    unsafe { NLL_BACKWARD.launch(&of, grid, stream, parameters)? };
    drop(held);
    Ok(out)
}

/// Binary cross entropy of probabilities.
///
/// # Errors
/// Those of the CPU's checks; a number outside 0..=1 is reported later.
pub fn binary_cross_entropy(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let own = meta_of(weight)?;
    op::binary_cross_entropy(&on_meta(self_)?, &on_meta(target)?, own.as_ref(), reduction)?;
    let dtype = self_.dtype();
    ensure!(
        dtype.itemsize() > 1,
        NotImplemented,
        "binary_cross_entropy needs floats of 16 bits or more"
    );
    let sizes = corten_core::geometry::infer_broadcast(&self_.sizes(), &target.sizes())?;
    let full = |tensor: &Tensor| contiguous(&op::expand(tensor, &sizes, false)?);
    let (input, target) = (full(self_)?, full(target)?);
    let out = empty(&sizes, dtype, self_)?;
    if out.numel() > 0 {
        let wanted = [(&out, Access::Write), (&input, Access::Read), (&target, Access::Read)];
        let held = Operands::hold(&wanted)?;
        let (mut n, mut to) = (out.numel() as u64, held.at(0));
        let (mut from, mut aims) = (held.at(1), held.at(2));
        let stream = Stream::current(self_.device().index);
        let mut report = failure::address(stream.device())?;
        let of = [Argument::Storage(dtype), Argument::Value(dtype)];
        let parameters = parameters!(n, to, from, aims, report);
        // SAFETY: the tensors are contiguous, of the same sizes, and held.
        unsafe { CROSS_ENTROPY.launch(&of, Shape::over(out.numel()), stream, parameters)? };
        drop(held);
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
