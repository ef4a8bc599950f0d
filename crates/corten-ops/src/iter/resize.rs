//! Giving a tensor another shape in place, growing its storage where needed.

use crate::Tensor;
use corten_core::{Dims, Result, geometry, warn};

/// Resizes an output to `sizes`, contiguous, and returns whether it changed.
///
/// Warns when the output has elements, since those are lost.
///
/// # Errors
/// As for [`resize_to`].
pub fn resize_output(output: &Tensor, sizes: &[i64]) -> Result<bool> {
    if *output.sizes() == *sizes {
        return Ok(false);
    }
    if output.numel() != 0 {
        warn(format!(
            "An output with one or more elements was resized since it had shape {:?}, which does \
             not match the required output shape {sizes:?}. This behavior is deprecated, and in a \
             future PyTorch release outputs will not be resized unless they have zero elements. \
             You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements \
             with t.resize_(0).",
            output.sizes().as_slice()
        ));
    }
    resize_to(output, sizes, None)?;
    Ok(true)
}

/// Gives a tensor these sizes, with the given strides or contiguous, at its own offset. The
/// storage grows where it is too small and never shrinks.
///
/// # Errors
/// `Runtime` when the size overflows or the storage cannot be resized; `OutOfMemory`.
pub fn resize_to(tensor: &Tensor, sizes: &[i64], strides: Option<&[i64]>) -> Result<()> {
    let strides: Dims = match strides {
        Some(strides) => strides.into(),
        None => geometry::contiguous_strides(sizes)?,
    };
    let offset = tensor.storage_offset();
    let numel = geometry::checked_numel(sizes)?;
    if numel != 0 {
        let needed = geometry::storage_bytes_needed(sizes, &strides, tensor.itemsize(), offset)?;
        let storage = tensor.storage()?;
        if needed > storage.nbytes() {
            storage.resize(needed)?;
        }
    }
    tensor.set_sizes_and_strides(sizes, &strides, offset)
}
