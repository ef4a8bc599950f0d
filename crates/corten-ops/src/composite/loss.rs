//! Losses made of other operators.

use super::support::{Reduction, defined, number_minus};
use crate::{Tensor, op};
use corten_core::geometry::wrap_dim;
use corten_core::{Dims, MemoryFormat, Result, Scalar, bail, ensure};

/// Negative log likelihood for inputs (N, C) or (C).
///
/// # Errors
/// Those of the kernel.
pub fn nll_loss(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    Ok(op::nll_loss_forward(self_, target, weight, reduction, ignore_index)?.0)
}

/// Negative log likelihood for inputs (N, C, H, W).
///
/// # Errors
/// Those of the kernel.
pub fn nll_loss2d(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    Ok(op::nll_loss2d_forward(self_, target, weight, reduction, ignore_index)?.0)
}

/// Negative log likelihood with the classes in dimension 1 of any number.
///
/// # Errors
/// `Value` when sizes do not fit, and those of the kernels.
pub fn nll_loss_nd(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    let (sizes, targets) = (self_.sizes(), target.sizes());
    ensure!(!sizes.is_empty(), Value, "Expected 1 or more dimensions (got {})", sizes.len());
    if sizes.len() != 1 && targets.first() != Some(&sizes[0]) {
        bail!(
            Value,
            "Expected input batch_size ({}) to match target batch_size ({}).",
            sizes[0],
            targets.first().copied().unwrap_or(1)
        );
    }
    match sizes.len() {
        1 | 2 => return op::nll_loss(self_, target, weight, reduction, ignore_index),
        4 => return op::nll_loss2d(self_, target, weight, reduction, ignore_index),
        _ => {}
    }
    let (samples, classes) = (sizes[0], sizes[1]);
    let mut out_sizes = Dims::from_slice(&[samples]);
    out_sizes.extend_from_slice(&sizes[2..]);
    ensure!(
        targets.get(1..) == Some(&sizes[2..]),
        Runtime,
        "Expected target size {:?}, got {:?}",
        out_sizes.as_slice(),
        targets.as_slice()
    );
    let input = op::contiguous(self_, MemoryFormat::Contiguous)?;
    let target = op::contiguous(target, MemoryFormat::Contiguous)?;
    let pixels: i64 = sizes[2..].iter().product();
    let (rows, columns) = if self_.numel() > 0 { (1, pixels) } else { (0, 0) };
    let input = op::view(&input, &[samples, classes, rows, columns])?;
    let target = op::view(&target, &[samples, rows, columns])?;
    let out = op::nll_loss2d(&input, &target, weight, reduction, ignore_index)?;
    if reduction == 0 { op::view(&out, &out_sizes) } else { Ok(out) }
}

