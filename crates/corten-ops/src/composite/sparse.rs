//! Operators of sparse tensors that are made of others.

use super::support::along;
use crate::sparse::coordinate::parts::{check_in_range, check_parts, infer_size};
use crate::sparse::{Coo, cast};
use crate::{Tensor, op};
use corten_core::{DType, Device, Layout, Result, Scalar, bail, ensure};

/// The entries with different places in order.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn coalesce(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.layout() == Layout::Sparse,
        Runtime,
        "coalesce expected sparse coordinate tensor layout but got {}",
        self_.layout()
    );
    if op::is_coalesced(self_)? { Ok(self_.clone()) } else { op::_coalesce(self_) }
}

/// A tensor without entries.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn of_size(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dims = size.len() as i64;
    op::_sparse_coo_tensor_with_dims(dims, 0, size, dtype, layout, device, pin_memory)
}

/// A tensor of indices and values, as large as the indices ask for.
///
/// # Errors
/// `Runtime` where the parts do not fit together.
pub fn of_indices(
    indices: &Tensor,
    values: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    is_coalesced: Option<bool>,
) -> Result<Tensor> {
    let values = expanded(values)?;
    let size = infer_size(indices, &values)?;
    unsafe_of(indices, &values, &size, dtype, layout, device, pin_memory, is_coalesced)
}

/// A tensor of indices and values of a size that must hold them.
///
/// # Errors
/// `Runtime` where the parts do not fit together.
pub fn of_indices_and_size(
    indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    is_coalesced: Option<bool>,
) -> Result<Tensor> {
    let values = expanded(values)?;
    check_parts(indices, &values, size)?;
    check_in_range(indices, size)?;
    unsafe_of(indices, &values, size, dtype, layout, device, pin_memory, is_coalesced)
}

/// A number as the values of one entry.
fn expanded(values: &Tensor) -> Result<Tensor> {
    if values.dim() == 0 { op::unsqueeze(values, 0) } else { Ok(values.clone()) }
}

/// A tensor of indices and values that are not checked to lie within the size.
///
/// # Errors
/// `Runtime` where the shapes do not fit together.
pub fn unsafe_of(
    indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    is_coalesced: Option<bool>,
) -> Result<Tensor> {
    let mut values = expanded(values)?;
    let mut indices = indices.clone();
    if dtype.is_some_and(|dtype| dtype != values.dtype())
        || device.is_some_and(|device| device != values.device())
    {
        values = op::to_dtype_layout(&values, dtype, None, device, None, false, false, None)?;
    }
    if values.device() != indices.device() && device.is_some() {
        let device = Some(values.device());
        indices = op::to_dtype_layout(&indices, None, None, device, None, false, false, None)?;
    }
    let sparse_dim = indices.sizes().first().copied().unwrap_or(0);
    op::_sparse_coo_tensor_with_dims_and_tensors(
        sparse_dim,
        values.dim() as i64 - 1,
        size,
        &indices,
        &values,
        None,
        None,
        None,
        pin_memory,
        is_coalesced,
    )
}

/// That parts make a tensor of this size.
///
/// # Errors
/// `Runtime` where they do not.
pub fn validate(
    indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    is_coalesced: Option<bool>,
    _check_pinning: Option<bool>,
) -> Result<()> {
    check_parts(indices, values, size)?;
    check_in_range(indices, size)?;
    if is_coalesced == Some(true) {
        let given = Coo { indices: indices.clone(), values: values.clone(), coalesced: false };
        let ordered = crate::sparse::coordinate::entries::coalesced(&given, size)?;
        ensure!(
            ordered.nnz() == given.nnz() && op::equal(&ordered.indices, indices)?,
            Runtime,
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        );
    }
    Ok(())
}

/// The elements that are not zero, in a layout.
///
/// # Errors
/// Those of the conversion.
pub fn to_sparse(
    self_: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    let wanted = layout.unwrap_or(Layout::Sparse);
    if wanted == self_.layout() && blocksize.is_none() && dense_dim.is_none() {
        return Ok(self_.clone());
    }
    op::_to_sparse(self_, Some(wanted), blocksize, dense_dim)
}

/// The elements that are not zero, of which the indices count the first dimensions.
///
/// # Errors
/// Those of the conversion.
pub fn to_sparse_dim(self_: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    if self_.layout() == Layout::Sparse {
        ensure!(
            op::sparse_dim(self_)? == sparse_dim,
            Runtime,
            "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is \
             not supported"
        );
        return Ok(self_.clone());
    }
    op::_to_sparse_sparse_dim(self_, sparse_dim)
}

/// The product of a sparse matrix and a dense one; gradients reach the entries of the sparse one alone.
///
/// # Errors
/// Those of the product.
pub fn mm(sparse: &Tensor, dense: &Tensor) -> Result<Tensor> {
    if sparse.is_sparse() && dense.is_sparse() {
        return op::_sparse_sparse_matmul(sparse, dense);
    }
    if !(sparse.is_sparse() || sparse.is_sparse_compressed()) && dense.is_sparse() {
        return op::t(&mm(&op::t(dense)?, &op::t(sparse)?)?);
    }
    let shape = [sparse.size(0)?, dense.size(-1)?];
    let dtype = Some(dense.dtype());
    let zeros = op::zeros(&shape, dtype, None, Some(dense.device()), None)?;
    op::_sparse_addmm(&zeros, sparse, dense, Scalar::Int(0), Scalar::Int(1))
}

