//! Small blocks of bytes copied or cleared without a kernel: an iterator would cost many times what
//! the bytes do.

use std::ptr;

use smallvec::SmallVec;

use super::{Access, Blocks};
use crate::{DType, DispatchKey, Element, KeySet, Layout, Result, Scalar, TensorBase, fast_paths};

/// Larger blocks are for the kernels, which have vectors and threads.
const SMALL: usize = 1 << 14;

/// Keys of tensors whose elements are not simply those of their storage.
const INDIRECT: KeySet =
    KeySet::of(&[DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::FuncTorchBatched]);

/// Whether the tensor's bytes are one small block in host memory.
fn is_block(tensor: &TensorBase) -> bool {
    fast_paths()
        && tensor.is_non_overlapping_and_dense()
        && tensor.device().is_cpu()
        && tensor.has_storage()
        && tensor.nbytes() <= SMALL
        && !tensor.key_set().has_any(INDIRECT)
        && tensor.layout() == Layout::Strided
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
        let nbytes = source.nbytes();
        let wanted = [(self, Access::Write, nbytes), (source, Access::Read, nbytes)];
        let mut held = Blocks::none();
        if !held.acquire(&wanted)? {
            return Ok(false);
        }
        // SAFETY: so many bytes of both are held, for writing and reading.
        unsafe { ptr::copy(held.address(1), held.address(0), nbytes) };
        Ok(true)
    }

    /// The element of a tensor of one, if it lies in host memory as it is to be read and is of a
    /// dtype that most numbers have; nothing otherwise.
    ///
    /// # Errors
    /// When the calling thread already writes to the storage.
    pub fn only_element(&self) -> Result<Option<Scalar>> {
        let dtype = self.dtype();
        let known = matches!(dtype, DType::Float32 | DType::Float64 | DType::Int64 | DType::Int32);
        if !known || self.numel() != 1 || !is_block(self) {
            return Ok(None);
        }
        let mut held = Blocks::none();
        if !held.acquire(&[(self, Access::Read, dtype.itemsize())])? {
            return Ok(None);
        }
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

    /// Appends the elements of a small contiguous tensor in host memory to `values`. Returns whether it
    /// is one of this dtype; nothing happens otherwise.
    ///
    /// # Errors
    /// When the calling thread already writes to the storage.
    pub fn append_block_to<T: Element>(&self, values: &mut SmallVec<[T; 16]>) -> Result<bool> {
        // Of bytes that are said to be truth values, not all are.
        let known = T::DTYPE == self.dtype() && T::DTYPE != DType::Bool;
        if !known || !is_block(self) || !self.is_contiguous() {
            return Ok(false);
        }
        let count = self.nbytes() / size_of::<T>();
        let nbytes = count * size_of::<T>();
        let mut held = Blocks::none();
        if count == 0 || !held.acquire(&[(self, Access::Read, nbytes)])? {
            return Ok(count == 0);
        }
        let length = values.len();
        if values.try_reserve(count).is_err() {
            return Err(crate::allocator::out_of_memory(nbytes));
        }
        // SAFETY: so many bytes are held for reading, there is room for them, and every pattern is
        // a value of the type.
        unsafe {
            let to = values.as_mut_ptr().add(length).cast::<u8>();
            ptr::copy_nonoverlapping(held.address(0), to, nbytes);
            values.set_len(length + count);
        }
        Ok(true)
    }

    /// Clears a small tensor without gaps. Returns whether it is one; nothing happens otherwise.
    ///
    /// # Errors
    /// When the calling thread already holds the storage.
    pub fn clear_block(&self) -> Result<bool> {
        if !is_block(self) || self.numel() == 0 {
            return Ok(false);
        }
        let nbytes = self.nbytes();
        let mut held = Blocks::none();
        if !held.acquire(&[(self, Access::Write, nbytes)])? {
            return Ok(false);
        }
        // SAFETY: so many bytes are held for writing.
        unsafe { held.address(0).write_bytes(0, nbytes) };
        Ok(true)
    }
}
