//! Gradients of losses and of their gradients.

use corten_core::{Result, Scalar};
use corten_ops::{Tensor, op};

const ONE: Scalar = Scalar::Int(1);

/// The factor of each element's gradient: one, or one part of a mean.
fn share(reduction: i64, numel: i64) -> f64 {
    if reduction == 1 { 1.0 / numel as f64 } else { 1.0 }
}

/// Minus the weight of each target, divided by the sum of weights for a mean.
///
/// # Errors
/// Those of the operators.
pub fn nll_loss_grad(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    op::nll_loss_backward(grad, self_, target, weight, reduction, ignore_index, total_weight)
}

/// [`nll_loss_grad`] for images.
///
/// # Errors
/// Those of the operators.
pub fn nll_loss2d_grad(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    op::nll_loss2d_backward(grad, self_, target, weight, reduction, ignore_index, total_weight)
}

/// Gradients of a function of `self - target` times `grad_output`: its value is again the
/// gradient of the loss, its slope has opposite signs for the two.
fn of_difference(
    needs: &[bool],
    first: impl FnOnce() -> Result<Tensor>,
    second: impl FnOnce() -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let mut out = vec![Tensor::undefined(); 3];
    if needs[0] {
        out[0] = first()?;
    }
    if needs[1] || needs[2] {
        let slope = second()?;
        if needs[2] {
            out[2] = op::neg(&slope)?;
        }
        out[1] = slope;
    }
    Ok(out)
}

