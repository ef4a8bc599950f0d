//! Gradients of reading and writing by index.

use corten_core::{Dims, Result, Scalar};
use corten_ops::{Tensor, op};

/// Zeros of a shape with the dtype and device of the gradient.
fn zeros(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::zeros(sizes, Some(grad.dtype()), None, Some(grad.device()), None)
}

/// Gradient of `index`: the gradient added where the elements were read.
pub fn index_backward(
    grad: &Tensor,
    self_sizes: &[i64],
    indices: &[Option<Tensor>],
) -> Result<Tensor> {
    op::index_put(&zeros(grad, self_sizes)?, indices, grad, true)
}

/// Gradient of `index_put` with respect to the tensor written to.
pub fn index_put_self_backward(
    grad: &Tensor,
    indices: &[Option<Tensor>],
    accumulate: bool,
) -> Result<Tensor> {
    if accumulate {
        return Ok(grad.clone());
    }
    op::index_put(grad, indices, &zeros(grad, &[])?, false)
}

/// Gradient of `index_put` with respect to the values.
pub fn index_put_values_backward(
    grad: &Tensor,
    indices: &[Option<Tensor>],
    values_sizes: &[i64],
) -> Result<Tensor> {
    sum_to(&op::index_tensor(grad, indices)?, values_sizes)
}

/// Sums over the dimensions that broadcasting added or stretched.
fn sum_to(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let given = grad.sizes();
    if given.as_slice() == sizes {
        return Ok(grad.clone());
    }
    let leading = given.len().saturating_sub(sizes.len());
    let stretched = (leading..given.len()).filter(|d| sizes[d - leading] == 1 && given[*d] != 1);
    let dims: Dims = (0..leading).chain(stretched).map(|dim| dim as i64).collect();
    let summed = match dims.is_empty() {
        true => grad.clone(),
        false => op::sum_dim_intlist(grad, Some(&dims), true, None)?,
    };
    op::reshape(&summed, sizes)
}

/// Gradient of `index_select`.
pub fn index_select_backward(
    grad: &Tensor,
    self_sizes: &[i64],
    dim: i64,
    index: &Tensor,
) -> Result<Tensor> {
    op::index_add(&zeros(grad, self_sizes)?, dim, index, grad, Scalar::Int(1))
}

/// Gradient of `gather`.
pub fn gather_backward(
    grad: &Tensor,
    self_sizes: &[i64],
    dim: i64,
    index: &Tensor,
) -> Result<Tensor> {
    op::scatter_add(&zeros(grad, self_sizes)?, dim, index, grad)
}

/// Gradient of `index_add` with respect to the source.
pub fn index_add_source_backward(
    grad: &Tensor,
    dim: i64,
    index: &Tensor,
    source_sizes: &[i64],
    alpha: Scalar,
) -> Result<Tensor> {
    let selected = index_copy_source_backward(grad, dim, index, source_sizes)?;
    op::mul_scalar(&selected, alpha)
}

/// Gradient of `index_copy` with respect to the source.
pub fn index_copy_source_backward(
    grad: &Tensor,
    dim: i64,
    index: &Tensor,
    source_sizes: &[i64],
) -> Result<Tensor> {
    op::reshape(&op::index_select(grad, dim, index)?, source_sizes)
}

/// Gradient of `index_fill` with respect to the value.
pub fn index_fill_value_backward(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    op::sum(&op::index_select(grad, dim, index)?, None)
}

/// Gradient of `masked_select`.
pub fn masked_select_backward(grad: &Tensor, self_sizes: &[i64], mask: &Tensor) -> Result<Tensor> {
    let shape = corten_core::geometry::infer_broadcast(self_sizes, &mask.sizes())?;
    sum_to(&op::masked_scatter(&zeros(grad, &shape)?, mask, grad)?, self_sizes)
}

/// Gradient of `masked_scatter` with respect to the source.
pub fn masked_scatter_backward(
    grad: &Tensor,
    mask: &Tensor,
    source_sizes: &[i64],
) -> Result<Tensor> {
    let used = op::masked_select(grad, mask)?;
    let numel: i64 = source_sizes.iter().product();
    let unused = zeros(grad, &[(numel - used.numel()).max(0)])?;
    let all = op::narrow(&op::cat(&[used, unused], 0)?, 0, 0, numel)?;
    op::view(&all, source_sizes)
}

/// Gradient of `take`.
pub fn take_backward(grad: &Tensor, self_sizes: &[i64], index: &Tensor) -> Result<Tensor> {
    op::put(&zeros(grad, self_sizes)?, index, grad, true)
}

/// Gradient of `put` with respect to the tensor written to.
pub fn put_self_backward(grad: &Tensor, index: &Tensor, accumulate: bool) -> Result<Tensor> {
    if accumulate {
        return Ok(grad.clone());
    }
    op::put(grad, index, &zeros(grad, &index.sizes())?, false)
}

/// Gradient of `put` with respect to the source.
pub fn put_source_backward(grad: &Tensor, index: &Tensor, source_sizes: &[i64]) -> Result<Tensor> {
    op::reshape(&op::take(grad, index)?, source_sizes)
}
