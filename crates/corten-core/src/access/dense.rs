//! Small blocks of bytes copied or cleared without a kernel: an iterator would cost many times what
//! the bytes do.

use std::ptr;

use super::{Access, AccessSet, Blocks};
use crate::{DType, DispatchKey, KeySet, Layout, Result, Scalar, TensorBase};

/// Larger blocks are for the kernels, which have vectors and threads.
const SMALL: usize = 1 << 14;

/// Keys of tensors whose elements are not simply those of their storage.
const INDIRECT: KeySet =
    KeySet::of(&[DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::FuncTorchBatched]);

/// Whether the tensor's bytes are one small block in host memory.
fn is_block(tensor: &TensorBase) -> bool {
    tensor.is_non_overlapping_and_dense()
        && tensor.device().is_cpu()
        && tensor.has_storage()
        && tensor.nbytes() <= SMALL
        && !tensor.key_set().has_any(INDIRECT)
        && tensor.layout() == Layout::Strided
}

/// Where operand `index` lies in its storage, if all of it does; read once, since other threads may
/// change a geometry at any time.
fn block(set: &AccessSet<'_>, index: usize, tensor: &TensorBase) -> Option<(*mut u8, usize)> {
    let geometry = tensor.geometry();
    let itemsize = tensor.itemsize();
    let nbytes = usize::try_from(geometry.numel).ok()?.checked_mul(itemsize)?;
    let offset = usize::try_from(geometry.storage_offset).ok()?.checked_mul(itemsize)?;
    let (start, available) = set.extent(index);
    let fits = !start.is_null() && offset.checked_add(nbytes)? <= available;
    fits.then(|| (start.wrapping_add(offset), nbytes))
}

impl TensorBase {
    /// Copies the elements of `source` where both tensors are small and lie in memory alike.
    /// Returns whether they did; nothing happens otherwise.
    ///
    /// # Errors
    /// When the calling thread already holds one of the storages in a conflicting way.
    pub fn copy_block_from(&self, source: &Self) -> Result<bool> {
        let alike = self.dtype() == source.dtype()
            && is_block(self)
            && is_block(source)
            && self.sizes() == source.sizes()
            && (self.is_contiguous() && source.is_contiguous()
                || self.strides() == source.strides());
        if !alike || self.numel() == 0 {
            return Ok(alike);
        }
        let set = AccessSet::acquire(&[(self, Access::Write), (source, Access::Read)])?;
        let (Some((to, room)), Some((from, nbytes))) =
            (block(&set, 0, self), block(&set, 1, source))
        else {
            return Ok(false);
        };
        if room != nbytes {
            return Ok(false);
        }
        // SAFETY: both blocks lie within their storages, which are held for reading and writing.
        unsafe { ptr::copy(from, to, nbytes) };
        Ok(true)
    }

    /// The element of a tensor of one, if it lies in host memory as it is to be read and is of a
    /// dtype that most numbers have; nothing otherwise.
    ///
    /// # Errors
    /// When the calling thread already writes to the storage.
    pub fn only_element(&self) -> Result<Option<Scalar>> {
        let known = self.numel() == 1
            && self.device().is_cpu()
            && !self.key_set().has_any(INDIRECT)
            && self.layout() == Layout::Strided;
        let dtype = self.dtype();
        if !known || !matches!(dtype, DType::Float32 | DType::Float64 | DType::Int64 | DType::Int32)
        {
            return Ok(None);
        }
        let Some(held) = Blocks::acquire(&[(self, Access::Read, dtype.itemsize())])? else {
            return Ok(None);
        };
        let at = held.address(0);
        // SAFETY: the bytes of one element are held for reading, and all of these dtypes have a
        // value for each pattern.
        Ok(Some(unsafe {
            match dtype {
                DType::Float32 => Scalar::Float(f64::from(at.cast::<f32>().read_unaligned())),
                DType::Float64 => Scalar::Float(at.cast::<f64>().read_unaligned()),
                DType::Int64 => Scalar::Int(at.cast::<i64>().read_unaligned()),
                _ => Scalar::Int(i64::from(at.cast::<i32>().read_unaligned())),
            }
        }))
    }

    /// Clears a small tensor without gaps. Returns whether it is one; nothing happens otherwise.
    ///
    /// # Errors
    /// When the calling thread already holds the storage.
    pub fn clear_block(&self) -> Result<bool> {
        if !is_block(self) || self.numel() == 0 {
            return Ok(false);
        }
        let set = AccessSet::acquire(&[(self, Access::Write)])?;
        let Some((to, nbytes)) = block(&set, 0, self) else { return Ok(false) };
        // SAFETY: the block lies within its storage, which is held for writing.
        unsafe { to.write_bytes(0, nbytes) };
        Ok(true)
    }
}
