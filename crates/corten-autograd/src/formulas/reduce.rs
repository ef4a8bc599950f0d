//! Gradients of reductions.

use crate::formulas::any::{has_any, zero_where, zeros_like};
use crate::graph;
use corten_core::{Dims, Result, Scalar, geometry};
use corten_ops::{Tensor, batched, op};

/// The reduced dimensions of a tensor of rank `rank`, wrapped. No dimension means all.
fn reduced(dim: Option<&[i64]>, rank: usize) -> Result<Dims> {
    match dim {
        None | Some([]) => Ok((0..rank as i64).collect()),
        Some(dims) => dims.iter().map(|&dim| Ok(geometry::wrap_dim(dim, rank)? as i64)).collect(),
    }
}

/// A reduced tensor with its dimensions of size one, ready to broadcast with the input.
fn restore(tensor: &Tensor, sizes: &[i64], dims: &[i64], keepdim: bool) -> Result<Tensor> {
    if keepdim || sizes.is_empty() {
        return Ok(tensor.clone());
    }
    if graph::is_seen_by_python(tensor) {
        // Recorded programs insert the dimensions one by one.
        let mut restored = tensor.clone();
        for dim in (0..sizes.len() as i64).filter(|dim| dims.contains(dim)) {
            restored = op::unsqueeze(&restored, dim)?;
        }
        return Ok(restored);
    }
    let size = |(dim, &size): (usize, &i64)| if dims.contains(&(dim as i64)) { 1 } else { size };
    let shape: Dims = sizes.iter().enumerate().map(size).collect();
    op::view(&op::contiguous(tensor, corten_core::MemoryFormat::Contiguous)?, &shape)
}

fn count(sizes: &[i64], dims: &[i64]) -> i64 {
    dims.iter().map(|&dim| sizes.get(dim as usize).copied().unwrap_or(1)).product()
}

/// The gradient at every element of the input.
///
/// # Errors
/// Those of the operators.
pub fn sum_all_backward(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::expand(grad, sizes, false)
}

/// The gradient at every element that was summed.
///
/// # Errors
/// Those of the operators.
pub fn sum_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    let dims = reduced(dim, sizes.len())?;
    let grad = op::to_dense(grad, None, None)?;
    op::expand(&restore(&grad, sizes, &dims, keepdim)?, sizes, false)
}

/// As [`sum_backward`], zero at NaNs.
///
/// # Errors
/// Those of the operators.
pub fn nansum_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    zero_where(&sum_backward(grad, &self_.sizes(), dim, keepdim)?, &self_.isnan()?)
}

/// An equal part of the gradient at every element.
///
/// # Errors
/// Those of the operators.
pub fn mean_all_backward(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    mean_backward(grad, sizes, None, false)
}

/// An equal part of the gradient at every element of the mean.
///
/// # Errors
/// Those of the operators.
pub fn mean_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    let dims = reduced(dim, sizes.len())?;
    // Divided before it is expanded: that is the smaller tensor.
    let part = (restore(grad, sizes, &dims, keepdim)? / count(sizes, &dims) as f64)?;
    op::expand(&part, sizes, false)
}

/// `grad · y / x`; with zeros among the factors, the product of the others.
///
/// # Errors
/// Those of the operators.
pub fn prod_backward(grad: &Tensor, self_: &Tensor, result: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 {
        return Ok(grad.clone());
    }
    let is_zero = self_.eq_scalar(0)?;
    if !has_any(&is_zero)? {
        return grad * (result / self_)?.conj()?;
    }
    // Each item has a number of zeros of its own.
    let one = !corten_core::grad_mode_enabled() && !batched::is_batched(self_);
    if one && op::item(&is_zero.sum()?)?.to_i64() > 1 {
        return zeros_like(self_);
    }
    let flat = op::reshape(self_, &[-1])?;
    op::reshape(&prod_with_zeros(grad, &flat, 0)?, &self_.sizes())
}

/// [`prod_backward`] along one dimension.
///
/// # Errors
/// Those of the operators.
pub fn prod_dim_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: i64,
    keepdim: bool,
) -> Result<Tensor> {
    if self_.dim() == 0 {
        return Ok(grad.clone());
    }
    let dims = reduced(Some(&[dim]), self_.dim())?;
    let sizes = self_.sizes();
    let grad = restore(grad, &sizes, &dims, keepdim)?;
    if has_any(&self_.eq_scalar(0)?)? {
        return prod_with_zeros(&grad, self_, dims[0]);
    }
    grad * (restore(result, &sizes, &dims, keepdim)? / self_)?.conj()?
}

