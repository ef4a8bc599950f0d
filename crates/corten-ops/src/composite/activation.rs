//! Activations made of others.

use crate::{Tensor, op};
use corten_core::{Generator, Result, Scalar, ensure, geometry};

/// Each element, times its channel's weight where it is negative.
///
/// # Errors
/// `Runtime` for weights that do not fit the channels.
pub fn prelu(self_: &Tensor, weight: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype() == weight.dtype(),
        Runtime,
        "prelu: Type promoting not supported. Got {} and {}",
        self_.dtype().type_name(),
        weight.dtype().type_name()
    );
    if weight.numel() != 1 {
        ensure!(self_.dim() > 0, Runtime, "Not allow zero-dim input tensor.");
        let channels = if self_.dim() > 1 { self_.size(1)? } else { 1 };
        ensure!(
            channels == weight.numel(),
            Runtime,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} \
             and channel size = {channels}.",
            weight.numel()
        );
    }
    ensure!(
        weight.dim() <= 1,
        Runtime,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
        weight.dim()
    );
    if self_.dim() == weight.dim() {
        return op::_prelu_kernel(self_, weight);
    }
    let mut shape = vec![1; self_.dim()];
    if shape.len() > 1 {
        shape[1] = weight.numel();
    }
    op::_prelu_kernel(self_, &op::reshape(weight, &shape)?)
}

fn halves(self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor, i64)> {
    ensure!(self_.dim() > 0, Runtime, "glu does not support 0-dimensional tensors");
    let dim = geometry::wrap_dim(dim, self_.dim())? as i64;
    let size = self_.size(dim)?;
    ensure!(
        size % 2 == 0,
        Runtime,
        "Halving dimension must be even, but dimension {dim} is size {size}"
    );
    let half = size / 2;
    Ok((op::narrow(self_, dim, 0, half)?, op::narrow(self_, dim, half, half)?, dim))
}

/// The first half of the elements along a dimension times the sigmoid of the second half.
///
/// # Errors
/// `Runtime` for an odd number of elements, `NotImplemented` for dtypes other than floating point.
pub fn glu(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let (first, second, _) = halves(self_, dim)?;
    let dtype = self_.dtype();
    if !dtype.is_floating_point() {
        return Err(corten_core::not_implemented_for("glu_cpu", dtype));
    }
    op::mul_tensor(&first, &op::sigmoid(&second)?)
}

/// The gradient of [`glu`].
///
/// # Errors
/// As for [`glu`].
pub fn glu_backward(grad_output: &Tensor, self_: &Tensor, dim: i64) -> Result<Tensor> {
    let (first, second, dim) = halves(self_, dim)?;
    let gate = op::sigmoid(&second)?;
    let to_first = op::mul_tensor(&gate, grad_output)?;
    let to_second = op::sigmoid_backward(&op::mul_tensor(&first, grad_output)?, &gate)?;
    op::cat(&[to_first, to_second], dim)
}

/// Each element, times a slope where it is negative.
///
/// # Errors
/// `Runtime` for bounds that are none.
pub fn rrelu(
    self_: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let noise = slopes(self_, lower, upper)?;
    op::rrelu_with_noise(self_, &noise, lower, upper, training, generator)
}

/// [`rrelu`] in place.
///
/// # Errors
/// As for [`rrelu`].
pub fn rrelu_(
    self_: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let noise = slopes(self_, lower, upper)?;
    op::rrelu_with_noise_(self_, &noise, lower, upper, training, generator)
}

/// Room for the slopes, once the bounds are checked.
fn slopes(self_: &Tensor, lower: Scalar, upper: Scalar) -> Result<Tensor> {
    for (name, bound) in [("lower", lower), ("upper", upper)] {
        let bound = bound.to_f64();
        let shown = if bound.is_nan() { "nan".to_owned() } else { bound.to_string() };
        ensure!(bound.is_finite(), Runtime, "rrelu: {name} bound must be finite, got {shown}");
    }
    ensure!(
        lower.to_f64() <= upper.to_f64(),
        Runtime,
        "Lower bound should be less than or equal to the upper bound"
    );
    op::empty_like(self_, None, None, None, None, None)
}
