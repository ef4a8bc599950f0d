//! Gradients of norms that limit.

use crate::formulas::reduce::linalg_vector_norm_backward;
use corten_core::{DType, Result, Scalar, geometry};
use corten_ops::{Tensor, op};

/// The gradient of `renorm`: with the slope of the norm where that is above its limit.
///
/// # Errors
/// Those of the operators.
pub fn renorm_backward(
    grad: &Tensor,
    self_: &Tensor,
    p: Scalar,
    dim: i64,
    maxnorm: Scalar,
) -> Result<Tensor> {
    let axis = geometry::wrap_dim(dim, self_.dim())? as i64;
    let dims: Vec<i64> = (0..self_.dim() as i64).filter(|&other| other != axis).collect();
    let wide = match self_.dtype() {
        DType::Float16 | DType::BFloat16 => Some(DType::Float32),
        _ => None,
    };
    let norm = op::linalg_vector_norm(self_, p, Some(&dims), true, wide)?;
    let product = op::mul_tensor(&op::conj(self_)?, grad)?;
    let sum = op::sum_dim_intlist(&product, Some(&dims), true, wide)?;
    let sum = if sum.dtype().is_complex() { op::real(&sum)? } else { sum };
    let slope = linalg_vector_norm_backward(&sum, self_, p, Some(&dims), true, &norm)?;
    let inverse = op::reciprocal(&op::add_scalar(&norm, Scalar::Float(1e-7), Scalar::Int(1))?)?;
    let inner = (grad - &inverse * slope)?;
    let scaled = op::mul_scalar(&(inverse * inner)?, maxnorm)?;
    let scaled = op::to_dtype(&scaled, grad.dtype(), false, false, None)?;
    op::where_self(&op::gt_scalar(&norm, maxnorm)?, &scaled, grad)
}
