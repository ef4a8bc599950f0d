//! Second derivatives of activation functions: the gradient with respect to the input of the
//! first derivative.

use crate::formulas::any::{keep_where, zero_where};
use corten_core::{Result, Scalar, ensure};
use corten_ops::any::activation;
use corten_ops::{Tensor, op};
use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

/// Of `elu_backward`, with respect to the input or the result it was given.
///
/// # Errors
/// Those of the operators.
pub fn elu_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    self_or_result: &Tensor,
) -> Result<Tensor> {
    let (alpha, scale, input_scale) = (alpha.to_f64(), scale.to_f64(), input_scale.to_f64());
    let product = (grad * grad_output)?;
    let bent = if is_result {
        (product * input_scale)?
    } else {
        let slope = alpha * scale * input_scale * input_scale;
        (product * ((self_or_result * input_scale)?.exp()? * slope)?)?
    };
    zero_where(&bent, &self_or_result.gt_scalar(0)?)
}

/// The values of `f`, which would lose most digits of half precision between its steps.
fn in_single(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let dtype = x.dtype();
    if dtype.opmath() == dtype {
        return f(x);
    }
    let values = f(&op::to_dtype(x, dtype.opmath(), false, false, None)?)?;
    op::to_dtype(&values, dtype, false, false, None)
}

/// Of `silu_backward`.
///
/// # Errors
/// Those of the operators.
pub fn silu_double_backward(grad: &Tensor, grad_output: &Tensor, self_: &Tensor) -> Result<Tensor> {
    // y' = s (1 + x (1 - s)); y'' = s (1 - s) (2 + x (1 - 2 s)).
    let s = self_.sigmoid()?;
    let rest = (1.0_f64 - &s)?;
    let inner = (((1.0_f64 - (&s * 2.0_f64)?)? * self_)? + 2.0_f64)?;
    (grad * grad_output)? * ((&s * &rest)? * inner)?
}

/// Of `mish_backward`.
///
/// # Errors
/// Those of the operators.
pub fn mish_double_backward(grad: &Tensor, grad_output: &Tensor, self_: &Tensor) -> Result<Tensor> {
    // With t = tanh(softplus x), s = sigmoid x, d = 1 - t²: y' = t + x s d and
    // y'' = s d (2 + x (1 - s) - 2 x s t).
    let curvature = in_single(self_, |x| {
        let s = x.sigmoid()?;
        let t = op::softplus(x, Scalar::Int(1), Scalar::Int(20))?.tanh()?;
        let d = (1.0_f64 - (&t * &t)?)?;
        let twice = ((&s * &t)? * 2.0_f64)?;
        let inner = ((((1.0_f64 - &s)? - twice)? * x)? + 2.0_f64)?;
        (&s * &d)? * inner
    })?;
    (grad * grad_output)? * curvature
}

/// Of `gelu_backward`.
///
/// # Errors
/// Those of the operators.
pub fn gelu_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    self_: &Tensor,
    approximate: &str,
) -> Result<Tensor> {
    let product = (grad * grad_output)?;
    if approximate == "tanh" {
        return product * in_single(self_, gelu_tanh_curvature)?;
    }
    product * in_single(self_, gelu_curvature)?
}

/// y'' = φ(x) (2 - x²).
fn gelu_curvature(x: &Tensor) -> Result<Tensor> {
    let square = (x * x)?;
    let density = (&square * -0.5_f64)?.exp()?;
    let density = (density * (0.5 * FRAC_2_SQRT_PI / SQRT_2))?;
    density * (2.0_f64 - square)?
}

/// With u = k (x + c x³) and t = tanh u: y = ½ x (1 + t), so
/// y'' = (1 - t²) u' + ½ x (1 - t²) (u'' - 2 t u'²).
fn gelu_tanh_curvature(x: &Tensor) -> Result<Tensor> {
    let k = FRAC_2_SQRT_PI / SQRT_2;
    let c = 0.044715;
    let square = (x * x)?;
    let u = ((x + ((x * &square)? * c)?)? * k)?;
    let first = ((&square * (3.0 * c * k))? + k)?;
    let second = (x * (6.0 * c * k))?;
    let t = u.tanh()?;
    let flat = (1.0_f64 - (&t * &t)?)?;
    let bend = (second - ((&t * 2.0_f64)? * (&first * &first)?)?)?;
    &flat * (&first + ((x * 0.5_f64)? * bend)?)?
}

