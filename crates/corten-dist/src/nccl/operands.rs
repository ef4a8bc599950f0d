//! The device memory that a call reads and writes.

use std::ffi::c_void;

use corten_core::{Access, AccessSet};
use corten_ops::Tensor;

use crate::error::{DistError, Result};

/// The elements of a dense tensor on a device.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    pub(super) start: *mut c_void,
    pub(super) count: usize,
    pub(super) nbytes: usize,
}

// SAFETY: the address is of a device; this process only passes it on.
unsafe impl Send for Elements {}

impl Elements {
    /// The memory of a tensor, for reading or for writing, on this device. It stays for work that its
    /// stream has been given once the tensor is recorded there.
    ///
    /// # Errors
    /// `Value` for tensors that are on another device, or not dense.
    pub(super) fn of(tensor: &Tensor, access: Access, device: i8) -> Result<Self> {
        let place = tensor.device();
        if !place.is_cuda() {
            return Err(DistError::value(format!(
                "Tensors must be CUDA and dense, but got a tensor on {place}"
            )));
        }
        if place.index != device {
            return Err(DistError::value(format!(
                "Expected all tensors of a call to be on cuda:{device}, but got one on {place}"
            )));
        }
        if !tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg() {
            return Err(DistError::value("Tensors must be contiguous"));
        }
        let (count, nbytes) = (tensor.numel() as usize, tensor.nbytes());
        if nbytes == 0 {
            return Ok(Self { start: std::ptr::null_mut(), count, nbytes });
        }
        // Entered for a moment: recorded programs run, memory that is shared until it is written is
        // copied, and memory that must not be written says so.
        let set = AccessSet::acquire(&[(tensor, access)])?;
        let start = set.byte_ptr(0);
        drop(set);
        let storage = tensor.storage()?;
        let offset = start.addr().wrapping_sub(storage.data_ptr().addr());
        if offset.checked_add(nbytes).is_none_or(|end| end > storage.nbytes()) {
            return Err(DistError::runtime("nccl: a tensor reaches beyond its storage"));
        }
        Ok(Self { start: start.cast(), count, nbytes })
    }

    /// `nbytes` bytes from `offset` on, which are within this block.
    pub(super) fn bytes(self, offset: usize, nbytes: usize) -> Self {
        Self { start: self.start.wrapping_byte_add(offset), count: nbytes, nbytes }
    }
}
