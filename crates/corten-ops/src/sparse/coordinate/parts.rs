//! The parts of tensors in coordinate format: questions, and tensors made of parts.

use crate::sparse::Coo;
use crate::{Tensor, op};
use corten_core::{
    DType, Device, Layout, MemoryFormat, Result, bail, ensure, err, geometry::checked_numel,
};

/// How many dimensions the indices count.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn sparse_dim(self_: &Tensor) -> Result<i64> {
    Ok(Coo::expect(self_, "sparse_dim")?.sparse_dim())
}

/// How many dimensions each value has.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn dense_dim(self_: &Tensor) -> Result<i64> {
    Ok(Coo::expect(self_, "dense_dim")?.dense_dim())
}

/// How many entries there are, places that come up several times counted as often.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn nnz(self_: &Tensor) -> Result<i64> {
    Ok(Coo::expect(self_, "_nnz")?.nnz())
}

/// Whether the places are known to differ and to be in order.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn is_coalesced(self_: &Tensor) -> Result<bool> {
    Ok(Coo::expect(self_, "is_coalesced")?.coalesced)
}

/// Says that the places differ and are in order, or that this is not known.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn coalesced_(self_: &Tensor, coalesced: bool) -> Result<Tensor> {
    let parts = Coo::expect(self_, "_coalesced_")?;
    Coo { coalesced, ..parts }.put(self_, &self_.sizes())?;
    Ok(self_.clone())
}

/// The indices, whether the places differ or not.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn raw_indices(self_: &Tensor) -> Result<Tensor> {
    op::alias(&Coo::expect(self_, "_indices")?.indices)
}

/// The values, whether the places differ or not.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn raw_values(self_: &Tensor) -> Result<Tensor> {
    op::alias(&Coo::expect(self_, "_values")?.values)
}

/// The indices of a coalesced tensor.
///
/// # Errors
/// `Runtime` where the places may be equal.
pub fn indices(self_: &Tensor) -> Result<Tensor> {
    let parts = Coo::expect(self_, "indices")?;
    ensure!(
        parts.coalesced,
        Runtime,
        "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
    );
    op::alias(&parts.indices)
}

/// The values of a coalesced tensor.
///
/// # Errors
/// `Runtime` where the places may be equal.
pub fn values(self_: &Tensor) -> Result<Tensor> {
    let parts = Coo::expect(self_, "values")?;
    ensure!(
        parts.coalesced,
        Runtime,
        "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
    );
    op::alias(&parts.values)
}

/// A tensor without entries.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn empty(
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(pin_memory != Some(true), Runtime, "Only dense CPU tensors can be pinned");
    with_dims(size.len() as i64, 0, size, dtype, None, device, None)
}

/// A tensor without entries whose first dimensions are counted by indices.
///
/// # Errors
/// `Runtime` where the dimensions do not add up.
pub fn with_dims(
    sparse_dim: i64,
    dense_dim: i64,
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_dims(sparse_dim, dense_dim, size)?;
    let split = sparse_dim as usize;
    let indices =
        op::empty_memory_format(&[sparse_dim, 0], Some(DType::Int64), None, device, None, None)?;
    let mut shape = vec![0];
    shape.extend_from_slice(&size[split..]);
    let values = op::empty_memory_format(&shape, dtype, None, device, None, None)?;
    Coo { indices, values, coalesced: true }.tensor(size)
}

/// That dimensions and sizes add up.
///
/// # Errors
/// `Runtime` where they do not.
pub fn check_dims(sparse_dim: i64, dense_dim: i64, size: &[i64]) -> Result<()> {
    ensure!(
        sparse_dim >= 0 && dense_dim >= 0 && sparse_dim + dense_dim == size.len() as i64,
        Runtime,
        "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {}, sparse_dim = \
         {sparse_dim}, dense_dim = {dense_dim}",
        size.len()
    );
    if let Some(negative) = size.iter().find(|size| **size < 0) {
        bail!(Runtime, "Trying to create tensor with negative dimension {negative}: {size:?}");
    }
    checked_numel(size).map(|_| ())
}