/// Cross entropy between softmax of `self` and class indices or probabilities.
///
/// # Errors
/// `Runtime` when arguments do not fit, and those of `nll_loss_nd`.
pub fn cross_entropy_loss(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    label_smoothing: f64,
) -> Result<Tensor> {
    let weight = defined(weight);
    if self_.sizes() == target.sizes() {
        ensure!(
            target.dtype().is_floating_point(),
            Runtime,
            "Expected floating point type for target with class probabilities, got {}",
            target.dtype().type_name()
        );
        ensure!(
            ignore_index < 0,
            Runtime,
            "ignore_index is not supported for floating point target"
        );
        return with_probabilities(
            self_,
            target,
            weight,
            Reduction::of(reduction),
            label_smoothing,
        );
    }
    if label_smoothing > 0.0 {
        ensure!(
            label_smoothing <= 1.0,
            Runtime,
            "label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        );
        return smoothed(self_, target, weight, reduction, ignore_index, label_smoothing);
    }
    let logs = log_probabilities(self_)?;
    op::nll_loss_nd(&logs, target, weight, reduction, ignore_index)
}

fn class_dim(self_: &Tensor) -> usize {
    usize::from(self_.dim() != 1)
}

fn log_probabilities(self_: &Tensor) -> Result<Tensor> {
    op::log_softmax_int(self_, class_dim(self_) as i64, Some(self_.dtype()))
}

/// The weight of each class, in a shape that broadcasts against the input.
fn spread_weight(weight: &Tensor, input: &Tensor) -> Result<Tensor> {
    let mut shape: Dims = input.sizes().iter().map(|_| 1).collect();
    shape[class_dim(input)] = weight.sizes().first().copied().unwrap_or(1);
    op::view(weight, &shape)
}

fn with_probabilities(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
    label_smoothing: f64,
) -> Result<Tensor> {
    let dim = class_dim(self_);
    let classes = self_.size(dim as i64)?;
    if let Some(weight) = weight {
        ensure!(
            weight.sizes().as_slice() == [classes],
            Runtime,
            "cross_entropy: weight tensor should be defined either for all {classes} classes or no \
             classes but got weight tensor of shape: {:?}",
            weight.sizes().as_slice()
        );
    }
    let logs = log_probabilities(self_)?;
    let mut target = target.clone();
    if label_smoothing > 0.0 {
        ensure!(
            label_smoothing <= 1.0,
            Runtime,
            "label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        );
        let kept = op::mul_scalar(&target, Scalar::from(1.0 - label_smoothing))?;
        let share = Scalar::from(label_smoothing / classes as f64);
        target = op::add_scalar(&kept, share, Scalar::Int(1))?;
    }
    let mut losses = op::mul_tensor(&logs, &target)?;
    if let Some(weight) = weight {
        losses = op::mul_tensor(&losses, &spread_weight(weight, self_)?)?;
    }
    match reduction {
        Reduction::None => {
            op::neg(&op::sum_dim_intlist(&losses, Some(&[dim as i64]), false, None)?)
        }
        Reduction::Sum => op::neg(&op::sum(&losses, None)?),
        Reduction::Mean => {
            // 0 / 0 for an empty batch, as for class indices.
            let count = self_.numel().checked_div(classes).unwrap_or(0);
            op::div_scalar(&op::neg(&op::sum(&losses, None)?)?, Scalar::Int(count))
        }
    }
}

fn smoothed(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    label_smoothing: f64,
) -> Result<Tensor> {
    let dim = class_dim(self_) as i64;
    let classes = self_.size(dim)?;
    let logs = log_probabilities(self_)?;
    let likelihood = op::nll_loss_nd(&logs, target, weight, reduction, ignore_index)?;
    let weighted = match weight {
        Some(weight) => op::mul_tensor(&logs, &spread_weight(weight, self_)?)?,
        None => logs,
    };
    let smooth = op::neg(&op::sum_dim_intlist(&weighted, Some(&[dim]), false, None)?)?;
    let ignored = op::eq_scalar(target, Scalar::Int(ignore_index))?;
    op::masked_fill__scalar(&smooth, &ignored, Scalar::Int(0))?;
    let smooth = match (Reduction::of(reduction), weight) {
        (Reduction::Mean, Some(weight)) => {
            let class = op::masked_fill_scalar(target, &ignored, Scalar::Int(0))?;
            let weights = op::gather(weight, 0, &op::flatten_using_ints(&class, 0, -1)?, false)?;
            let ignored = op::flatten_using_ints(&ignored, 0, -1)?;
            let total =
                op::sum(&op::masked_fill_scalar(&weights, &ignored, Scalar::Int(0))?, None)?;
            op::div_tensor(&op::sum(&smooth, None)?, &total)?
        }
        (Reduction::Mean, None) => {
            let count = op::sum(&op::logical_not(&ignored)?, None)?;
            op::div_tensor(&op::sum(&smooth, None)?, &count)?
        }
        (reduction, _) => reduction.apply(smooth)?,
    };
    let likelihood = op::mul_scalar(&likelihood, Scalar::from(1.0 - label_smoothing))?;
    let smooth = op::mul_scalar(&smooth, Scalar::from(label_smoothing / classes as f64))?;
    op::add_tensor(&likelihood, &smooth, Scalar::Int(1))
}

/// Absolute differences.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn l1_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    let difference = op::sub_tensor(self_, target, Scalar::Int(1))?;
    Reduction::of(reduction).apply(op::abs(&difference)?)
}

/// Divergence of a target distribution from log probabilities.
///
/// # Errors
/// `Runtime` for integers and complex numbers, and when shapes do not broadcast.
pub fn kl_div(self_: &Tensor, target: &Tensor, reduction: i64, log_target: bool) -> Result<Tensor> {
    let dtypes = [self_.dtype(), target.dtype()];
    ensure!(
        !dtypes.iter().any(|dtype| dtype.is_complex()),
        Runtime,
        "kl_div: Complex inputs not supported."
    );
    ensure!(
        dtypes.iter().all(|dtype| dtype.is_floating_point()),
        Runtime,
        "kl_div: Integral inputs not supported."
    );
    let one = Scalar::Int(1);
    let losses = if log_target {
        op::mul_tensor(&op::exp(target)?, &op::sub_tensor(target, self_, one)?)?
    } else {
        op::sub_tensor(&op::xlogy_tensor(target, target)?, &op::mul_tensor(target, self_)?, one)?
    };
    Reduction::of(reduction).apply(losses)
}

/// $x$ for a target of 1, $\max(0, margin - x)$ for -1.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn hinge_embedding_loss(
    self_: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: i64,
) -> Result<Tensor> {
    let zeros = op::zeros_like(self_, None, None, None, None, None)?;
    let apart = op::clamp_min(&number_minus(margin, self_)?, Scalar::Int(0))?;
    let apart = op::where_self(&op::ne_scalar(target, Scalar::Int(1))?, &apart, &zeros)?;
    let close = op::where_self(&op::ne_scalar(target, Scalar::Int(-1))?, self_, &zeros)?;
    Reduction::of(reduction).apply(op::add_tensor(&apart, &close, Scalar::Int(1))?)
}

