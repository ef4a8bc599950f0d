//! Losses as functions; the modules of the same names are [`crate::CrossEntropyLoss`] and its like.

use corten_autograd::no_grad;
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// What becomes of the losses of the samples.
///
/// ```
/// assert_eq!(corten::nn::Reduction::default(), corten::nn::Reduction::Mean);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    /// The operators' number.
    pub fn number(self) -> i64 {
        self as i64
    }

    /// The losses reduced.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn of(self, losses: Tensor) -> Result<Tensor> {
        match self {
            Self::None => Ok(losses),
            Self::Mean => op::mean(&losses, None),
            Self::Sum => op::sum(&losses, None),
        }
    }
}

/// Mean cross entropy of logits with classes or class probabilities.
///
/// # Errors
/// Those of the operator, as in all functions here.
pub fn cross_entropy(logits: &Tensor, target: &Tensor) -> Result<Tensor> {
    op::cross_entropy_loss(logits, target, None, Reduction::Mean.number(), -100, 0.0)
}

/// Minus the log-probability of each target class.
///
/// # Errors
/// Those of the operator.
pub fn nll_loss(log_probs: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    op::nll_loss_nd(log_probs, target, None, reduction.number(), -100)
}

/// `(input - target)²`.
///
/// # Errors
/// Those of the operator.
pub fn mse_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    op::mse_loss(input, target, reduction.number())
}

/// `|input - target|`.
///
/// # Errors
/// Those of the operator.
pub fn l1_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    op::l1_loss(input, target, reduction.number())
}

/// Squared below `beta`, absolute above.
///
/// # Errors
/// Those of the operator.
pub fn smooth_l1_loss(
    input: &Tensor,
    target: &Tensor,
    beta: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    if beta == 0.0 {
        return op::l1_loss(input, target, reduction.number());
    }
    op::smooth_l1_loss(input, target, reduction.number(), beta)
}

/// Cross entropy of `sigmoid(logits)` with targets in [0, 1].
///
/// # Errors
/// Those of the operator.
pub fn binary_cross_entropy_with_logits(
    logits: &Tensor,
    target: &Tensor,
    reduction: Reduction,
) -> Result<Tensor> {
    op::binary_cross_entropy_with_logits(logits, target, None, None, reduction.number())
}

/// Negative log-likelihood of a normal distribution of given variances.
///
/// # Errors
/// `Value` for variances that are negative or of a size that does not fit.
pub fn gaussian_nll_loss(
    input: &Tensor,
    target: &Tensor,
    var: &Tensor,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    let negative = op::any(&op::lt_scalar(var, 0.into())?)?;
    ensure!(!negative.to_element::<bool>()?, Value, "var has negative entry/entries");
    let var = op::clone(&fitting_variance(input, var)?, None)?;
    no_grad(|| op::clamp_min_(&var, eps.into()))?;
    let difference = op::sub_tensor(input, target, 1.into())?;
    let squares = op::pow_tensor_scalar(&difference, 2.into())?;
    let mut losses = ((op::log(&var)? + op::div_tensor(&squares, &var)?)? * 0.5)?;
    if full {
        losses = (losses + 0.5 * (2.0 * std::f64::consts::PI).ln())?;
    }
    reduction.of(losses)
}

/// The variances in a shape that broadcasts against the input's.
fn fitting_variance(input: &Tensor, var: &Tensor) -> Result<Tensor> {
    let (sizes, own) = (input.sizes(), var.sizes());
    if sizes == own {
        return Ok(var.clone());
    }
    let leading = &sizes[..sizes.len().saturating_sub(1)];
    if leading == &own[..] {
        return op::unsqueeze(var, -1);
    }
    let is_one_per_row = own.last() == Some(&1) && leading == &own[..own.len() - 1];
    let different = sizes.iter().zip(own.iter()).filter(|(a, b)| a != b);
    let differs_by_one = sizes.len() == own.len()
        && different.clone().count() == 1
        && different.clone().all(|(_, b)| *b == 1);
    ensure!(is_one_per_row || differs_by_one, Value, "var is of incorrect size");
    Ok(var.clone())
}

/// Kullback–Leibler divergence from log-probabilities, divided by the size of the batch.
///
/// # Errors
/// Those of the operators.
pub fn kl_div_batchmean(input: &Tensor, target: &Tensor, log_target: bool) -> Result<Tensor> {
    let total = op::kl_div(input, target, Reduction::Sum.number(), log_target)?;
    if input.dim() == 0 { Ok(total) } else { total / input.size(0)? }
}

/// Mean over the classes of the logistic loss of each.
///
/// # Errors
/// Those of the operators.
pub fn multilabel_soft_margin_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    let present = op::mul_tensor(target, &op::log_sigmoid(input)?)?;
    let absent = ((1.0 - target)? * op::log_sigmoid(&op::neg(input)?)?)?;
    let mut losses = op::neg(&(present + absent)?)?;
    if let Some(weight) = weight {
        losses = (losses * weight)?;
    }
    let classes = input.size(-1)?;
    let losses = (op::sum_dim_intlist(&losses, Some(&[-1]), false, None)? / classes)?;
    reduction.of(losses)
}

/// `max(0, d(anchor, positive) - d(anchor, negative) + margin)` for any distance.
///
/// # Errors
/// `Value` for a margin that is not positive, `Runtime` for inputs of different ranks.
pub fn triplet_margin_with_distance_loss(
    [anchor, positive, negative]: [&Tensor; 3],
    distance: &dyn Fn(&Tensor, &Tensor) -> Result<Tensor>,
    margin: f64,
    swap: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    ensure!(margin > 0.0, Value, "margin must be greater than 0, got {margin}");
    let ranks = [anchor.dim(), positive.dim(), negative.dim()];
    ensure!(
        ranks[0] == ranks[1] && ranks[1] == ranks[2],
        Runtime,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {}D, positive {}D, and negative {}D inputs",
        ranks[0],
        ranks[1],
        ranks[2]
    );
    let near = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if swap {
        far = op::minimum(&far, &distance(positive, negative)?)?;
    }
    reduction.of(op::clamp_min(&((near + margin)? - far)?, 0.into())?)
}
