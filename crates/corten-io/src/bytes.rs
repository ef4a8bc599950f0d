//! Elements as bytes of files.

use corten_core::{DType, Device, Result, Storage};
use corten_ops::{Tensor, op};

/// The elements of a tensor in row-major order as bytes, wherever it is.
pub(crate) fn of(tensor: &Tensor) -> Result<Vec<u8>> {
    let plain = op::resolve_neg(&op::resolve_conj(&op::detach(tensor)?)?)?;
    let plain = op::to_device(&plain, Device::CPU, plain.dtype(), false, false, None)?;
    op::view_dtype(&op::flatten_using_ints(&plain, 0, -1)?, DType::UInt8)?.to_vec()
}

/// Turns elements of the other byte order round.
pub(crate) fn swap(storage: &Storage, dtype: DType) -> Result<()> {
    let width = if dtype.is_complex() { dtype.itemsize() / 2 } else { dtype.itemsize() };
    if width > 1 {
        let mut bytes = storage.read_bytes()?;
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        storage.write_bytes(0, &bytes)?;
    }
    Ok(())
}

/// Bytes of truth values are 0 or 1, whatever a file holds.
pub(crate) fn only_truths(storage: &Storage) -> Result<()> {
    let mut bytes = storage.read_bytes()?;
    if bytes.iter().any(|&byte| byte > 1) {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        storage.write_bytes(0, &bytes)?;
    }
    Ok(())
}
