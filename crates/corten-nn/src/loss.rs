//! Losses.

use corten_core::Result;
use corten_ops::{Tensor, op};

/// What becomes of the losses of the samples.
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
