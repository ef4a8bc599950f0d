//! Gradients of cumulative operators.

use crate::formulas::any::{has_any, keep_where};
use corten_core::{Dims, Result, Scalar, geometry, try_with_capacity};
use corten_ops::{Tensor, op};

fn reversed_cumsum(tensor: &Tensor, dim: i64) -> Result<Tensor> {
    if tensor.numel() <= 1 || tensor.size(dim)? == 1 {
        return Ok(tensor.clone());
    }
    op::flip(&op::cumsum(&op::flip(tensor, &[dim])?, dim, None)?, &[dim])
}

/// The sum of all gradients from here on.
///
/// # Errors
/// Those of the operators.
pub fn cumsum_backward(grad: &Tensor, dim: i64) -> Result<Tensor> {
    reversed_cumsum(grad, dim)
}

/// `Σ_{j ≥ i} g_j y_j / x_i`, exact also where factors are zero.
///
/// # Errors
/// Those of the operators.
pub fn cumprod_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    result: &Tensor,
) -> Result<Tensor> {
    if self_.numel() <= 1 || self_.size(dim)? == 1 {
        return Ok(grad.clone());
    }
    let dim = geometry::wrap_dim(dim, self_.dim())? as i64;
    let (input, output) = (self_.conj()?, result.conj()?);
    let weighted = (&output * grad)?;
    let is_zero = self_.eq_scalar(0)?;
    if !has_any(&is_zero)? {
        return reversed_cumsum(&weighted, dim)? / input;
    }
    if corten_core::grad_mode_enabled() {
        cumprod_by_omission(grad, &input, dim)
    } else {
        cumprod_around_zeros(grad, &input, &weighted, &is_zero, dim)
    }
}

/// Note [Cumulative products with zeros]: before the first zero of a slice the usual formula
/// holds. At the first zero, `x_z`, the derivative of `y_j` for `j ≥ z` is the product of all
/// factors but `x_z`: those before it, times those behind it up to `j`; from the second zero on
/// that is zero. Behind the first zero every derivative is zero.
fn cumprod_around_zeros(
    grad: &Tensor,
    input: &Tensor,
    weighted: &Tensor,
    is_zero: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let zeros_so_far = op::cumsum(is_zero, dim, None)?;
    let before = zeros_so_far.eq_scalar(0)?;
    let between = zeros_so_far.eq_scalar(1)?;
    let first = between.logical_and(is_zero)?;
    let usual = keep_where(&(reversed_cumsum(weighted, dim)? / input)?, &before)?;

    let one = Scalar::Int(1);
    let ahead = op::masked_fill_scalar(input, &before.logical_not()?, one)?;
    let ahead = op::prod_dim_int(&ahead, dim, true, None)?;
    let skipped = between.logical_not()?.logical_or(&first)?;
    let behind = op::cumprod(&op::masked_fill_scalar(input, &skipped, one)?, dim, None)?;
    let behind = keep_where(&(grad * behind)?, &between)?;
    let behind = op::sum_dim_intlist(&behind, Some(&[dim]), true, None)?;
    usual + keep_where(&op::expand_as(&(ahead * behind)?, input)?, &first)?
}

/// For every element the products that omit it: quadratic work, but differentiable at zeros.
fn cumprod_by_omission(grad: &Tensor, input: &Tensor, dim: i64) -> Result<Tensor> {
    let length = input.size(dim)?;
    let mut slices = try_with_capacity(length as usize)?;
    for k in 0..length {
        let ahead = op::prod_dim_int(&op::narrow(input, dim, 0, k)?, dim, true, None)?;
        let behind = op::narrow(input, dim, k + 1, length - k - 1)?;
        let behind = (op::cumprod(&behind, dim, None)? * &ahead)?;
        let omitted = op::cat(&[ahead, behind], dim)?;
        let grads = op::narrow(grad, dim, k, length - k)?;
        slices.push(op::sum_dim_intlist(&(grads * omitted)?, Some(&[dim]), true, None)?);
    }
    op::cat(&slices, dim)
}

/// `Σ_{j ≥ i} g_j e^(x_i - y_j)`, in logarithms so that nothing overflows.
///
/// # Errors
/// Those of the operators.
pub fn logcumsumexp_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    if grad.dim() == 0 || grad.numel() == 0 {
        return Ok(grad.clone());
    }
    let reversed = |tensor: &Tensor| {
        let flipped = op::flip(tensor, &[dim])?;
        op::flip(&op::logcumsumexp(&flipped, dim)?, &[dim])
    };
    if self_.dtype().is_complex() {
        let exponent = (reversed(&(grad.conj()?.log()? - result)?)? + self_)?;
        return exponent.exp()?.conj();
    }
    let magnitude = grad.abs()?.log()?;
    let part = |mask: Tensor| {
        // In place of the logarithm of zero: these terms take no part. It is finite, so that its
        // distance to other terms has a derivative.
        let none = Scalar::Float(magnitude.dtype().lowest());
        let chosen = op::masked_fill_scalar(&magnitude, &mask.logical_not()?, none)?;
        (reversed(&(chosen - result)?)? + self_)?.exp()
    };
    part(grad.gt_scalar(0)?)? - part(grad.lt_scalar(0)?)?
}

/// Zeros with the gradients added at the indices of the extremes.
///
/// # Errors
/// Those of the operators.
pub fn cummaxmin_backward(
    grad: &Tensor,
    self_: &Tensor,
    indices: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    if self_.numel() == 0 {
        return Ok(grad.clone());
    }
    let sizes: Dims = self_.sizes();
    let zeros = op::new_zeros(grad, &sizes, None, None, None, None)?;
    op::scatter_add(&zeros, dim, indices, grad)
}