/// The product of a sparse matrix and a dense one, sparse.
///
/// # Errors
/// Those of the product.
pub fn smm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let shape = [self_.size(0)?, mat2.size(1)?];
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    let zeros = op::zeros(&shape, dtype, Some(Layout::Sparse), device, None)?;
    op::sspaddmm(&zeros, self_, mat2, Scalar::Int(0), Scalar::Int(1))
}

/// The sum of all entries.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn sparse_sum(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.layout() == Layout::Sparse || self_.is_sparse_compressed(),
        Runtime,
        "_sparse_sum expected a sparse tensor, but got {}",
        self_.layout()
    );
    op::sum(self_, None)
}

/// The sum of all entries in a dtype.
///
/// # Errors
/// As [`sparse_sum`].
pub fn sparse_sum_dtype(self_: &Tensor, dtype: DType) -> Result<Tensor> {
    op::sum(self_, Some(dtype))
}

/// The sum over dimensions in a dtype.
///
/// # Errors
/// Those of the sum.
pub fn sparse_sum_dim_dtype(self_: &Tensor, dim: &[i64], dtype: DType) -> Result<Tensor> {
    op::_sparse_sum_dim(&op::to_dtype(self_, dtype, false, false, None)?, dim)
}

/// The softmax of the entries along a dimension.
///
/// # Errors
/// Those of the softmax.
pub fn softmax_int(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    op::_sparse_softmax(&in_dtype(self_, dtype)?, dim, false)
}

/// The logarithm of the softmax of the entries along a dimension.
///
/// # Errors
/// Those of the softmax.
pub fn log_softmax_int(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    op::_sparse_log_softmax(&in_dtype(self_, dtype)?, dim, false)
}

fn in_dtype(self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    match dtype.filter(|&dtype| dtype != self_.dtype()) {
        Some(dtype) => op::to_dtype(self_, dtype, false, false, None),
        None => Ok(self_.clone()),
    }
}

/// As many dimensions as indices count.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn dim_i(self_: &Tensor) -> Result<i64> {
    Ok(Coo::expect(self_, "_dimI")?.sparse_dim())
}

/// As many dimensions as each value has.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn dim_v(self_: &Tensor) -> Result<i64> {
    Ok(Coo::expect(self_, "_dimV")?.dense_dim())
}

/// The gradient of the rows that an embedding read: one entry for each index that is not the padding.
///
/// # Errors
/// `Runtime` for gradients that are scaled by frequency.
pub fn embedding_sparse_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    if scale_grad_by_freq {
        bail!(
            Runtime,
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        );
    }
    let features = grad.size(-1)?;
    let mut indices = op::reshape(indices, &[-1])?;
    if grad.numel() == 0 {
        indices = op::narrow(&indices, 0, 0, 0)?;
    }
    let mut values = op::reshape(grad, &[indices.size(0)?, features])?;
    // The gradient outlives the call, after which the indices may be written to.
    let mut indices = op::to_dtype(&indices, DType::Int64, false, true, None)?;
    if padding_idx != -1 {
        let kept = op::ne_scalar(&indices, Scalar::Int(padding_idx))?;
        let kept = op::flatten_using_ints(&op::nonzero(&kept)?, 0, -1)?;
        indices = op::index_select(&indices, 0, &kept)?;
        values = op::index_select(&values, 0, &kept)?;
    }
    let indices = op::unsqueeze(&indices, 0)?;
    let size = [num_weights, features];
    op::_sparse_coo_tensor_unsafe(&indices, &values, &size, None, None, None, None, None)
}

/// The gradient of a gather: one entry for each element that was read.
///
/// # Errors
/// Those of making a tensor.
pub fn gather_sparse_backward(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    grad: &Tensor,
) -> Result<Tensor> {
    let sizes = self_.sizes();
    if self_.dim() == 0 || index.dim() == 0 {
        let places = op::reshape(index, &[1, -1])?;
        let places = if self_.dim() == 0 { op::narrow(&places, 0, 0, 0)? } else { places };
        let values = op::reshape(grad, &[-1])?;
        return op::_sparse_coo_tensor_unsafe(
            &places, &values, &sizes, None, None, None, None, None,
        );
    }
    let dim = corten_core::geometry::wrap_dim(dim, sizes.len())?;
    let (shape, device) = (index.sizes(), Some(index.device()));
    ensure!(
        shape.len() == sizes.len(),
        Runtime,
        "_gather_sparse_backward(): index has {} dimensions, and self has {}",
        shape.len(),
        sizes.len()
    );
    let mut rows = Vec::new();
    for place in 0..sizes.len() {
        if place == dim {
            rows.push(op::reshape(index, &[-1])?);
            continue;
        }
        let positions = op::arange(shape[place].into(), Some(DType::Int64), None, device, None)?;
        let positions = op::expand(&along(&positions, shape.len(), place)?, &shape, false)?;
        rows.push(op::reshape(&positions, &[-1])?);
    }
    let (indices, values) = (op::stack(&rows, 0)?, op::reshape(grad, &[-1])?);
    op::_sparse_coo_tensor_unsafe(
        &cast(&indices, DType::Int64)?,
        &values,
        &sizes,
        None,
        None,
        None,
        None,
        None,
    )
}
