//! The gradient of a look-up.

use crate::{Tensor, op};
use corten_core::{Result, ensure};

/// Gradient of `embedding` with respect to the table.
///
/// # Errors
/// Those of the operators.
pub fn embedding_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    if sparse {
        return op::embedding_sparse_backward(
            grad,
            indices,
            num_weights,
            padding_idx,
            scale_grad_by_freq,
        );
    }
    op::embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
}

/// The rows of a table summed, averaged or maximised in bags.
///
/// # Errors
/// Those of `_embedding_bag`.
pub fn embedding_bag(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    op::_embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        -1,
    )
}

/// [`embedding_bag`] in which one row does not count.
///
/// # Errors
/// As there; `Runtime` for a padding that is no row.
pub fn embedding_bag_padded(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let rows = weight.size(0)?;
    let padding = match padding_idx {
        None => -1,
        Some(given) => {
            ensure!(
                -rows <= given && given < rows,
                Runtime,
                "padding_idx must be within the number of embeddings, {} through {}, but got {given}",
                -rows,
                rows - 1
            );
            if given < 0 { given + rows } else { given }
        }
    };
    op::_embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding,
    )
}
