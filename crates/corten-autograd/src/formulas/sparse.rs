//! Gradients of sparse tensors and of their parts.

use super::any::scaled;
use super::matmul::{mm_mat1_grad, mm_mat2_grad};
use corten_core::{Layout, Result, Scalar, err};
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
    with_values(&coo(input)?, &input.sizes(), grad, true)
}

/// A recorded tensor of the same places with other values.
fn with_values(parts: &Coo, sizes: &[i64], values: &Tensor, coalesced: bool) -> Result<Tensor> {
    op::_sparse_coo_tensor_with_dims_and_tensors(
        parts.sparse_dim(),
        parts.dense_dim(),
        sizes,
        &parts.indices,
        values,
        None,
        None,
        None,
        None,
        Some(coalesced),
    )
}

fn coo(tensor: &Tensor) -> Result<Coo> {
    Coo::of(tensor).ok_or_else(|| {
        err!(Runtime, "expected a tensor in coordinate format, but got layout {}", tensor.layout())
    })
}

/// The gradient of a dense tensor in coordinate format: at the places of the entries alone unless
/// `masked_grad` is false.
///
/// # Errors
/// Those of the operators.
pub fn to_coordinates_of(
    grad: &Tensor,
    input: &Tensor,
    masked_grad: Option<bool>,
) -> Result<Tensor> {
    if masked_grad == Some(false) {
        if grad.layout() == Layout::Sparse {
            return Ok(grad.clone());
        }
        return op::to_sparse_sparse_dim(grad, op::sparse_dim(input)?);
    }
    op::sparse_mask(grad, &op::coalesce(&op::detach(input)?)?)
}

/// The gradient of what was made sparse, in its layout.
///
/// # Errors
/// Those of the operators.
pub fn to_sparse_grad(grad: &Tensor, input: &Tensor) -> Result<Tensor> {
    if input.layout() == Layout::Strided {
        return op::to_dense(grad, None, None);
    }
    if input.layout() == grad.layout() {
        return Ok(grad.clone());
    }
    if input.is_sparse_compressed() {
        return super::sparse_compressed::to_layout_of(&op::to_dense(grad, None, None)?, input);
    }
    if input.layout() == Layout::Sparse && grad.layout() != Layout::Strided {
        return op::to_sparse(grad, Some(Layout::Sparse), None, None);
    }
    op::to_sparse(grad, Some(input.layout()), None, None)
}

/// The gradient of what a mask chose from: nothing elsewhere.
///
/// # Errors
/// Those of the operators.
pub fn sparse_mask_grad(grad: &Tensor, input: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let at_places =
        if grad.layout() == Layout::Strided { op::sparse_mask(grad, mask)? } else { grad.clone() };
    if input.layout() == Layout::Strided {
        return op::to_dense(&at_places, None, None);
    }
    Ok(at_places)
}

/// The gradient of what was broadcast: summed over the new places.
///
/// # Errors
/// Those of the operators.
pub fn sparse_broadcast_grad(grad: &Tensor, input: &Tensor) -> Result<Tensor> {
    let grad = op::to_dense(grad, None, None)?;
    op::sum_to_size(&grad, &input.sizes())
}

/// $\bar\alpha\, g B^H$ at the places of a sparse matrix.
///
/// # Errors
/// Those of the operators.
pub fn masked_mat1_grad(
    grad: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let grad = scaled(&mm_mat1_grad(grad, mat2, false)?, alpha)?;
    if mat1.layout() == Layout::Strided {
        return Ok(grad);
    }
    op::sparse_mask(&grad, &op::detach(mat1)?)
}

/// $\bar\alpha\, A^H g$.
///
/// # Errors
/// Those of the operators.
pub fn masked_mat2_grad(grad: &Tensor, mat1: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(&mm_mat2_grad(grad, mat1, false)?, alpha)
}

/// $g B^H$ of sparse matrices, at the places of the first.
///
/// # Errors
/// Those of the operators.
pub fn sparse_matmul_self_grad(grad: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let adjoint = op::conj(&op::t(b)?)?;
    op::sparse_mask(&op::mm(grad, &adjoint)?, &op::coalesce(&op::detach(a)?)?)
}

/// $A^H g$ of sparse matrices, at the places of the second.
///
/// # Errors
/// Those of the operators.
pub fn sparse_matmul_other_grad(grad: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let adjoint = op::conj(&op::t(a)?)?;
    op::sparse_mask(&op::mm(&adjoint, grad)?, &op::coalesce(&op::detach(b)?)?)
}
