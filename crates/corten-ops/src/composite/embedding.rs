//! The gradient of a look-up.

use crate::{Tensor, op};
use corten_core::{Result, ensure};

/// Gradient of `embedding` with respect to the table.
///
/// # Errors
/// `NotImplemented` for sparse gradients.
pub fn embedding_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    ensure!(!sparse, NotImplemented, "embedding: sparse gradients need sparse tensors");
    op::embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
}
