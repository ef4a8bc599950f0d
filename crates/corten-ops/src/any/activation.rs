//! Activations with a gradient of their own.

use crate::{Tensor, op};
use corten_core::{Result, Scalar};

/// The first half of the elements along a dimension times the sigmoid of the second half.
///
/// # Errors
/// `Runtime` for an odd number of elements, `NotImplemented` for dtypes other than floating point.
pub fn glu(self_: &Tensor, dim: i64) -> Result<Tensor> {
    crate::composite::activation::glu(self_, dim)
}

/// The gradients of `_prelu_kernel` with the shape of the result.
///
/// # Errors
/// Those of the operators.
pub fn prelu_kernel_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let positive = op::gt_scalar(self_, Scalar::Int(0))?;
    let weighted = op::mul_tensor(weight, grad_output)?;
    let to_self = op::where_self(&positive, grad_output, &weighted)?;
    let weighted = op::mul_tensor(self_, grad_output)?;
    Ok((to_self, op::masked_fill__scalar(&weighted, &positive, Scalar::Int(0))?))
}
