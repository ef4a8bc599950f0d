//! Gradients of compressed tensors, of their parts and their products.

use crate::formulas::any::scaled;
use corten_core::{Layout, Result, Scalar, bail};
use corten_ops::sparse::Compressed;
use corten_ops::sparse::compressed::entries_like;
use corten_ops::{Tensor, op};

/// The gradient of the values that a compressed tensor was made of: the elements of its gradient at
/// their places.
///
/// # Errors
/// Those of the operators.
pub fn compressed_values_at(grad: &Tensor, made: &Tensor) -> Result<Tensor> {
    entries_like(grad, made)
}

/// A tensor with other entries at the places of `pattern`, through which gradients reach them.
///
/// # Errors
/// `Runtime` where the pattern is not compressed.
pub fn compressed_like(values: &Tensor, pattern: &Tensor) -> Result<Tensor> {
    let Some(parts) = Compressed::of(pattern) else {
        bail!(Runtime, "expected a compressed tensor, but got one of layout {}", pattern.layout());
    };
    op::_sparse_compressed_tensor_unsafe(
        &parts.compressed_indices,
        &parts.plain_indices,
        values,
        &pattern.sizes(),
        None,
        Some(parts.layout),
        None,
        None,
    )
}

/// A dense tensor in the layout of another one.
///
/// # Errors
/// Those of converting.
pub fn to_layout_of(dense: &Tensor, input: &Tensor) -> Result<Tensor> {
    let Some(parts) = Compressed::of(input) else { return Ok(dense.clone()) };
    let batches = parts.compressed_indices.dim() - 1;
    let in_blocks = matches!(parts.layout, Layout::SparseBsr | Layout::SparseBsc);
    let dense_dim = Some((input.dim() - batches - 2) as i64);
    let sizes = parts.values.sizes();
    let block: &[i64] = if in_blocks { &sizes[batches + 1..batches + 3] } else { &[] };
    match parts.layout {
        Layout::SparseCsr => op::to_sparse_csr(dense, dense_dim),
        Layout::SparseCsc => op::to_sparse_csc(dense, dense_dim),
        Layout::SparseBsr => op::to_sparse_bsr(dense, block, dense_dim),
        _ => op::to_sparse_bsc(dense, block, dense_dim),
    }
}

/// A sum's gradient for every element.
///
/// # Errors
/// Those of the operators.
pub fn csr_sum_grad(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::expand(&op::to_dense(grad, None, None)?, sizes, false)
}

/// $\bar\alpha\, g B^H$, of the elements of $g$ at the places of the result.
///
/// # Errors
/// Those of the operators.
pub fn sampled_addmm_mat1_grad(
    grad: &Tensor,
    pattern: &Tensor,
    mat2: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let masked = masked_dense(grad, pattern, mat2)?;
    scaled(&op::matmul(&masked, &op::conj(&op::transpose_int(mat2, -2, -1)?)?)?, alpha)
}

/// $\bar\alpha\, A^H g$, of the elements of $g$ at the places of the result.
///
/// # Errors
/// Those of the operators.
pub fn sampled_addmm_mat2_grad(
    grad: &Tensor,
    pattern: &Tensor,
    mat1: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let masked = masked_dense(grad, pattern, mat1)?;
    scaled(&op::matmul(&op::conj(&op::transpose_int(mat1, -2, -1)?)?, &masked)?, alpha)
}

/// The elements of a gradient at the places of a pattern, which one matrix may stand for in each batch.
fn masked_dense(grad: &Tensor, pattern: &Tensor, factor: &Tensor) -> Result<Tensor> {
    if grad.layout() != Layout::Strided {
        return op::to_dense(grad, None, None);
    }
    let ones = op::ones_like(&op::values(pattern)?, None, None, None, None, None)?;
    let mask = op::to_dense(&compressed_like(&ones, pattern)?, None, None)?;
    let mask = op::expand(&mask, &grad.sizes(), false)?;
    debug_assert_eq!(factor.dim(), grad.dim());
    op::mul_tensor(grad, &mask)
}

/// The gradients of a product reduced by rows.
///
/// # Errors
/// Those of the operators.
pub fn sparse_mm_reduce_grads(
    needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    other: &Tensor,
    reduce: &str,
    chosen: &Tensor,
) -> Result<Vec<Tensor>> {
    let mask = [needs[0], needs[1]];
    let (first, second) =
        op::_sparse_mm_reduce_impl_backward(input, grad, other, reduce, chosen, &mask)?;
    Ok(vec![first, second])
}