/// Of `softplus_backward`; `product` is the product of both gradients.
///
/// # Errors
/// Those of the operators.
pub fn softplus_double_backward(
    product: &Tensor,
    self_: &Tensor,
    beta: Scalar,
    threshold: Scalar,
) -> Result<Tensor> {
    let beta = beta.to_f64();
    let scaled = (self_ * beta)?;
    let s = scaled.sigmoid()?;
    let curved = (product * ((&s * (1.0_f64 - &s)?)? * beta)?)?;
    zero_where(&curved, &op::gt_scalar(&scaled, threshold)?)
}

/// Of `log_sigmoid_backward`; `product` is the product of both gradients.
///
/// # Errors
/// Those of the operators.
pub fn log_sigmoid_double_backward(product: &Tensor, self_: &Tensor) -> Result<Tensor> {
    let s = self_.sigmoid()?;
    product * (-((&s * (1.0_f64 - &s)?)?))?
}

/// Of `hardswish_backward`; `product` is the product of both gradients.
///
/// # Errors
/// Those of the operators.
pub fn hardswish_double_backward(product: &Tensor, self_: &Tensor) -> Result<Tensor> {
    let curved = self_.gt_scalar(-3)?.logical_and(&self_.lt_scalar(3)?)?;
    keep_where(&(product / 3.0_f64)?, &curved)
}

/// `1` above zero, `e^(x/α)` below.
///
/// # Errors
/// Those of the operators.
pub fn celu_backward(grad: &Tensor, self_: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let one = Scalar::Float(1.0);
    let inverse = Scalar::Float(1.0 / alpha.to_f64());
    op::elu_backward(grad, alpha, one, inverse, false, self_)
}

/// The gradient of `elu` from its result, which takes the place of the argument in place.
///
/// # Errors
/// `Runtime` where the result does not tell the argument, and those of the operators.
pub fn elu_result_backward(
    grad: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    result: &Tensor,
) -> Result<Tensor> {
    ensure!(
        alpha.to_f64() >= 0.0,
        Runtime,
        "In-place elu backward calculation is triggered with a negative slope which is not \
         supported. This is caused by calling in-place forward function with a negative slope, \
         please call out-of-place version instead."
    );
    op::elu_backward(grad, alpha, scale, input_scale, true, result)
}

/// The gradient of `leaky_relu` from its result, which takes the place of the argument in place.
///
/// # Errors
/// `Runtime` where the result does not tell the argument, and those of the operators.
pub fn leaky_relu_result_backward(
    grad: &Tensor,
    result: &Tensor,
    negative_slope: Scalar,
) -> Result<Tensor> {
    ensure!(
        negative_slope.to_f64() >= 0.0,
        Runtime,
        "In-place leakyReLu backward calculation is triggered with a negative slope which is not \
         supported. This is caused by calling in-place forward function with a negative slope, \
         please call out-of-place version instead. File an issue at \
         https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu \
         backward calculation with negative slope"
    );
    op::leaky_relu_backward(grad, result, negative_slope, true)
}

/// The gradient of `rrelu_with_noise` from its result, which takes the place of the argument in
/// place.
///
/// # Errors
/// As for [`leaky_relu_result_backward`], where nothing was drawn.
pub fn rrelu_with_noise_result_backward(
    grad: &Tensor,
    result: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
) -> Result<Tensor> {
    if !activation::rrelu_uses_noise(lower, upper, training) {
        return leaky_relu_result_backward(grad, result, activation::rrelu_mean(lower, upper));
    }
    op::rrelu_with_noise_backward(grad, result, noise, lower, upper, training, true)
}
