//! Reductions under their older signatures.

use crate::{Tensor, batched, op};
use corten_core::{DType, Result, Scalar, ensure};

fn correction(unbiased: bool) -> Option<Scalar> {
    Some(Scalar::Int(i64::from(unbiased)))
}

/// The variance of everything, unbiased or not.
///
/// # Errors
/// Those of `var.correction`; for the functions below likewise.
pub fn var_all(self_: &Tensor, unbiased: bool) -> Result<Tensor> {
    op::var_correction(self_, None, correction(unbiased), false)
}

/// The variance over some dimensions, unbiased or not.
pub fn var_dim(
    self_: &Tensor,
    dim: Option<&[i64]>,
    unbiased: bool,
    keepdim: bool,
) -> Result<Tensor> {
    op::var_correction(self_, dim, correction(unbiased), keepdim)
}

/// The standard deviation of everything, unbiased or not.
pub fn std_all(self_: &Tensor, unbiased: bool) -> Result<Tensor> {
    op::std_correction(self_, None, correction(unbiased), false)
}

/// The standard deviation over some dimensions, unbiased or not.
pub fn std_dim(
    self_: &Tensor,
    dim: Option<&[i64]>,
    unbiased: bool,
    keepdim: bool,
) -> Result<Tensor> {
    op::std_correction(self_, dim, correction(unbiased), keepdim)
}

/// Variance and mean of everything, unbiased or not.
pub fn var_mean_all(self_: &Tensor, unbiased: bool) -> Result<(Tensor, Tensor)> {
    op::var_mean_correction(self_, None, correction(unbiased), false)
}

/// Variance and mean over some dimensions, unbiased or not.
pub fn var_mean_dim(
    self_: &Tensor,
    dim: Option<&[i64]>,
    unbiased: bool,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    op::var_mean_correction(self_, dim, correction(unbiased), keepdim)
}

/// Standard deviation and mean of everything, unbiased or not.
pub fn std_mean_all(self_: &Tensor, unbiased: bool) -> Result<(Tensor, Tensor)> {
    op::std_mean_correction(self_, None, correction(unbiased), false)
}

/// Standard deviation and mean over some dimensions, unbiased or not.
pub fn std_mean_dim(
    self_: &Tensor,
    dim: Option<&[i64]>,
    unbiased: bool,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    op::std_mean_correction(self_, dim, correction(unbiased), keepdim)
}

/// The mean of the elements that are not NaN.
///
/// # Errors
/// `NotImplemented` for integers, and those of `nansum`.
pub fn nanmean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let given = self_.dtype();
    ensure!(
        given.is_floating_point() || given.is_complex(),
        NotImplemented,
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        given.type_name()
    );
    let real = op::logical_not(&op::isnan(self_)?)?;
    let count = op::sum_dim_intlist(&real, dim, keepdim, None)?;
    op::div_tensor(&op::nansum(self_, dim, keepdim, dtype)?, &count)
}

fn order(p: Option<Scalar>) -> Scalar {
    p.unwrap_or(Scalar::Int(2))
}

/// The norm of everything.
///
/// # Errors
/// Those of `linalg_vector_norm`; for the functions below likewise.
pub fn norm_scalar(self_: &Tensor, p: Scalar) -> Result<Tensor> {
    op::linalg_vector_norm(self_, p, None, false, None)
}

/// The norm over some dimensions.
pub fn norm_dim(self_: &Tensor, p: Option<Scalar>, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    op::linalg_vector_norm(self_, order(p), Some(dim), keepdim, None)
}

/// The norm of everything, computed in a dtype.
pub fn norm_dtype(self_: &Tensor, p: Option<Scalar>, dtype: DType) -> Result<Tensor> {
    op::linalg_vector_norm(self_, order(p), None, false, Some(dtype))
}

/// The norm over some dimensions, computed in a dtype.
pub fn norm_dim_dtype(
    self_: &Tensor,
    p: Option<Scalar>,
    dim: &[i64],
    keepdim: bool,
    dtype: DType,
) -> Result<Tensor> {
    op::linalg_vector_norm(self_, order(p), Some(dim), keepdim, Some(dtype))
}

/// The Frobenius norm over some dimensions.
pub fn frobenius_norm(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    op::linalg_vector_norm(self_, Scalar::Int(2), Some(dim), keepdim, None)
}

/// Zeros with the gradient at the selected indices.
///
/// # Errors
/// Those of the operators.
pub fn value_selecting_reduction_backward(
    grad: &Tensor,
    dim: i64,
    indices: &Tensor,
    sizes: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let zeros = op::new_zeros(grad, sizes, None, None, None, None)?;
    let squeezed = !keepdim && !sizes.is_empty();
    let with_dim = |tensor: &Tensor| match squeezed {
        true => op::unsqueeze(tensor, dim),
        false => Ok(tensor.clone()),
    };
    let (indices, grad) = (with_dim(indices)?, with_dim(grad)?);
    // A batch of gradients or of indices does not fit into zeros that are none.
    if batched::is_batched(&indices) || batched::is_batched(&grad) {
        return op::scatter_src(&zeros, dim, &indices, &grad);
    }
    op::scatter__src(&zeros, dim, &indices, &grad)
}

/// Zeros with the gradient added at the selected indices.
///
/// # Errors
/// Those of the operators.
pub fn cummaxmin_backward(
    grad: &Tensor,
    input: &Tensor,
    indices: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    if input.numel() == 0 {
        return Ok(input.clone());
    }
    let zeros = op::zeros_like(grad, None, None, None, None, None)?;
    op::scatter_add(&zeros, dim, indices, grad)
}

/// The least and the greatest element.
///
/// # Errors
/// Those of `aminmax`.
pub fn aminmax_all(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    op::aminmax(self_, None, false)
}

/// The least and the greatest elements along a dimension.
///
/// # Errors
/// Those of `aminmax`.
pub fn aminmax_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    op::aminmax(self_, Some(dim), keepdim)
}
