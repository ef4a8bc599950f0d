//! Views given by sizes and strides themselves.

use super::with_geometry;
use crate::{Tensor, op};
use corten_core::{Result, ensure, geometry};

/// A view of the storage with these sizes and strides, from `storage_offset` or the own offset.
///
/// # Errors
/// `Runtime` when it reaches beyond the storage.
pub fn as_strided(
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let offset = storage_offset.unwrap_or_else(|| self_.storage_offset());
    check_strided(self_, size, stride, offset)?;
    with_geometry(self_, size, stride, offset)
}

/// Fails unless the geometry is within the tensor's storage.
pub(crate) fn check_strided(
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: i64,
) -> Result<()> {
    ensure!(size.len() == stride.len(), Runtime, "mismatch in length of strides and shape");
    ensure!(
        stride.iter().all(|&stride| stride >= 0),
        Runtime,
        "as_strided: Negative strides are not supported at the moment, got strides: {stride:?}"
    );
    ensure!(offset >= 0, Runtime, "Tensor: invalid storage offset {offset}");
    let itemsize = self_.itemsize();
    let needed = geometry::storage_bytes_needed(size, stride, itemsize, offset)?;
    let available = self_.storage()?.nbytes();
    ensure!(
        // There is nothing to reach beyond.
        self_.device().is_meta() || needed == 0 || needed <= available,
        Runtime,
        "setStorage: sizes {size:?}, strides {stride:?}, storage offset {offset}, and itemsize \
         {itemsize} requiring a storage size of {needed} are out of bounds for storage of size \
         {available}"
    );
    Ok(())
}

/// As `view`, with strides that the caller has computed.
///
/// # Errors
/// `Runtime` when it reaches beyond the storage.
pub fn reshape_alias(self_: &Tensor, size: &[i64], stride: &[i64]) -> Result<Tensor> {
    as_strided(self_, size, stride, None)
}

/// A copy with `src` written through a strided view of it.
///
/// # Errors
/// `Runtime` when shapes differ or the view reaches beyond the storage.
pub fn as_strided_scatter(
    self_: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let copy = super::backward::strided_copy(self_)?;
    let target = as_strided(&copy, size, stride, storage_offset)?;
    super::backward::check_source(src, &target)?;
    op::copy_(&target, src, false)?;
    Ok(copy)
}
