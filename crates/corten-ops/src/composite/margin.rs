//! Margin losses over classes.

use super::support::{Reduction, defined};
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, ensure, not_implemented_for};

const ONE: Scalar = Scalar::Int(1);

/// The input as a matrix of samples and classes.
fn matrix(self_: &Tensor) -> Result<Tensor> {
    let sizes = self_.sizes();
    let usable = match sizes.len() {
        0 => true,
        1 => sizes[0] != 0,
        2 => sizes[1] != 0,
        _ => false,
    };
    ensure!(
        usable,
        Runtime,
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {:?}",
        sizes.as_slice()
    );
    let classes = sizes.last().copied().unwrap_or(1);
    op::reshape(self_, &[if sizes.len() == 2 { sizes[0] } else { 1 }, classes])
}

fn check_dtypes(self_: &Tensor, target: &Tensor, name: &str) -> Result<()> {
    if !matches!(self_.dtype(), DType::Float32 | DType::Float64) {
        return Err(not_implemented_for(name, self_.dtype()));
    }
    ensure!(
        target.dtype() == DType::Int64,
        Runtime,
        "expected scalar type Long but found {}",
        target.dtype().type_name()
    );
    Ok(())
}

/// How far the other classes come closer to the target's than a margin.
///
/// # Errors
/// `Runtime` for operands that do not fit, `NotImplemented` for dtypes other than float and double.
pub fn multi_margin_loss(
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let power = p.to_f64();
    ensure!(power == 1.0 || power == 2.0, Runtime, "only p == 1 and p == 2 supported");
    let input = matrix(self_)?;
    let (samples, classes) = (input.size(0)?, input.size(1)?);
    ensure!(
        target.dim() <= 1 && target.numel() == samples,
        Runtime,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input \
         samples (batch size). Expected target size [{samples}], but got {:?}. Input has shape \
         {:?}.",
        target.sizes().as_slice(),
        self_.sizes().as_slice()
    );
    let weight = defined(weight);
    if let Some(weight) = weight {
        ensure!(
            weight.dim() <= 1 && weight.numel() == classes,
            Runtime,
            "inconsistent weight size, expected {classes} but got {:?}",
            weight.sizes().as_slice()
        );
    }
    if self_.numel() == 0 {
        return op::new_empty(self_, &[samples], None, None, None, None);
    }
    check_dtypes(self_, target, "multi_margin_loss_cpu_kernel")?;
    if target.device().is_cpu() {
        let labels = target.to_vec::<i64>()?;
        let inside = labels.iter().all(|&label| 0 <= label && label < classes);
        ensure!(inside, Runtime, "target out of range");
    }
    let column = op::reshape(target, &[samples, 1])?;
    let own = op::gather(&input, 1, &column, false)?;
    let gap = op::add_tensor(&input, &op::rsub_scalar(&own, margin, ONE)?, ONE)?;
    let mut loss = op::relu(&gap)?;
    if power == 2.0 {
        loss = op::mul_tensor(&loss, &loss)?;
    }
    if let Some(weight) = weight {
        let chosen = op::index_select(weight, 0, &op::reshape(target, &[samples])?)?;
        loss = op::mul_tensor(&loss, &op::unsqueeze(&chosen, 1)?)?;
    }
    let loss = op::scatter_value(&loss, 1, &column, Scalar::Int(0))?;
    let sums = op::sum_dim_intlist(&loss, Some(&[1]), false, None)?;
    let per_sample = op::div_scalar(&sums, Scalar::Int(classes))?;
    reduced(per_sample, reduction, target.dim() == 0)
}

fn reduced(per_sample: Tensor, reduction: i64, single: bool) -> Result<Tensor> {
    match Reduction::of(reduction) {
        Reduction::None if single => op::reshape(&per_sample, &[]),
        other => other.apply(per_sample),
    }
}

/// [`multilabel_margin_loss`] and which classes are targets.
///
/// # Errors
/// As for `multilabel_margin_loss`.
pub fn multilabel_margin_loss_forward(
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<(Tensor, Tensor)> {
    let input = matrix(self_)?;
    let classes = input.size(1)?;
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
    if self_.numel() == 0 {
        let none = || op::new_empty(self_, &[0], None, None, None, None);
        let targets = op::new_empty(self_, &target.sizes(), None, None, None, None)?;
        return Ok((none()?, targets));
    }
    check_dtypes(self_, target, "multilabel_margin_loss_forward_out_frame")?;
    let labels = op::reshape(target, &input.sizes())?;
    if target.device().is_cpu() {
        let all = target.to_vec::<i64>()?;
        ensure!(
            all.iter().all(|&label| -1 <= label && label < classes),
            Runtime,
            "argument #2 'target' is out of range"
        );
    }
    // Labels count up to the first negative one.
    let valid = op::ge_scalar(&labels, Scalar::Int(0))?;
    let valid = op::to_dtype(&valid, DType::Int64, false, false, None)?;
    let valid = op::ne_scalar(&op::cumprod(&valid, 1, None)?, Scalar::Int(0))?;
    let places = op::masked_fill_scalar(&labels, &op::logical_not(&valid)?, Scalar::Int(0))?;
    let marks = op::to_dtype(&valid, self_.dtype(), false, false, None)?;
    let zeros = op::zeros_like(&marks, None, None, None, None, None)?;
    let is_target = op::gt_scalar(&op::scatter_add(&zeros, 1, &places, &marks)?, Scalar::Int(0))?;
    let own = op::unsqueeze(&op::gather(&input, 1, &places, false)?, 2)?;
    let gap = op::add_tensor(&op::unsqueeze(&input, 1)?, &op::rsub_scalar(&own, ONE, ONE)?, ONE)?;
    let left_out = op::logical_or(
        &op::unsqueeze(&op::logical_not(&valid)?, 2)?,
        &op::unsqueeze(&is_target, 1)?,
    )?;
    let gap = op::masked_fill_scalar(&op::relu(&gap)?, &left_out, Scalar::Int(0))?;
    let sums = op::sum_dim_intlist(&gap, Some(&[1, 2]), false, None)?;
    let per_sample = op::div_scalar(&sums, Scalar::Int(classes))?;
    let loss = reduced(per_sample, reduction, self_.dim() < 2)?;
    let is_target = op::to_dtype(&is_target, self_.dtype(), false, false, None)?;
    Ok((loss, op::reshape(&is_target, &target.sizes())?))
}

/// How far classes that are no target come closer to targets than 1; labels end at the first
/// negative one.
///
/// # Errors
/// `Runtime` for operands that do not fit, `NotImplemented` for dtypes other than float and double.
pub fn multilabel_margin_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    Ok(op::multilabel_margin_loss_forward(self_, target, reduction)?.0)
}
