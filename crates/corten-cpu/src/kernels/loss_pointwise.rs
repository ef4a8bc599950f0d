//! Losses of differences, and their gradients, in one pass over the operands.

use super::pointwise::{computed, operators};
use super::support::defined;
use crate::pointwise::{Pointwise2, Pointwise3, pointwise2, pointwise3};
use crate::vec::expr::Expr;
use corten_core::geometry::infer_broadcast;
use corten_core::{MemoryFormat, Result, Scalar, ensure};
use corten_ops::composite::support::Reduction;
use corten_ops::meta::Domain;
use corten_ops::meta::elementwise::plan_activation;
use corten_ops::{IterKernel, Tensor, op};

operators! {
    SquaredDifference: Pointwise2 Float |x, t; _s| {
        let difference = x - t;
        difference * difference
    };
    AbsoluteDifference: Pointwise2 Float |x, t; _s| (x - t).abs();
    /// Half a square within the bound, which goes on as a straight line.
    Huber: Pointwise2 Float |x, t; s| bent(x - t, s[0]);
    SmoothL1: Pointwise2 Float |x, t; s| bent(x - t, s[0]) / s[0];
    /// (1 - t) x + ln(1 + e^-|x|) + max(-x, 0).
    CrossEntropyOfLogits: Pointwise2 Float |x, t; _s| {
        let tail = (-x.abs()).exp().log1p() + (-x).max(E::lit(0.0));
        (E::lit(1.0) - t) * x + tail
    };
    /// Finite at 0 and 1.
    CrossEntropyGrad: Pointwise3 Float |grad, x, t; s| {
        let variance = ((E::lit(1.0) - x) * x).max(E::lit(1e-12));
        (x - t) / variance * s[0] * grad
    };
    SquaredDifferenceGrad: Pointwise3 Float |grad, x, t; s| (x - t) * s[0] * grad;
    AbsoluteDifferenceGrad: Pointwise3 Float |grad, x, t; s| (x - t).sign() * s[0] * grad;
    /// The difference within the bound, times a factor.
    BoundedDifferenceGrad: Pointwise3 Float |grad, x, t; s| bounded(x - t, s[1]) * s[0] * grad;
}

#[inline(always)]
fn bounded<E: Expr>(difference: E, bound: E) -> E {
    difference.max(-bound).min(bound)
}

/// $c (d - c / 2)$ with $c$ the difference $d$ within the bound, which is the same on both sides
/// of zero.
#[inline(always)]
fn bent<E: Expr>(difference: E, bound: E) -> E {
    let inner = bounded(difference, bound);
    inner * (difference - inner * E::lit(0.5))
}

fn loss(
    name: &'static str,
    operands: [&Tensor; 2],
    reduction: i64,
    kernel: IterKernel,
    scalars: &[Scalar],
) -> Result<Tensor> {
    let losses = computed(plan_activation(name, &operands, None)?, kernel, scalars)?;
    Reduction::of(reduction).apply(losses)
}

/// The gradient, contiguous whatever the operands' layout; `kernel` takes the factor first.
fn gradient(
    name: &'static str,
    operands: [&Tensor; 3],
    reduction: i64,
    kernel: IterKernel,
    (factor, bound): (f64, f64),
) -> Result<Tensor> {
    let [grad, self_, target] = operands;
    let shape = infer_broadcast(&self_.sizes(), &target.sizes())?;
    let share = Reduction::of(reduction).share(shape.iter().product());
    let scalars = [Scalar::from(factor * share), Scalar::from(bound)];
    let plan = plan_activation(name, &[grad, self_, target], None)?;
    op::contiguous(&computed(plan, kernel, &scalars)?, MemoryFormat::Contiguous)
}

/// Squared differences.
///
/// # Errors
/// `NotImplemented` for integers, `Runtime` when shapes do not broadcast.
pub fn mse_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    loss("mse", [self_, target], reduction, pointwise2::<SquaredDifference>, &[])
}

/// `2 (self - target) grad_output`, divided by the number of elements for a mean.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn mse_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    let operands = [grad_output, self_, target];
    let kernel = pointwise3::<SquaredDifferenceGrad>;
    gradient("mse_backward", operands, reduction, kernel, (2.0, 0.0))
}