/// Gradients of `mse_loss_backward`.
///
/// # Errors
/// Those of the operators.
pub fn mse_loss_double_grads(
    needs: &[bool],
    grad: &Tensor,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Vec<Tensor>> {
    of_difference(
        needs,
        || op::mse_loss_backward(grad, self_, target, reduction),
        || (grad * grad_output)? * (2.0 * share(reduction, grad.numel())),
    )
}

/// Gradients of `smooth_l1_loss_backward`.
///
/// # Errors
/// Those of the operators.
pub fn smooth_l1_loss_double_grads(
    needs: &[bool],
    grad: &Tensor,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Vec<Tensor>> {
    of_difference(
        needs,
        || op::smooth_l1_loss_backward(grad, self_, target, reduction, beta),
        || {
            let factor = if beta == 0.0 { 0.0 } else { share(reduction, grad.numel()) / beta };
            inside(&((grad * grad_output)? * factor)?, self_, target, beta)
        },
    )
}

/// Gradients of `huber_loss_backward`.
///
/// # Errors
/// Those of the operators.
pub fn huber_loss_double_grads(
    needs: &[bool],
    grad: &Tensor,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Vec<Tensor>> {
    of_difference(
        needs,
        || op::huber_loss_backward(grad, self_, target, reduction, delta),
        || {
            let factor = share(reduction, grad.numel());
            inside(&((grad * grad_output)? * factor)?, self_, target, delta)
        },
    )
}

/// The values where the difference is within the bound, else zero.
fn inside(values: &Tensor, self_: &Tensor, target: &Tensor, bound: f64) -> Result<Tensor> {
    let distance = (self_ - target)?.abs()?;
    let outside = op::ge_scalar(&distance, Scalar::from(bound))?;
    op::masked_fill_scalar(values, &outside, Scalar::Int(0))
}

/// Gradients of `soft_margin_loss_backward` with respect to the gradient and the input.
///
/// # Errors
/// Those of the operators.
pub fn soft_margin_loss_double_grads(
    needs: &[bool],
    grad: &Tensor,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Vec<Tensor>> {
    let mut out = vec![Tensor::undefined(); 2];
    if needs[0] {
        out[0] = op::soft_margin_loss_backward(grad, self_, target, reduction)?;
    }
    if needs[1] {
        // The slope of -t s(-t x) is t^2 s(t x) s(-t x).
        // 1 - s(t x) would be 0 where s(t x) rounds to 1.
        let margin = (target * self_)?;
        let slopes = (op::sigmoid(&margin)? * op::sigmoid(&op::neg(&margin)?)?)?;
        let curvature = (slopes * (target * target)?)?;
        out[1] = ((curvature * grad)? * (grad_output * share(reduction, grad.numel()))?)?;
    }
    Ok(out)
}

fn weighted(values: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    match weight {
        Some(weight) => values * weight,
        None => Ok(values),
    }
}

/// $\ln(1 - x) - \ln x$, each logarithm bounded below by -100.
///
/// # Errors
/// Those of the operators.
pub fn binary_cross_entropy_target_grad(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let bounded = |logs: Tensor| op::clamp_min(&logs, Scalar::from(-100.0));
    let odds = (bounded(op::log1p(&op::neg(self_)?)?)? - bounded(op::log(self_)?)?)?;
    let grad = (odds * (grad * share(reduction, target.numel()))?)?;
    weighted(grad, weight)
}

/// Gradients of `binary_cross_entropy_backward` with respect to the gradient, the probabilities
/// and the targets.
///
/// # Errors
/// Those of the operators.
pub fn binary_cross_entropy_double_grads(
    needs: &[bool],
    grad: &Tensor,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Vec<Tensor>> {
    let mut out = vec![Tensor::undefined(); 3];
    if needs[0] {
        out[0] = op::binary_cross_entropy_backward(grad, self_, target, weight, reduction)?;
    }
    let complement = op::rsub_scalar(self_, ONE, ONE)?;
    let variance = || op::clamp_min(&(self_ * &complement)?, Scalar::from(1e-12));
    let factor = || weighted(((grad * grad_output)? * share(reduction, grad.numel()))?, weight);
    if needs[1] {
        // (x^2 - 2 x t + t) / (x (1 - x))^2
        let doubled = op::mul_scalar(&op::mul_tensor(self_, target)?, Scalar::from(2.0))?;
        let above = op::sub_tensor(&op::mul_tensor(self_, self_)?, &doubled, ONE)?;
        let above = op::add_tensor(&above, target, ONE)?;
        let low = op::add_scalar(self_, Scalar::from(1e-12), ONE)?;
        let high = op::add_scalar(&complement, Scalar::from(1e-12), ONE)?;
        let below = ((&low * &low)? * (&high * &high)?)?;
        out[1] = ((above / below)? * factor()?)?;
    }
    if needs[2] {
        out[2] = op::neg(&(factor()? / variance()?)?)?;
    }
    Ok(out)
}

/// $\sigma(x) - t$, with the weight of positive targets.
///
/// # Errors
/// Those of the operators.
pub fn binary_cross_entropy_with_logits_grad(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let sigmoid = op::sigmoid(self_)?;
    let slope = match pos_weight {
        Some(pos_weight) => {
            let positive = (pos_weight * target)?;
            let total = op::add_scalar(&(&positive - target)?, ONE, ONE)?;
            ((total * sigmoid)? - positive)?
        }
        None => (sigmoid - target)?,
    };
    let slope = weighted(slope, weight)?;
    let factor = share(reduction, slope.numel());
    slope * (grad * factor)?
}

/// $-x$, or with a weight of positive targets $\ln\sigma(-x) - w \ln\sigma(x)$.
///
/// # Errors
/// Those of the operators.
pub fn binary_cross_entropy_with_logits_target_grad(
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let slope = match pos_weight {
        Some(pos_weight) => {
            let negative = op::neg(self_)?;
            (softplus(&negative)? * pos_weight)? - softplus(self_)?
        }
        None => op::neg(self_),
    }?;
    let slope = weighted((slope + op::zeros_like(target, None, None, None, None, None)?)?, weight)?;
    let factor = share(reduction, slope.numel());
    slope * (grad * factor)?
}

/// $\ln(1 + e^x)$ for any size of $x$.
fn softplus(x: &Tensor) -> Result<Tensor> {
    let tail = op::log1p(&op::exp(&op::neg(&op::abs(x)?)?)?)?;
    tail + op::clamp_min(x, Scalar::Int(0))?
}

/// The gradient of `multilabel_margin_loss_backward` with respect to `grad_output`, in which it is
/// linear.
///
/// # Errors
/// Those of the operators.
pub fn multilabel_margin_loss_grads_sum(
    grad: &Tensor,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    is_target: &Tensor,
) -> Result<Tensor> {
    let ones = op::ones_like(grad_output, None, None, None, None, None)?;
    let slopes = op::multilabel_margin_loss_backward(&ones, self_, target, reduction, is_target)?;
    let shares = (grad * slopes)?;
    let per_sample = reduction == 0 && self_.dim() == 2;
    let sums = match per_sample {
        true => op::sum_dim_intlist(&shares, Some(&[1]), false, None)?,
        false => op::sum(&shares, None)?,
    };
    op::reshape(&sums, &grad_output.sizes())
}