/// The product of all factors before an element times that of all behind it.
fn prod_with_zeros(grad: &Tensor, input: &Tensor, dim: i64) -> Result<Tensor> {
    let length = input.size(dim)?;
    if length < 2 || input.numel() == 0 {
        return op::expand(grad, &input.sizes(), false);
    }
    let mut sizes = input.sizes();
    sizes[dim as usize] = 1;
    let ones = op::new_ones(input, &sizes, None, None, None, None)?;
    let before = op::cat(&[ones.clone(), op::narrow(input, dim, 0, length - 1)?], dim)?;
    let before = op::cumprod(&before, dim, None)?;
    let behind = op::flip(&op::narrow(input, dim, 1, length - 1)?, &[dim])?;
    let behind = op::cumprod(&op::cat(&[ones, behind], dim)?, dim, None)?;
    let behind = op::flip(&behind, &[dim])?;
    grad * (before * behind)?.conj()?
}

/// The gradient divided equally among all elements that equal the result.
///
/// # Errors
/// Those of the operators.
pub fn evenly_distribute_backward(grad: &Tensor, input: &Tensor, value: &Tensor) -> Result<Tensor> {
    let mask = equal_or_both_nan(input, value)?;
    share(grad, &mask, None)
}

fn equal_or_both_nan(input: &Tensor, value: &Tensor) -> Result<Tensor> {
    if !input.dtype().is_floating_point() {
        return input.eq(value);
    }
    input.eq(value)?.logical_or(&input.isnan()?.logical_and(&value.isnan()?)?)
}

/// The gradient where the mask is true, divided by the number of those places.
fn share(grad: &Tensor, mask: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    let count = match dims {
        Some(dims) => op::sum_dim_intlist(mask, Some(dims), true, None)?,
        None => op::sum(mask, None)?,
    };
    (grad / &count)? * mask
}

/// The gradient divided equally among the extreme elements of each slice.
///
/// # Errors
/// Those of the operators.
pub fn extremum_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let sizes = self_.sizes();
    let dims = reduced(Some(dim), sizes.len())?;
    let grad = restore(grad, &sizes, &dims, keepdim)?;
    let mask = equal_or_both_nan(self_, &restore(result, &sizes, &dims, keepdim)?)?;
    share(&grad, &mask, Some(&dims))
}

/// [`extremum_backward`] of both results.
///
/// # Errors
/// Those of the operators.
pub fn aminmax_backward(
    grad_min: &Tensor,
    grad_max: &Tensor,
    self_: &Tensor,
    min: &Tensor,
    max: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
) -> Result<Tensor> {
    let dims: Dims = dim.into_iter().collect();
    let part = |grad: &Tensor, result: &Tensor| match grad.defined() {
        true => extremum_backward(grad, self_, result, &dims, keepdim).map(Some),
        false => Ok(None),
    };
    sum_defined(part(grad_min, min)?, part(grad_max, max)?)
}

fn sum_defined(a: Option<Tensor>, b: Option<Tensor>) -> Result<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => a + b,
        (a, b) => Ok(a.or(b).unwrap_or_default()),
    }
}

/// Zeros with the gradient at the selected elements.
///
/// # Errors
/// Those of the operators.
pub fn value_selecting_backward(
    grad: &Tensor,
    dim: i64,
    indices: &Tensor,
    sizes: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let zeros = op::new_zeros(grad, sizes, None, None, None, None)?;
    if sizes.is_empty() {
        return op::scatter_src(&zeros, dim, indices, grad);
    }
    let dims = reduced(Some(&[dim]), sizes.len())?;
    let grad = restore(grad, sizes, &dims, keepdim)?;
    let indices = restore(indices, sizes, &dims, keepdim)?;
    op::scatter_src(&zeros, dim, &indices, &grad)
}

/// `2 / (n - correction) · grad · (x - mean x)`.
///
/// # Errors
/// Those of the operators.
pub fn var_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let sizes = self_.sizes();
    let dims = reduced(dim, sizes.len())?;
    let correction = correction.map_or(1.0, |correction| correction.to_f64());
    let factor = 2.0 / (count(&sizes, &dims) as f64 - correction);
    let deviation = match sizes.is_empty() {
        // Zero, or NaN where the element has no distance to itself.
        true => (self_ - self_.detach()?)?,
        false => (self_ - op::mean_dim(self_, Some(&dims), true, None)?)?,
    };
    (restore(grad, &sizes, &dims, keepdim)? * factor)? * deviation
}

/// [`var_backward`] through the square root; zero where the deviation is zero.
///
/// # Errors
/// Those of the operators.
pub fn std_backward(
    result: &Tensor,
    grad: &Tensor,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let doubled = (result * 2.0)?;
    let grad = zero_where(&(grad / doubled)?, &result.eq_scalar(0)?)?;
    var_backward(&grad, self_, dim, correction, keepdim)
}

