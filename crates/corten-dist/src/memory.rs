//! The bytes of dense tensors, without operators: of no interest to autograd, modes or versions.

use corten_core::{Access, AccessSet, TensorBase, TensorOptions};
use corten_ops::Tensor;

use crate::error::{DistError, Result};

/// `count` elements of a contiguous tensor from the `start`-th on, as a tensor of one dimension over the
/// same memory that knows nothing of autograd.
///
/// # Errors
/// `Runtime` for elements outside of the tensor, or without a storage.
pub fn part(tensor: &Tensor, start: usize, count: usize) -> Result<Tensor> {
    let numel = tensor.numel() as usize;
    if start.checked_add(count).is_none_or(|end| end > numel) {
        return Err(DistError::runtime(format!(
            "elements {start}.. ({count} of them) lie outside of a tensor with {numel} elements"
        )));
    }
    let storage = tensor.storage()?;
    let offset = tensor.storage_offset() + start as i64;
    Ok(Tensor::from_storage(storage, tensor.dtype(), &[count as i64], &[1], offset)?)
}

/// All elements of a contiguous tensor, as [`part`] gives them.
///
/// # Errors
/// As [`part`].
pub fn flat(tensor: &Tensor) -> Result<Tensor> {
    part(tensor, 0, tensor.numel() as usize)
}

/// Copies the bytes of one contiguous tensor to another; they may overlap.
///
/// # Errors
/// `Runtime` when they do not have as many bytes, or are not contiguous CPU tensors.
pub fn copy_bytes(to: &Tensor, from: &Tensor) -> Result<()> {
    for tensor in [to, from] {
        if !tensor.is_contiguous() || !tensor.device().is_cpu() {
            return Err(DistError::runtime(
                "copies of bytes are for contiguous tensors on the CPU",
            ));
        }
    }
    let count = from.nbytes();
    if to.nbytes() != count {
        return Err(DistError::runtime(format!(
            "a tensor of {} bytes cannot take {count} bytes",
            to.nbytes()
        )));
    }
    if count == 0 {
        return Ok(());
    }
    let set = AccessSet::acquire(&[(to, Access::Write), (from, Access::Read)])?;
    // SAFETY: the set holds both storages and has checked that the geometry of each tensor lies inside
    // of its own; both are contiguous with `count` bytes. `copy` allows that they overlap.
    unsafe { std::ptr::copy(set.byte_ptr(1).cast_const(), set.byte_ptr(0), count) };
    Ok(())
}

/// A contiguous tensor of one dimension with a copy of the bytes.
///
/// # Errors
/// `OutOfMemory`, or as [`copy_bytes`].
pub fn copy_of(tensor: &Tensor) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(tensor.dtype());
    let copy = Tensor::from(TensorBase::empty(&[tensor.numel()], options)?);
    copy_bytes(&copy, tensor)?;
    Ok(copy)
}