/// $\max(0, -t (x_1 - x_2) + margin)$.
///
/// # Errors
/// `Runtime` when ranks differ or shapes do not broadcast.
pub fn margin_ranking_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: i64,
) -> Result<Tensor> {
    let one = Scalar::Int(1);
    let difference = op::sub_tensor(input1, input2, one)?;
    let product = op::mul_tensor(&op::neg(target)?, &difference)?;
    let losses =
        op::clamp_min(&op::add_scalar(&product, Scalar::from(margin), one)?, Scalar::Int(0))?;
    Reduction::of(reduction).apply(losses)
}

/// Cosine of the angle between vectors along `dim`.
///
/// # Errors
/// `Runtime` for integers or shapes that do not broadcast.
pub fn cosine_similarity(x1: &Tensor, x2: &Tensor, dim: i64, eps: f64) -> Result<Tensor> {
    let dtype = corten_core::promote_types(x1.dtype(), x2.dtype())?;
    ensure!(
        dtype.is_floating_point(),
        Runtime,
        "expected common dtype to be floating point, yet common dtype is {}",
        dtype.type_name()
    );
    let sizes = corten_core::geometry::infer_broadcast(&x1.sizes(), &x2.sizes())?;
    let unit = |x: &Tensor| {
        let x = op::to_dtype(x, dtype, false, false, None)?;
        let x = op::expand(&x, &sizes, false)?;
        let norm = op::linalg_vector_norm(&x, Scalar::Int(2), Some(&[dim]), true, None)?;
        let bounded = op::clone(&norm, None)?;
        {
            // The bound is no function of the input: gradients pass as if it were not there.
            let _no_grad = corten_core::GradModeGuard::new(false);
            op::clamp_min_(&bounded, Scalar::from(eps))?;
        }
        op::div_tensor(&x, &bounded)
    };
    op::sum_dim_intlist(&op::mul_tensor(&unit(x1)?, &unit(x2)?)?, Some(&[dim]), false, None)
}

