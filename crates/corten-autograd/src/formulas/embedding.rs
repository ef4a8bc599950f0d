//! Gradients of look-ups.

use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// Rows of the gradient added to the rows of the table.
///
/// # Errors
/// Those of the operators.
pub fn embedding_grad(
    grad: &Tensor,
    indices: &Tensor,
    sizes: &[i64],
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    op::embedding_backward(grad, indices, sizes[0], padding_idx, scale_grad_by_freq, sparse)
}

/// The rows of the second gradient that the first was added to; none for the padding.
///
/// # Errors
/// `NotImplemented` for gradients scaled by frequency.
pub fn embedding_grad_again(
    grad: &Tensor,
    sizes: &[i64],
    indices: &Tensor,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    ensure!(
        !scale_grad_by_freq,
        NotImplemented,
        "the derivative for 'embedding_dense_backward: scale_grad_by_freq' is not implemented."
    );
    let flat = op::reshape(indices, &[-1])?;
    let mut rows = op::index_select(grad, 0, &flat)?;
    if padding_idx >= 0 {
        let padding = op::unsqueeze(&op::eq_scalar(&flat, Scalar::Int(padding_idx))?, 1)?;
        rows = op::masked_fill_scalar(&rows, &padding, Scalar::Int(0))?;
    }
    op::reshape(&rows, sizes)
}
