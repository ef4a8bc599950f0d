//! Losses of probabilities with a derivative of their own, element by element.

use crate::composite::support::{Reduction, defined};
use crate::{Tensor, op};
use corten_core::geometry::infer_broadcast;
use corten_core::{DType, Result, Scalar, can_cast, ensure};

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
        let product = op::mul_tensor(&op::add_scalar(&factor, ONE, ONE)?, &tail)?;
        tail = kept(product, tail.dtype())?;
    }
    // PyTorch goes on in the memory of 1 - t, so that the losses have the dtype of the targets.
    let complement = op::rsub_scalar(target, ONE, ONE)?;
    let dtype = complement.dtype();
    let linear = kept(op::mul_tensor(&complement, self_)?, dtype)?;
    let losses = kept(op::add_tensor(&linear, &tail, ONE)?, dtype)?;
    Reduction::of(reduction).apply(kept(weighted(losses, weight)?, dtype)?)
}

/// The negative of targets in the dtype of the input; truth values count as ones and zeros.
fn negative_of(target: &Tensor, dtype: DType) -> Result<Tensor> {
    match target.dtype() {
        DType::Bool => op::neg(&op::to_dtype(target, dtype, false, false, None)?),
        _ => kept(op::neg(target)?, dtype),
    }
}

/// What an operator in place leaves of a result: its dtype is the one of the memory.
fn kept(result: Tensor, dtype: DType) -> Result<Tensor> {
    if result.dtype() == dtype {
        return Ok(result);
    }
    ensure!(
        can_cast(result.dtype(), dtype),
        Runtime,
        "result type {} can't be cast to the desired output type {}",
        result.dtype().type_name(),
        dtype.type_name()
    );
    op::to_dtype(&result, dtype, false, false, None)
}

/// $\ln(1 + e^{-t x})$.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn soft_margin_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    // PyTorch computes in memory of the input's dtype, which the losses therefore have.
    let dtype = self_.dtype();
    let negative = negative_of(target, dtype)?;
    let exponent = kept(op::mul_tensor(self_, &negative)?, dtype)?;
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
    let negative = negative_of(target, self_.dtype())?;
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
