//! Gradients of functions of matrices.

use super::adjoint;
use corten_core::Result;
use corten_ops::{Tensor, op};

/// The upper right block of $\exp\begin{pmatrix}A^H & g\\ & A^H\end{pmatrix}$ (Mathias, "A chain
/// rule for matrix functions", 1996).
///
/// # Errors
/// Those of the operators.
pub fn matrix_exp_backward(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let turned = adjoint(a)?;
    let n = a.size(-1)?;
    if a.numel() == 0 {
        return op::zeros_like(a, None, None, None, None, None);
    }
    let none = op::zeros_like(&turned, None, None, None, None, None)?;
    let upper = op::cat(&[turned.clone(), op::expand_as(grad, &turned)?], -1)?;
    let lower = op::cat(&[none, turned], -1)?;
    let whole = op::linalg_matrix_exp(&op::cat(&[upper, lower], -2)?)?;
    op::narrow(&op::narrow(&whole, -2, 0, n)?, -1, n, n)
}