/// $1 - \cos$ for a target of 1, $\max(0, \cos - margin)$ for -1.
///
/// # Errors
/// `Runtime` when ranks or shapes do not fit.
pub fn cosine_embedding_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: i64,
) -> Result<Tensor> {
    /// Keeps the quotient finite for zero vectors.
    const EPSILON: f64 = 1e-12;
    let rank = target.dim();
    ensure!(rank <= 1, Runtime, "0D or 1D target tensor expected, multi-target not supported");
    ensure!(
        input1.dim() == rank + 1 && input2.dim() == rank + 1,
        Runtime,
        "{rank}D target tensor expects {}D input tensors, but found inputs with sizes {:?} and {:?}.",
        rank + 1,
        input1.sizes().as_slice(),
        input2.sizes().as_slice()
    );
    let (one, dim) = (Scalar::Int(1), [rank as i64]);
    let dot = |a: &Tensor, b: &Tensor| {
        op::sum_dim_intlist(&op::mul_tensor(a, b)?, Some(&dim), false, None)
    };
    let size1 = op::add_scalar(&dot(input1, input1)?, Scalar::from(EPSILON), one)?;
    let size2 = op::add_scalar(&dot(input2, input2)?, Scalar::from(EPSILON), one)?;
    let cos = op::div_tensor(&dot(input1, input2)?, &op::sqrt(&op::mul_tensor(&size1, &size2)?)?)?;
    let zeros = op::zeros_like(&cos, None, None, None, None, None)?;
    let apart = op::sub_scalar(&cos, Scalar::from(margin), one)?;
    let apart = op::clamp_min(&apart, Scalar::Int(0))?;
    let close = op::where_self(&op::eq_scalar(target, one)?, &number_minus(1, &cos)?, &zeros)?;
    let apart = op::where_self(&op::eq_scalar(target, Scalar::Int(-1))?, &apart, &zeros)?;
    Reduction::of(reduction).apply(op::add_tensor(&close, &apart, one)?)
}

/// `p`-norm of `x1 - x2 + eps` over the last dimension.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn pairwise_distance(
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    eps: f64,
    keepdim: bool,
) -> Result<Tensor> {
    let last = wrap_dim(-1, x1.dim().max(x2.dim()))? as i64;
    let difference = op::sub_tensor(x1, x2, Scalar::Int(1))?;
    let difference = op::add_scalar(&difference, Scalar::from(eps), Scalar::Int(1))?;
    op::norm_scalaropt_dim(&difference, Some(Scalar::from(p)), &[last], keepdim)
}

/// $\max(0, d(a, p) - d(a, n) + margin)$.
///
/// # Errors
/// `Runtime` when ranks differ or shapes do not broadcast.
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    reduction: i64,
) -> Result<Tensor> {
    let (a, b, c) = (anchor.dim(), positive.dim(), negative.dim());
    ensure!(
        a == b && b == c,
        Runtime,
        "The anchor, positive, and negative tensors are expected to have the same number of \
         dimensions, but got: anchor {a}D, positive {b}D, and negative {c}D inputs"
    );
    let one = Scalar::Int(1);
    let near = op::pairwise_distance(anchor, positive, p, eps, false)?;
    let mut far = op::pairwise_distance(anchor, negative, p, eps, false)?;
    if swap {
        far = op::minimum(&far, &op::pairwise_distance(positive, negative, p, eps, false)?)?;
    }
    let losses = op::sub_tensor(&op::add_scalar(&near, Scalar::from(margin), one)?, &far, one)?;
    Reduction::of(reduction).apply(op::clamp_min(&losses, Scalar::Int(0))?)
}

/// Negative log likelihood of counts under a Poisson distribution.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn poisson_nll_loss(
    input: &Tensor,
    target: &Tensor,
    log_input: bool,
    full: bool,
    eps: f64,
    reduction: i64,
) -> Result<Tensor> {
    let one = Scalar::Int(1);
    let mut losses = if log_input {
        op::sub_tensor(&op::exp(input)?, &op::mul_tensor(target, input)?, one)?
    } else {
        let logs = op::log(&op::add_scalar(input, Scalar::from(eps), one)?)?;
        op::sub_tensor(input, &op::mul_tensor(target, &logs)?, one)?
    };
    if full {
        // Stirling's approximation of ln(target!), for targets above 1.
        let scaled = op::mul_scalar(target, Scalar::from(2.0 * std::f64::consts::PI))?;
        let half = op::mul_scalar(&op::log(&scaled)?, Scalar::from(0.5))?;
        let stirling = op::sub_tensor(&op::mul_tensor(target, &op::log(target)?)?, target, one)?;
        let stirling = op::add_tensor(&stirling, &half, one)?;
        let small = op::le_scalar(target, one)?;
        let stirling = op::masked_fill_scalar(&stirling, &small, Scalar::Int(0))?;
        losses = op::add_tensor(&losses, &stirling, one)?;
    }
    Reduction::of(reduction).apply(losses)
}