/// Of the variance and the mean together.
///
/// # Errors
/// Those of the operators.
pub fn var_mean_backward(
    grad_var: &Tensor,
    grad_mean: &Tensor,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let mut parts = [None, None];
    if grad_var.defined() {
        parts[0] = Some(var_backward(grad_var, self_, dim, correction, keepdim)?);
    }
    if grad_mean.defined() {
        parts[1] = Some(mean_backward(grad_mean, &self_.sizes(), dim, keepdim)?);
    }
    let [a, b] = parts;
    sum_defined(a, b)
}

/// Of the standard deviation and the mean together.
///
/// # Errors
/// Those of the operators.
pub fn std_mean_backward(
    grad_std: &Tensor,
    grad_mean: &Tensor,
    self_: &Tensor,
    std: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let mut parts = [None, None];
    if grad_std.defined() {
        parts[0] = Some(std_backward(std, grad_std, self_, dim, correction, keepdim)?);
    }
    if grad_mean.defined() {
        parts[1] = Some(mean_backward(grad_mean, &self_.sizes(), dim, keepdim)?);
    }
    let [a, b] = parts;
    sum_defined(a, b)
}

/// By the order: 0 gives zero; 1 the sign; 2 `x / y`; ±∞ the sign, shared among the extreme
/// elements; else `sgn x · |x|^(p-1) / y^(p-1)`. Zero where the norm is zero, and below order 1
/// at zeros.
///
/// # Errors
/// Those of the operators.
pub fn linalg_vector_norm_backward(
    grad: &Tensor,
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    result: &Tensor,
) -> Result<Tensor> {
    if self_.is_sparse() {
        // Only norms of everything are defined: those of the entries.
        let entries = op::coalesce(self_)?;
        let values = op::values(&entries)?;
        let slope = linalg_vector_norm_backward(grad, &values, ord, None, false, result)?;
        return super::sparse::values_grad(&slope, &entries);
    }
    let sizes = self_.sizes();
    let dims = reduced(dim, sizes.len())?;
    let grad = &restore(grad, &sizes, &dims, keepdim)?;
    let norm = &restore(result, &sizes, &dims, keepdim)?;
    let p = ord.to_f64();
    if p == 0.0 {
        return Ok(Tensor::undefined());
    }
    if p == 1.0 {
        return self_.sgn()? * grad;
    }
    if p == 2.0 {
        return zero_where(&(self_ / norm)?, &norm.eq_scalar(0)?)? * grad;
    }
    if p.is_infinite() {
        let abs = self_.abs()?;
        let mask = abs.eq(norm)?.logical_or(&abs.isnan()?)?;
        return self_.sgn()? * share(grad, &mask, Some(&dims))?;
    }
    norm_power_backward(grad, self_, norm, p)
}

fn norm_power_backward(grad: &Tensor, self_: &Tensor, norm: &Tensor, p: f64) -> Result<Tensor> {
    let power = |base: &Tensor, exponent: f64| op::pow_tensor_scalar(base, exponent.into());
    if p < 1.0 {
        let scaled = (self_.sgn()? * power(&self_.abs()?, p - 1.0)?)?;
        let scaled = zero_where(&scaled, &self_.eq_scalar(0)?)?;
        return (scaled * grad)? * power(norm, 1.0 - p)?;
    }
    let scaled = if p < 2.0 {
        (self_.sgn()? * power(&self_.abs()?, p - 1.0)?)?
    } else {
        (self_ * power(&self_.abs()?, p - 2.0)?)?
    };
    let factor = (grad / power(norm, p - 1.0)?)?;
    scaled * zero_where(&factor, &norm.eq_scalar(0)?)?
}

/// The norm's gradient at the difference.
///
/// # Errors
/// Those of the operators.
pub fn dist_backward(
    grad: &Tensor,
    self_: &Tensor,
    other: &Tensor,
    p: Scalar,
    result: &Tensor,
) -> Result<Tensor> {
    let difference = (self_ - other)?;
    if p.to_f64() == 0.0 {
        return zeros_like(&difference);
    }
    linalg_vector_norm_backward(grad, &difference, p, None, false, result)
}

/// `grad · e^(x - y)`.
///
/// # Errors
/// Those of the operators.
pub fn logsumexp_backward(
    grad: &Tensor,
    self_: &Tensor,
    result: &Tensor,
    dim: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let sizes = self_.sizes();
    let dims = reduced(Some(dim), sizes.len())?;
    let grad = restore(grad, &sizes, &dims, keepdim)?;
    let result = restore(result, &sizes, &dims, keepdim)?;
    grad * (self_ - result)?.exp()?.conj()?
}
