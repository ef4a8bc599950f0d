//! Activation functions with variants that are chosen by name or have a second result.

use super::pointwise::{expressions, finished};
use crate::pointwise::Expression;
use corten_core::{Result, Scalar};
use corten_ops::Tensor;
use corten_ops::meta::Domain;
use corten_ops::meta::elementwise::{
    check_softshrink, gelu_by_tanh, log_sigmoid_forward as shapes, plan_activation,
};

expressions! {
    GELU = "Gelu", "gelu", 1, Float;
    GELU_TANH = "GeluTanh", "gelu", 1, Float;
    GELU_BACKWARD = "GeluBackward", "gelu_backward", 2, Float;
    GELU_TANH_BACKWARD = "GeluTanhBackward", "gelu_backward", 2, Float;
    SOFTSHRINK = "Softshrink", "softshrink", 1, Float;
    LOG_SIGMOID = "LogSigmoid", "log_sigmoid", 1, Float;
    LOG_SIGMOID_BACKWARD = "LogSigmoidBackward", "log_sigmoid_backward", 2, Float;
    PRELU_TO_SELF = "PreluToSelf", "prelu_backward", 3, Float;
    PRELU_TO_WEIGHT = "PreluToWeight", "prelu_backward", 2, Float;
}

fn softshrink_into(self_: &Tensor, lambd: Scalar, out: Option<&Tensor>) -> Result<Tensor> {
    check_softshrink(self_, lambd)?;
    finished(plan_activation("softshrink", &[self_], out)?, &SOFTSHRINK, &[lambd])
}

/// `softshrink`.
///
/// # Errors
/// Those of the plan; for the functions below likewise.
pub fn softshrink(self_: &Tensor, lambd: Scalar) -> Result<Tensor> {
    softshrink_into(self_, lambd, None)
}

/// [`softshrink`] into `out`.
pub fn softshrink_out(self_: &Tensor, lambd: Scalar, out: &Tensor) -> Result<Tensor> {
    softshrink_into(self_, lambd, Some(out))
}

fn gelu_into(self_: &Tensor, approximate: &str, out: Option<&Tensor>) -> Result<Tensor> {
    let expression = if gelu_by_tanh(approximate)? { &GELU_TANH } else { &GELU };
    finished(plan_activation("gelu", &[self_], out)?, expression, &[])
}

/// `gelu`.
pub fn gelu(self_: &Tensor, approximate: &str) -> Result<Tensor> {
    gelu_into(self_, approximate, None)
}

/// As [`gelu`], in place.
pub fn gelu_(self_: &Tensor, approximate: &str) -> Result<Tensor> {
    gelu_into(self_, approximate, Some(self_))
}

/// As [`gelu`], into `out`.
pub fn gelu_out(self_: &Tensor, approximate: &str, out: &Tensor) -> Result<Tensor> {
    gelu_into(self_, approximate, Some(out))
}

fn gelu_backward_into(
    grad_output: &Tensor,
    self_: &Tensor,
    approximate: &str,
    out: Option<&Tensor>,
) -> Result<Tensor> {
    let expression = if gelu_by_tanh(approximate)? { &GELU_TANH_BACKWARD } else { &GELU_BACKWARD };
    finished(plan_activation("gelu_backward", &[grad_output, self_], out)?, expression, &[])
}

/// `gelu_backward`.
pub fn gelu_backward(grad_output: &Tensor, self_: &Tensor, approximate: &str) -> Result<Tensor> {
    gelu_backward_into(grad_output, self_, approximate, None)
}

/// As [`gelu_backward`], into `grad_input`.
pub fn gelu_backward_out(
    grad_output: &Tensor,
    self_: &Tensor,
    approximate: &str,
    grad_input: &Tensor,
) -> Result<Tensor> {
    gelu_backward_into(grad_output, self_, approximate, Some(grad_input))
}

/// `log_sigmoid` and an empty buffer: the gradient needs the input only.
pub fn log_sigmoid_forward(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let (out, buffer) = shapes(self_)?;
    let iter = plan_activation("log_sigmoid", &[self_], Some(&out))?;
    Ok((finished(iter, &LOG_SIGMOID, &[])?, buffer))
}

/// `log_sigmoid_backward`.
pub fn log_sigmoid_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    _buffer: &Tensor,
) -> Result<Tensor> {
    let iter = plan_activation("log_sigmoid_backward", &[grad_output, self_], None)?;
    finished(iter, &LOG_SIGMOID_BACKWARD, &[])
}

/// The gradients of `_prelu_kernel` with the shape of the result.
pub fn prelu_kernel_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let to_self = plan_activation("prelu_backward", &[grad_output, self_, weight], None)?;
    let to_weight = plan_activation("prelu_backward", &[grad_output, self_], None)?;
    Ok((finished(to_self, &PRELU_TO_SELF, &[])?, finished(to_weight, &PRELU_TO_WEIGHT, &[])?))
}
