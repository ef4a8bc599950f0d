//! Gradients of sparse tensors' parts.

use corten_core::{Layout, Result, err};
use corten_ops::sparse::Coo;
use corten_ops::sparse::coordinate::entries;
use corten_ops::{Tensor, op};

/// The gradient of the values that a tensor in coordinate format was made of: the elements of the
/// tensor's gradient at their places.
///
/// # Errors
/// Those of the operators.
pub fn values_at(grad: &Tensor, made: &Tensor) -> Result<Tensor> {
    let parts = coo(made)?;
    if grad.layout() != Layout::Sparse {
        return entries::dense_at(&op::to_dense(grad, None, None)?, &parts.indices);
    }
    let grad = op::coalesce(grad)?;
    let known = Coo { values: op::values(&grad)?, ..coo(&grad)? };
    entries::entries_at(&known, &grad.sizes(), &parts.indices)
}

/// A tensor with the gradient of the values at the places of the entries.
///
/// # Errors
/// Those of the operators.
pub fn values_grad(grad: &Tensor, input: &Tensor) -> Result<Tensor> {
    if input.is_sparse_compressed() {
        return super::sparse_compressed::compressed_like(grad, input);
    }
    let parts = coo(input)?;
    let (sparse_dim, dense_dim) = (parts.sparse_dim(), parts.dense_dim());
    op::_sparse_coo_tensor_with_dims_and_tensors(
        sparse_dim,
        dense_dim,
        &input.sizes(),
        &parts.indices,
        grad,
        None,
        None,
        None,
        None,
        Some(true),
    )
}

fn coo(tensor: &Tensor) -> Result<Coo> {
    Coo::of(tensor).ok_or_else(|| {
        err!(Runtime, "expected a tensor in coordinate format, but got layout {}", tensor.layout())
    })
}
