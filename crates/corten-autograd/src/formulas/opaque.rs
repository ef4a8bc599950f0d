//! Gradients of conversions to and from opaque tensors, and of their products.

use crate::formulas::sparse_compressed::{compressed_like, compressed_values_at, to_layout_of};
use corten_core::{DType, Result};
use corten_ops::opaque::in_layout_of;
use corten_ops::{Tensor, op};

/// The gradient as a dense tensor of the argument's dtype.
///
/// # Errors
/// Those of copying.
pub fn to_mkldnn_grad(grad: &Tensor, dtype: DType) -> Result<Tensor> {
    op::to_dense(grad, Some(dtype), None)
}

/// The gradient in the layout and dtype of the argument. Of a sparse argument only the elements at its
/// places count, unless `masked_grad` is false.
///
/// # Errors
/// Those of copying.
pub fn to_dense_grad(grad: &Tensor, input: &Tensor, masked_grad: Option<bool>) -> Result<Tensor> {
    let grad = op::to_dtype(grad, input.dtype(), false, false, None)?;
    if input.is_sparse_compressed() {
        return match masked_grad {
            Some(false) => to_layout_of(&grad, input),
            _ => compressed_like(&compressed_values_at(&grad, input)?, input),
        };
    }
    if input.is_sparse() {
        return super::sparse::to_coordinates_of(&grad, input, masked_grad);
    }
    in_layout_of(&grad, input)
}

/// The elements as a matrix of so many columns.
fn rows(tensor: &Tensor, cols: i64) -> Result<Tensor> {
    op::reshape(&op::to_dense(tensor, None, None)?, &[-1, cols])
}

/// $g \bar W$.
///
/// # Errors
/// Those of the operators.
pub fn mkldnn_linear_self_grad(grad: &Tensor, input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let dense = op::conj(&op::to_dense(weight, None, None)?)?;
    in_layout_of(&op::matmul(&op::to_dense(grad, None, None)?, &dense)?, input)
}

/// $g^\top \bar x$ over all rows.
///
/// # Errors
/// Those of the operators.
pub fn mkldnn_linear_weight_grad(grad: &Tensor, input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let (outputs, inputs) = (weight.size(0)?, weight.size(1)?);
    let product = op::mm(&op::t(&rows(grad, outputs)?)?, &op::conj(&rows(input, inputs)?)?)?;
    in_layout_of(&product, weight)
}

/// $g$ summed over all rows, in the dtype of the bias.
///
/// # Errors
/// Those of the operators.
pub fn mkldnn_linear_bias_grad(grad: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let Some(bias) = bias else { return Ok(Tensor::undefined()) };
    let grad = rows(grad, bias.size(0)?)?;
    let sum = op::sum_dim_intlist(&grad, Some(&[0]), false, Some(bias.dtype()))?;
    in_layout_of(&sum, bias)
}
