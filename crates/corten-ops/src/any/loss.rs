//! Losses of probabilities with a derivative of their own, element by element.

use crate::composite::support::{Reduction, defined};
use crate::{Tensor, op};
use corten_core::geometry::infer_broadcast;
use corten_core::{Result, Scalar};

const ONE: Scalar = Scalar::Int(1);

/// `factor * a * b`, in the memory of `a` where the product fits there.
fn scaled_product(a: Tensor, b: &Tensor, factor: f64) -> Result<Tensor> {
    if !a.dtype().is_floating_point() {
        return op::mul_tensor(&op::mul_scalar(&a, Scalar::from(factor))?, b);
    }
    if factor != 1.0 {
        op::mul__scalar(&a, Scalar::from(factor))?;
    }
    let fits = b.dtype() == a.dtype() && infer_broadcast(&a.sizes(), &b.sizes())? == a.sizes();
    if fits { op::mul__tensor(&a, b) } else { op::mul_tensor(&a, b) }
}

/// The gradient of `binary_cross_entropy` with respect to the probabilities.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn binary_cross_entropy_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    /// Keeps the quotient finite at 0 and 1.
    const EPSILON: f64 = 1e-12;
    let complement = op::rsub_scalar(self_, ONE, ONE)?;
    let variance = op::clamp_min_(&op::mul__tensor(&complement, self_)?, Scalar::from(EPSILON))?;
    let quotient = op::div__tensor(&op::sub_tensor(self_, target, ONE)?, &variance)?;
    let share = Reduction::of(reduction).share(self_.numel());
    let grad = scaled_product(quotient, grad_output, share)?;
    weighted(grad, weight)
}

/// Binary cross entropy of the sigmoid of `self`.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn binary_cross_entropy_with_logits(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    // (1 - t) x + (1 + (w - 1) t) (ln(1 + e^-|x|) + max(-x, 0))
    let negative = op::neg(self_)?;
    let tail = op::log1p(&op::exp(&op::neg(&op::abs(self_)?)?)?)?;
    let mut tail = op::add_tensor(&tail, &op::clamp_min(&negative, Scalar::Int(0))?, ONE)?;
    if let Some(pos_weight) = defined(pos_weight) {
        let factor = op::mul_tensor(&op::sub_scalar(pos_weight, ONE, ONE)?, target)?;
        tail = op::mul_tensor(&op::add_scalar(&factor, ONE, ONE)?, &tail)?;
    }
    let linear = op::mul_tensor(&op::rsub_scalar(target, ONE, ONE)?, self_)?;
    let losses = weighted(op::add_tensor(&linear, &tail, ONE)?, weight)?;
    Reduction::of(reduction).apply(losses)
}

/// $\ln(1 + e^{-t x})$.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn soft_margin_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    let exponent = op::mul_tensor(self_, &op::neg(target)?)?;
    Reduction::of(reduction).apply(op::log1p(&op::exp(&exponent)?)?)
}

/// The gradient of [`soft_margin_loss`].
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn soft_margin_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    let negative = op::neg(target)?;
    let slope = op::mul_tensor(&negative, &op::sigmoid(&op::mul_tensor(&negative, self_)?)?)?;
    let share = Reduction::of(reduction).share(self_.numel());
    scaled_product(slope, grad_output, share)
}

fn weighted(values: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    match defined(weight) {
        Some(weight) => op::mul_tensor(&values, weight),
        None => Ok(values),
    }
}
