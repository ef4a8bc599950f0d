//! Activation functions with variants that are chosen by name or have a second result.

use super::pointwise::{computed, finished, operators};
use crate::pointwise::{Pointwise1, Pointwise2, Pointwise3, pointwise1, pointwise2, pointwise3};
use crate::vec::expr::Expr;
use corten_core::{Result, Scalar};
use corten_ops::meta::Domain;
use corten_ops::meta::elementwise::{
    check_softshrink, gelu_by_tanh, log_sigmoid_forward as shapes, plan_activation,
};
use corten_ops::{IterKernel, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

/// √(2/π), the slope in the approximation of Φ by tanh.
const BETA: f64 = SQRT_2 * FRAC_2_SQRT_PI * 0.5;
/// Its cubic coefficient.
const KAPPA: f64 = 0.044715;

operators! {
    /// x Φ(x).
    Gelu: Pointwise1 Float |x; _s| x * x.normal_cdf();
    GeluTanh: Pointwise1 Float |x; _s| {
        let inner = E::lit(BETA) * (x + E::lit(KAPPA) * x * x * x);
        E::lit(0.5) * x * (E::lit(1.0) + inner.tanh())
    };
    /// Φ(x) + x φ(x).
    GeluBackward: Pointwise2 Float |grad, x; _s| {
        let [cdf, bell] = x.normal();
        let pdf = bell * E::lit(FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5);
        grad * (cdf + x * pdf)
    };
    GeluTanhBackward: Pointwise2 Float |grad, x; _s| {
        let one = E::lit(1.0);
        let square = x * x;
        let inner = E::lit(BETA) * (x + E::lit(KAPPA) * square * x);
        let tanh = inner.tanh();
        let slope = E::lit(BETA) * (one + E::lit(3.0 * KAPPA) * square);
        let left = E::lit(0.5) * (one + tanh);
        let right = E::lit(0.5) * x * (one - tanh * tanh) * slope;
        grad * (left + right)
    };
    /// x moved towards zero by λ, and zero where it is closer than that.
    Softshrink: Pointwise1 Float |x; s| {
        let inner = E::select(x.lt(-s[0]), x + s[0], x * E::lit(0.0));
        E::select(x.gt(s[0]), x - s[0], inner)
    };
    /// log σ(x), without overflow on the way.
    LogSigmoid: Pointwise1 Float |x; _s| {
        x.min(E::lit(0.0)) - (-x.abs()).exp().log1p()
    };
    /// 1 - σ(x).
    LogSigmoidBackward: Pointwise2 Float |grad, x; _s| grad / (E::lit(1.0) + x.exp());
    PreluToSelf: Pointwise3 Float |grad, x, weight; _s| {
        E::select(x.gt(E::lit(0.0)), grad, weight * grad)
    };
    PreluToWeight: Pointwise2 Float |grad, x; _s| {
        E::select(x.gt(E::lit(0.0)), E::lit(0.0), x * grad)
    };
}

fn softshrink_into(self_: &Tensor, lambd: Scalar, out: Option<&Tensor>) -> Result<Tensor> {
    check_softshrink(self_, lambd)?;
    finished(plan_activation("softshrink", &[self_], out)?, pointwise1::<Softshrink>, &[lambd])
}

/// `softshrink`.
///
/// # Errors
/// `Runtime` for a negative λ and one beyond the dtype's range, and those of the plan.
pub fn softshrink(self_: &Tensor, lambd: Scalar) -> Result<Tensor> {
    softshrink_into(self_, lambd, None)
}

/// [`softshrink`] into `out`.
///
/// # Errors
/// As for [`softshrink`].
pub fn softshrink_out(self_: &Tensor, lambd: Scalar, out: &Tensor) -> Result<Tensor> {
    softshrink_into(self_, lambd, Some(out))
}

fn gelu_into(self_: &Tensor, approximate: &str, out: Option<&Tensor>) -> Result<Tensor> {
    let kernel: IterKernel =
        if gelu_by_tanh(approximate)? { pointwise1::<GeluTanh> } else { pointwise1::<Gelu> };
    finished(plan_activation("gelu", &[self_], out)?, kernel, &[])
}

/// `gelu`.
///
/// # Errors
/// Those of the plan; for the functions below likewise.
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
    let kernel: IterKernel = match gelu_by_tanh(approximate)? {
        true => pointwise2::<GeluTanhBackward>,
        false => pointwise2::<GeluBackward>,
    };
    finished(plan_activation("gelu_backward", &[grad_output, self_], out)?, kernel, &[])
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
    Ok((finished(iter, pointwise1::<LogSigmoid>, &[])?, buffer))
}

/// `log_sigmoid_backward`.
pub fn log_sigmoid_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    _buffer: &Tensor,
) -> Result<Tensor> {
    let iter = plan_activation("log_sigmoid_backward", &[grad_output, self_], None)?;
    finished(iter, pointwise2::<LogSigmoidBackward>, &[])
}

/// The gradients of `_prelu_kernel` with the shape of the result.
pub fn prelu_kernel_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let to_self = plan_activation("prelu_backward", &[grad_output, self_, weight], None)?;
    let to_weight = plan_activation("prelu_backward", &[grad_output, self_], None)?;
    Ok((
        computed(to_self, pointwise3::<PreluToSelf>, &[])?,
        computed(to_weight, pointwise2::<PreluToWeight>, &[])?,
    ))
}