/// A tensor of parts that are not checked beyond their dimensions.
///
/// # Errors
/// `Runtime` where the dimensions do not add up.
pub fn with_dims_and_tensors(
    sparse_dim: i64,
    dense_dim: i64,
    size: &[i64],
    indices: &Tensor,
    values: &Tensor,
    _dtype: Option<DType>,
    _layout: Option<Layout>,
    _device: Option<Device>,
    _pin_memory: Option<bool>,
    is_coalesced: Option<bool>,
) -> Result<Tensor> {
    check_dims(sparse_dim, dense_dim, size)?;
    check_parts(indices, values, size)?;
    let coalesced = is_coalesced.unwrap_or(indices.size(1)? < 2);
    Coo { indices: op::alias(indices)?, values: op::alias(values)?, coalesced }.tensor(size)
}

/// That indices and values have the shapes of parts of a tensor of this size.
///
/// # Errors
/// `Runtime` where they do not fit together.
pub(crate) fn check_parts(indices: &Tensor, values: &Tensor, size: &[i64]) -> Result<()> {
    ensure!(
        indices.dim() == 2,
        Runtime,
        "indices must be sparse_dim x nnz, but got: {:?}",
        indices.sizes().as_slice()
    );
    ensure!(
        indices.dtype() == DType::Int64,
        Runtime,
        "indices must be an int64 tensor, but got {}",
        indices.dtype().type_name()
    );
    let nnz = indices.size(1)?;
    ensure!(
        values.dim() >= 1 && values.size(0)? == nnz,
        Runtime,
        "indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: {}",
        values.sizes().first().copied().unwrap_or(1)
    );
    let (sparse_dim, dense_dim) = (indices.size(0)?, values.dim() as i64 - 1);
    ensure!(
        sparse_dim + dense_dim == size.len() as i64,
        Runtime,
        "number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {}",
        size.len()
    );
    let mut expected = vec![nnz];
    expected.extend_from_slice(&size[sparse_dim as usize..]);
    ensure!(
        values.sizes().as_slice() == expected,
        Runtime,
        "values has incorrect size, expected {expected:?}, got {:?}",
        values.sizes().as_slice()
    );
    ensure!(
        indices.device() == values.device(),
        Runtime,
        "device of indices ({}) must match device of values ({})",
        indices.device(),
        values.device()
    );
    Ok(())
}

/// The size that indices and values ask for.
///
/// # Errors
/// `Runtime` where their shapes do not fit together, or an index is negative.
pub(crate) fn infer_size(indices: &Tensor, values: &Tensor) -> Result<Vec<i64>> {
    ensure!(
        indices.dim() == 2,
        Runtime,
        "indices must be sparse_dim x nnz, but got: {:?}",
        indices.sizes().as_slice()
    );
    let mut size = if indices.size(1)? == 0 {
        // Bounded: as many as dimensions.
        vec![0; indices.size(0)? as usize]
    } else {
        check_not_negative(indices)?;
        let (greatest, _) = op::max_dim(indices, 1, false)?;
        let too_large = || err!(Runtime, "indices name sizes that cannot be counted");
        let sizes = to_vec(&greatest)?.into_iter();
        sizes.map(|index| index.checked_add(1).ok_or_else(too_large)).collect::<Result<_>>()?
    };
    size.extend_from_slice(&values.sizes()[1..]);
    check_parts(indices, values, &size)?;
    Ok(size)
}

fn to_vec(numbers: &Tensor) -> Result<Vec<i64>> {
    (0..numbers.size(0)?)
        .map(|place| Ok(op::item(&op::select_int(numbers, 0, place)?)?.to_i64()))
        .collect()
}

fn check_not_negative(indices: &Tensor) -> Result<()> {
    let (least, _) = op::min_dim(indices, 1, false)?;
    for (dim, least) in to_vec(&least)?.into_iter().enumerate() {
        ensure!(least >= 0, Runtime, "found negative index {least} for dim {dim}");
    }
    Ok(())
}

/// That all places lie within the size.
///
/// # Errors
/// `Runtime` where one does not.
pub(crate) fn check_in_range(indices: &Tensor, size: &[i64]) -> Result<()> {
    if indices.numel() == 0 || indices.device().device_type == corten_core::DeviceType::Meta {
        return Ok(());
    }
    check_not_negative(indices)?;
    let (greatest, _) = op::max_dim(indices, 1, false)?;
    for (dim, greatest) in to_vec(&greatest)?.into_iter().enumerate() {
        ensure!(
            greatest < size[dim],
            Runtime,
            "size is inconsistent with indices: for dim {dim}, size is {} but found index {greatest}",
            size[dim]
        );
    }
    Ok(())
}
