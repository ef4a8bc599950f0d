//! Gradients of products of matrices and vectors.
//!
//! The gradient of a matrix that lies by columns is computed as the transpose of the transposed
//! product, so that it lies by columns too: weights come in transposed, and their gradients are
//! then contiguous.

use crate::formulas::any::scaled;
use corten_core::{Result, Scalar};
use corten_ops::{Tensor, op};

/// The conjugate transpose of a matrix.
fn adjoint(matrix: &Tensor) -> Result<Tensor> {
    op::conj(&op::t(matrix)?)
}

/// The conjugate transposes of a batch of matrices.
fn adjoints(batch: &Tensor) -> Result<Tensor> {
    op::conj(&op::transpose_int(batch, 1, 2)?)
}

/// $g B^H$.
///
/// # Errors
/// Those of the operators.
pub fn mm_mat1_grad(grad: &Tensor, mat2: &Tensor, by_columns: bool) -> Result<Tensor> {
    if by_columns && mat2.has_storage() {
        return op::t(&op::mm(&op::conj(mat2)?, &op::t(grad)?)?);
    }
    op::mm(grad, &adjoint(mat2)?)
}

/// $A^H g$.
///
/// # Errors
/// Those of the operators.
pub fn mm_mat2_grad(grad: &Tensor, mat1: &Tensor, by_columns: bool) -> Result<Tensor> {
    if by_columns && mat1.has_storage() {
        return op::t(&op::mm(&op::t(grad)?, &op::conj(mat1)?)?);
    }
    op::mm(&adjoint(mat1)?, grad)
}

/// $\bar\alpha\, g B^H$.
///
/// # Errors
/// Those of the operators.
pub fn addmm_mat1_grad(
    grad: &Tensor,
    mat2: &Tensor,
    by_columns: bool,
    alpha: Scalar,
) -> Result<Tensor> {
    scaled(&mm_mat1_grad(grad, mat2, by_columns)?, alpha)
}

/// $\bar\alpha\, A^H g$.
///
/// # Errors
/// Those of the operators.
pub fn addmm_mat2_grad(
    grad: &Tensor,
    mat1: &Tensor,
    by_columns: bool,
    alpha: Scalar,
) -> Result<Tensor> {
    scaled(&mm_mat2_grad(grad, mat1, by_columns)?, alpha)
}

/// $g B^H$ for batches.
///
/// # Errors
/// Those of the operators.
pub fn bmm_batch1_grad(grad: &Tensor, batch2: &Tensor) -> Result<Tensor> {
    op::bmm(grad, &adjoints(batch2)?)
}

/// $A^H g$ for batches.
///
/// # Errors
/// Those of the operators.
pub fn bmm_batch2_grad(grad: &Tensor, batch1: &Tensor) -> Result<Tensor> {
    op::bmm(&adjoints(batch1)?, grad)
}

/// $\bar\alpha\, g B^H$ for batches.
///
/// # Errors
/// Those of the operators.
pub fn baddbmm_batch1_grad(grad: &Tensor, batch2: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(&bmm_batch1_grad(grad, batch2)?, alpha)
}

/// $\bar\alpha\, A^H g$ for batches.
///
/// # Errors
/// Those of the operators.
pub fn baddbmm_batch2_grad(grad: &Tensor, batch1: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(&bmm_batch2_grad(grad, batch1)?, alpha)
}

/// Every product of the batch gets the gradient of the sum.
fn for_each_product(grad: &Tensor, count: i64) -> Result<Tensor> {
    let sizes = grad.sizes();
    op::expand(&op::unsqueeze(grad, 0)?, &[count, sizes[0], sizes[1]], false)
}

/// $\bar\alpha\, g B^H$ for every product of a sum.
///
/// # Errors
/// Those of the operators.
pub fn addbmm_batch1_grad(
    grad: &Tensor,
    sizes: &[i64],
    batch2: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    baddbmm_batch1_grad(&for_each_product(grad, sizes[0])?, batch2, alpha)
}

/// $\bar\alpha\, A^H g$ for every product of a sum.
///
/// # Errors
/// Those of the operators.
pub fn addbmm_batch2_grad(
    grad: &Tensor,
    batch1: &Tensor,
    sizes: &[i64],
    alpha: Scalar,
) -> Result<Tensor> {
    baddbmm_batch2_grad(&for_each_product(grad, sizes[0])?, batch1, alpha)
}

/// $g \bar v^\top$, the gradient of a matrix that was multiplied with a vector.
///
/// # Errors
/// Those of the operators.
pub fn outer_grad(grad: &Tensor, vec: &Tensor) -> Result<Tensor> {
    op::outer(grad, &op::conj(vec)?)
}

/// $A^H g$.
///
/// # Errors
/// Those of the operators.
pub fn mv_vec_grad(grad: &Tensor, matrix: &Tensor) -> Result<Tensor> {
    op::mv(&adjoint(matrix)?, grad)
}

/// $\bar\alpha\, g \bar v^\top$.
///
/// # Errors
/// Those of the operators.
pub fn addmv_mat_grad(grad: &Tensor, vec: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(&outer_grad(grad, vec)?, alpha)
}

/// $\bar\alpha\, A^H g$.
///
/// # Errors
/// Those of the operators.
pub fn addmv_vec_grad(grad: &Tensor, mat: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(&mv_vec_grad(grad, mat)?, alpha)
}

/// $\bar\alpha\, g \bar v_2$.
///
/// # Errors
/// Those of the operators.
pub fn addr_vec1_grad(grad: &Tensor, vec2: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(&op::mv(grad, &op::conj(vec2)?)?, alpha)
}

/// $\bar\alpha\, g^\top \bar v_1$.
///
/// # Errors
/// Those of the operators.
pub fn addr_vec2_grad(grad: &Tensor, vec1: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(&op::mv(&op::t(grad)?, &op::conj(vec1)?)?, alpha)
}
