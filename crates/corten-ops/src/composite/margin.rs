//! Margin losses over classes.

use super::support::{Reduction, defined};
use crate::{Tensor, batched, op};
use corten_core::{DType, Result, Scalar, ensure, not_implemented_for};

const ONE: Scalar = Scalar::Int(1);

/// The numbers of samples and classes of the input of a margin loss.
///
/// # Errors
/// `Runtime` unless it is a number, a vector or a matrix with classes.
pub fn shape_of(self_: &Tensor) -> Result<[i64; 2]> {
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
    Ok([if sizes.len() == 2 { sizes[0] } else { 1 }, classes])
}

/// Refuses dtypes that margin losses are not made for.
///
/// # Errors
/// `NotImplemented` for inputs other than float and double, `Runtime` for other targets than long.
pub fn check_dtypes(self_: &Tensor, target: &Tensor, name: &str) -> Result<()> {
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
    let [samples, classes] = shape_of(self_)?;
    let input = op::reshape(self_, &[samples, classes])?;
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
        // Sums of nothing, which have the input's history.
        return match reduction {
            0 => op::sum_dim_intlist(&input, Some(&[1]), false, None),
            _ => op::sum(&input, None),
        };
    }
    check_dtypes(self_, target, "multi_margin_loss_cpu_kernel")?;
    if target.device().is_cpu() && !target.lacks_data() {
        let labels = batched::all_items(target).to_vec::<i64>()?;
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

/// How far classes that are no target come closer to targets than 1; labels end at the first
/// negative one.
///
/// # Errors
/// `Runtime` for operands that do not fit, `NotImplemented` for dtypes other than float and double.
pub fn multilabel_margin_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    Ok(op::multilabel_margin_loss_forward(self_, target, reduction)?.0)
}
