//! Gradients of look-ups.

use corten_core::{DType, Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// The modes of `embedding_bag`, as its schema numbers them.
const MEAN: i64 = 1;

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

/// The gradient of the table of `_embedding_bag`; in coordinate format, where it is asked for, it is
/// that of a look-up whose rows were given their share of each bag's gradient.
///
/// # Errors
/// Those of the operators.
pub fn embedding_bag_grad(
    grad: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    maximum_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    if !sparse {
        return op::_embedding_bag_backward(
            grad,
            indices,
            offsets,
            offset2bag,
            bag_size,
            maximum_indices,
            num_weights,
            scale_grad_by_freq,
            mode,
            sparse,
            per_sample_weights,
            padding_idx,
        );
    }
    let bags = bags_of(indices, offsets)?;
    let mut rows = op::index_select(grad, 0, &bags)?;
    if mode == MEAN {
        let sizes = op::clamp_min(&op::index_select(bag_size, 0, &bags)?, Scalar::Int(1))?;
        rows = (&rows / &op::unsqueeze(&sizes, 1)?)?;
    }
    if let Some(weights) = per_sample_weights.filter(|weights| weights.defined()) {
        rows = (&rows * &op::unsqueeze(weights, 1)?)?;
    }
    op::embedding_backward(&rows, indices, num_weights, padding_idx, scale_grad_by_freq, true)
}

/// The bag of each index: the last that begins at it or before it.
fn bags_of(indices: &Tensor, offsets: &Tensor) -> Result<Tensor> {
    let count = Scalar::Int(indices.numel());
    let places = op::arange(count, Some(DType::Int64), None, Some(indices.device()), None)?;
    let after = op::searchsorted_tensor(offsets, &places, false, true, None, None)?;
    &after - 1_i64
}
