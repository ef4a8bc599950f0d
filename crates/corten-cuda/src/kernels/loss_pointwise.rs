//! Losses of differences, and their gradients, in one pass over the operands.

use crate::pointwise::{Expression, run};
use corten_core::geometry::infer_broadcast;
use corten_core::{MemoryFormat, Result, Scalar, ensure};
use corten_ops::composite::support::Reduction;
use corten_ops::meta::Domain;
use corten_ops::meta::elementwise::plan_activation;
use corten_ops::{Tensor, TensorIterator, op};

/// Expressions over the inputs `x` and the numbers `s`.
const TEXT: &str = "
namespace ct {
template <class E> CT_FN E bounded(E x, E bound) { return min(max(x, -bound), bound); }
template <class E> CT_FN E bent(E x, E bound) {
    E inner = bounded(x, bound);
    return inner * (x - inner * lit<E>(0.5));
}
CT_OPERATOR(SquaredDifference, (x[0] - x[1]) * (x[0] - x[1]))
CT_OPERATOR(AbsoluteDifference, abs(x[0] - x[1]))
CT_OPERATOR(Huber, bent(x[0] - x[1], s[0]))
CT_OPERATOR(SmoothL1, (bent(x[0] - x[1], s[0]) / s[0]))
CT_OPERATOR(SquaredDifferenceGrad, (x[1] - x[2]) * s[0] * x[0])
CT_OPERATOR(AbsoluteDifferenceGrad, sign(x[1] - x[2]) * s[0] * x[0])
CT_OPERATOR(BoundedDifferenceGrad, bounded(x[1] - x[2], s[1]) * s[0] * x[0])
}
";

macro_rules! expressions {
    ($($place:ident $operator:literal $inputs:literal;)+) => {$(
        static $place: Expression = Expression {
            name: $operator,
            operator: $operator,
            text: TEXT,
            inputs: $inputs,
            domain: Domain::Float,
        };
    )+};
}

expressions! {
    SQUARED_DIFFERENCE "SquaredDifference" 2;
    ABSOLUTE_DIFFERENCE "AbsoluteDifference" 2;
    HUBER "Huber" 2;
    SMOOTH_L1 "SmoothL1" 2;
    SQUARED_DIFFERENCE_GRAD "SquaredDifferenceGrad" 3;
    ABSOLUTE_DIFFERENCE_GRAD "AbsoluteDifferenceGrad" 3;
    BOUNDED_DIFFERENCE_GRAD "BoundedDifferenceGrad" 3;
}

/// What a plan computes.
fn computed(
    mut plan: TensorIterator,
    expression: &'static Expression,
    scalars: &[Scalar],
) -> Result<Tensor> {
    run(expression, &mut plan, scalars)?;
    plan.finish()?;
    Ok(plan.into_output(0))
}

fn loss(
    name: &'static str,
    operands: [&Tensor; 2],
    reduction: i64,
    expression: &'static Expression,
    scalars: &[Scalar],
) -> Result<Tensor> {
    let losses = computed(plan_activation(name, &operands, None)?, expression, scalars)?;
    Reduction::of(reduction).apply(losses)
}

/// The gradient, contiguous whatever the operands' layout; expressions take the factor first.
fn gradient(
    name: &'static str,
    operands: [&Tensor; 3],
    reduction: i64,
    expression: &'static Expression,
    (factor, bound): (f64, f64),
) -> Result<Tensor> {
    let [grad, self_, target] = operands;
    let shape = infer_broadcast(&self_.sizes(), &target.sizes())?;
    let share = Reduction::of(reduction).share(shape.iter().product());
    let scalars = [Scalar::from(factor * share), Scalar::from(bound)];
    let plan = plan_activation(name, &[grad, self_, target], None)?;
    op::contiguous(&computed(plan, expression, &scalars)?, MemoryFormat::Contiguous)
}

/// Squared differences.
///
/// # Errors
/// `NotImplemented` for integers, `Runtime` when shapes do not broadcast; for the functions below
/// likewise.
pub fn mse_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    loss("mse", [self_, target], reduction, &SQUARED_DIFFERENCE, &[])
}

/// `2 (self - target) grad_output`, divided by the number of elements for a mean.
pub fn mse_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    let operands = [grad_output, self_, target];
    gradient("mse_backward", operands, reduction, &SQUARED_DIFFERENCE_GRAD, (2.0, 0.0))
}

/// Squares of small differences, absolute values of large ones.
pub fn smooth_l1_loss(
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    ensure!(beta >= 0.0, Runtime, "smooth_l1_loss does not support negative values for beta.");
    let expression = if beta == 0.0 { &ABSOLUTE_DIFFERENCE } else { &SMOOTH_L1 };
    loss("smooth_l1", [self_, target], reduction, expression, &[Scalar::from(beta)])
}

/// The gradient of [`smooth_l1_loss`].
pub fn smooth_l1_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    let (expression, factor) = match beta == 0.0 {
        true => (&ABSOLUTE_DIFFERENCE_GRAD, 1.0),
        false => (&BOUNDED_DIFFERENCE_GRAD, 1.0 / beta),
    };
    let operands = [grad_output, self_, target];
    gradient("smooth_l1_backward", operands, reduction, expression, (factor, beta))
}

/// Squares of small differences, multiples of the absolute values of large ones; in the dtype of
/// `self`, whatever that of the target.
pub fn huber_loss(self_: &Tensor, target: &Tensor, reduction: i64, delta: f64) -> Result<Tensor> {
    ensure!(delta > 0.0, Runtime, "huber_loss does not support non-positive values for delta.");
    let plan = plan_activation("huber", &[self_, target], None)?;
    let losses = computed(plan, &HUBER, &[Scalar::from(delta)])?;
    let losses = match self_.dtype().is_floating_point() {
        true => op::to_dtype(&losses, self_.dtype(), false, false, None)?,
        false => losses,
    };
    Reduction::of(reduction).apply(losses)
}

/// The gradient of [`huber_loss`].
pub fn huber_loss_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    let operands = [grad_output, self_, target];
    gradient("huber_backward", operands, reduction, &BOUNDED_DIFFERENCE_GRAD, (1.0, delta))
}
