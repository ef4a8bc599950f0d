//! The margin loss of several labels.

use crate::failure;
use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{contiguous, empty, on_meta};
use crate::text;
use corten_core::{Access, DType, Result, ensure};
use corten_ops::composite::margin::{check_dtypes, shape_of};
use corten_ops::{Tensor, op};

static FORWARD: Template = Template { name: "multilabel_margin", text: &[text::MARGIN] };
static GRADIENT: Template = Template { name: "multilabel_margin_gradient", text: &[text::MARGIN] };

/// `MarginShape` of `margin.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct MarginShape {
    classes: u64,
    divisor: f64,
    per_sample: u32,
}

impl MarginShape {
    /// The shape of a problem, and a block for each sample.
    fn of(self_: &Tensor, reduction: i64) -> Result<(Self, Shape)> {
        let [samples, classes] = shape_of(self_)?;
        let divisor = if reduction == 1 { samples * classes } else { classes };
        let per_sample = u32::from(reduction == 0 && self_.dim() == 2);
        ensure!(samples <= i64::from(i32::MAX), Runtime, "{samples} samples are too many");
        let shape = Shape { grid: [samples as u32, 1, 1], block: [256, 1, 1], shared: 0 };
        Ok((Self { classes: classes as u64, divisor: divisor as f64, per_sample }, shape))
    }
}

/// `multilabel_margin_loss` and which classes are targets, as ones and zeros.
///
/// # Errors
/// Those of the CPU's checks; labels that are no class are reported later.
pub fn multilabel_margin_loss_forward(
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<(Tensor, Tensor)> {
    let planned =
        op::multilabel_margin_loss_forward(&on_meta(self_)?, &on_meta(target)?, reduction)?;
    let dtype = self_.dtype();
    let marks = empty(&target.sizes(), dtype, self_)?;
    if self_.numel() == 0 {
        return Ok((op::zero_(&empty(&planned.0.sizes(), dtype, self_)?)?, marks));
    }
    check_dtypes(self_, target, "multilabel_margin_loss_forward_out_frame")?;
    let (mut problem, shape) = MarginShape::of(self_, reduction)?;
    let losses = empty(&[i64::from(shape.grid[0])], DType::Float64, self_)?;
    let (input, target) = (contiguous(self_)?, contiguous(target)?);
    let tensors = [
        (&losses, Access::Write),
        (&marks, Access::Write),
        (&input, Access::Read),
        (&target, Access::Read),
    ];
    let mut report = failure::address(self_.device().index)?;
    let of = [Argument::Storage(dtype), Argument::Value(dtype)];
    let call = Flat { template: &FORWARD, of: &of, tensors: &tensors };
    // SAFETY: the tensors are contiguous; there are as many labels and marks as values, and a loss for each block.
    unsafe { call.launch(shape, &mut [], parameters!(problem, report))? };
    let out = match problem.per_sample {
        0 => op::sum(&losses, None)?,
        _ => losses,
    };
    Ok((op::to_dtype(&out, dtype, false, false, None)?, marks))
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
    op::multilabel_margin_loss_backward(
        &on_meta(grad_output)?,
        &on_meta(self_)?,
        &on_meta(target)?,
        reduction,
        &on_meta(is_target)?,
    )?;
    let dtype = self_.dtype();
    let out = empty(&self_.sizes(), dtype, self_)?;
    if self_.numel() == 0 {
        return Ok(out);
    }
    let (mut problem, shape) = MarginShape::of(self_, reduction)?;
    let given = [grad_output, self_, target, is_target];
    let given = [
        contiguous(given[0])?,
        contiguous(given[1])?,
        contiguous(given[2])?,
        contiguous(given[3])?,
    ];
    let mut tensors = vec![(&out, Access::Write)];
    tensors.extend(given.iter().map(|tensor| (tensor, Access::Read)));
    let mut report = failure::address(self_.device().index)?;
    let of = [Argument::Storage(dtype), Argument::Value(dtype)];
    let call = Flat { template: &GRADIENT, of: &of, tensors: &tensors };
    // SAFETY: as above; there is a gradient for each sample or one for all.
    unsafe { call.launch(shape, &mut [], parameters!(problem, report))? };
    Ok(out)
}
