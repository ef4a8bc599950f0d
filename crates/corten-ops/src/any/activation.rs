//! Activations with a gradient of their own.

use crate::composite::support::expect_dtype;
use crate::{Tensor, op};
use corten_core::{DType, Generator, Result, Scalar, ensure};

/// The first half of the elements along a dimension times the sigmoid of the second half.
///
/// # Errors
/// `Runtime` for an odd number of elements, `NotImplemented` for dtypes other than floating point.
pub fn glu(self_: &Tensor, dim: i64) -> Result<Tensor> {
    crate::composite::activation::glu(self_, dim)
}

/// `rrelu` that writes the slopes to `noise`.
///
/// # Errors
/// `Runtime` for noise of another shape or dtype.
pub fn rrelu_with_noise(
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    match drawn(self_, noise, (lower, upper), training, generator)? {
        Some(slopes) => op::mul_tensor(self_, &slopes),
        None => op::leaky_relu(self_, rrelu_mean(lower, upper)),
    }
}

/// [`rrelu_with_noise`] in place.
///
/// # Errors
/// As for [`rrelu_with_noise`].
pub fn rrelu_with_noise_(
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    match drawn(self_, noise, (lower, upper), training, generator)? {
        Some(slopes) => op::mul__tensor(self_, &slopes),
        None => op::leaky_relu_(self_, rrelu_mean(lower, upper)),
    }
}

/// The slope of `rrelu` without training.
pub fn rrelu_mean(lower: Scalar, upper: Scalar) -> Scalar {
    Scalar::Float((lower.to_f64() + upper.to_f64()) / 2.0)
}

/// Whether the gradient of `rrelu` is made of the slopes that were drawn: bounds that are nearly the
/// same are taken for their mean.
pub fn rrelu_uses_noise(lower: Scalar, upper: Scalar, training: bool) -> bool {
    training && upper.to_f64() - lower.to_f64() > 1e-6
}

/// The slopes of training, also written to `noise`: one draw for each element up to 0, else 1.
fn drawn(
    self_: &Tensor,
    noise: &Tensor,
    (lower, upper): (Scalar, Scalar),
    training: bool,
    generator: Option<&Generator>,
) -> Result<Option<Tensor>> {
    ensure!(
        self_.sizes() == noise.sizes(),
        Runtime,
        "noise tensor shape must match self tensor shape. Got self.shape = {:?} noise.shape = {:?}",
        self_.sizes().as_slice(),
        noise.sizes().as_slice()
    );
    if !training {
        return Ok(None);
    }
    if !self_.dtype().is_floating_point() {
        return Err(corten_core::not_implemented_for("rrelu_with_noise_out_cpu", self_.dtype()));
    }
    expect_dtype(noise, self_.dtype())?;
    let negative = op::le_scalar(self_, Scalar::Int(0))?;
    if self_.device().is_meta() {
        return op::empty_like(self_, None, None, None, None, None).map(Some);
    }
    let count = op::sum(&negative, None)?.to_element::<i64>()?;
    let draws = op::empty_memory_format(
        &[count],
        Some(DType::Float64),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    op::uniform_(&draws, lower.to_f64(), upper.to_f64(), generator)?;
    let draws = op::to_dtype(&draws, self_.dtype(), false, false, None)?;
    let ones = op::ones_like(self_, None, None, None, None, None)?;
    let slopes = op::masked_scatter(&ones, &negative, &draws)?;
    op::copy_(noise, &slopes, false)?;
    Ok(Some(slopes))
}

/// The gradient of `rrelu_with_noise`.
///
/// # Errors
/// Those of the operators.
pub fn rrelu_with_noise_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    self_is_result: bool,
) -> Result<Tensor> {
    if rrelu_uses_noise(lower, upper, training) {
        return op::mul_tensor(noise, grad_output);
    }
    op::leaky_relu_backward(grad_output, self_, rrelu_mean(lower, upper), self_is_result)
}