/// Binary cross entropy of the sigmoid of `self`: without weights in one pass, otherwise as on other
/// devices.
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
    let (weight, pos_weight) = (defined(weight), defined(pos_weight));
    if weight.is_some() || pos_weight.is_some() || !are_floats(&[self_, target]) {
        let elsewhere = corten_ops::any::loss::binary_cross_entropy_with_logits;
        return elsewhere(self_, target, weight, pos_weight, reduction);
    }
    let operands = [self_, target];
    let kernel = pointwise2::<CrossEntropyOfLogits>;
    loss("binary_cross_entropy_with_logits", operands, reduction, kernel, &[])
}

/// The gradient of binary cross entropy with respect to the probabilities: without weights in one
/// pass, otherwise as on other devices.
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
    let (operands, weight) = ([grad_output, self_, target], defined(weight));
    let sizes = self_.sizes();
    let fits =
        |other: &Tensor| matches!(infer_broadcast(&other.sizes(), &sizes), Ok(all) if all == sizes);
    if weight.is_some() || !are_floats(&operands) || !fits(grad_output) || !fits(target) {
        let elsewhere = corten_ops::any::loss::binary_cross_entropy_backward;
        return elsewhere(grad_output, self_, target, weight, reduction);
    }
    let share = Reduction::of(reduction).share(self_.numel());
    // Laid out as the probabilities are.
    let out = op::empty_like(self_, None, None, None, None, None)?;
    let plan = plan_activation("binary_cross_entropy_backward", &operands, Some(&out))?;
    computed(plan, pointwise3::<CrossEntropyGrad>, &[Scalar::from(share)])
}

/// Whether tensors are of one floating-point dtype.
fn are_floats(tensors: &[&Tensor]) -> bool {
    let dtype = tensors[0].dtype();
    dtype.is_floating_point() && tensors.iter().all(|tensor| tensor.dtype() == dtype)
}

/// Squares of small differences, absolute values of large ones.
///
/// # Errors
/// `Runtime` for a negative `beta` or shapes that do not broadcast.
pub fn smooth_l1_loss(
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    ensure!(beta >= 0.0, Runtime, "smooth_l1_loss does not support negative values for beta.");
    let kernel: IterKernel = match beta == 0.0 {
        true => pointwise2::<AbsoluteDifference>,
        false => pointwise2::<SmoothL1>,
    };
    loss("smooth_l1", [self_, target], reduction, kernel, &[Scalar::from(beta)])
}

/// The gradient of [`smooth_l1_loss`].
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn smooth_l1_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    let (kernel, factor): (IterKernel, f64) = match beta == 0.0 {
        true => (pointwise3::<AbsoluteDifferenceGrad>, 1.0),
        false => (pointwise3::<BoundedDifferenceGrad>, 1.0 / beta),
    };
    let operands = [grad_output, self_, target];
    gradient("smooth_l1_backward", operands, reduction, kernel, (factor, beta))
}

/// Squares of small differences, multiples of the absolute values of large ones; in the dtype of
/// `self`, whatever that of the target.
///
/// # Errors
/// `Runtime` for a `delta` that is not positive or shapes that do not broadcast.
pub fn huber_loss(self_: &Tensor, target: &Tensor, reduction: i64, delta: f64) -> Result<Tensor> {
    ensure!(delta > 0.0, Runtime, "huber_loss does not support non-positive values for delta.");
    let scalars = [Scalar::from(delta)];
    let plan = plan_activation("huber", &[self_, target], None)?;
    let losses = computed(plan, pointwise2::<Huber>, &scalars)?;
    let fits = self_.dtype().is_floating_point();
    let losses =
        if fits { op::to_dtype(&losses, self_.dtype(), false, false, None)? } else { losses };
    Reduction::of(reduction).apply(losses)
}

/// The gradient of [`huber_loss`].
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn huber_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    let kernel = pointwise3::<BoundedDifferenceGrad>;
    let operands = [grad_output, self_, target];
    gradient("huber_backward", operands, reduction, kernel, (1.0, delta))
}
