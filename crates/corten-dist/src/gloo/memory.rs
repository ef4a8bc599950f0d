//! The memory that a call reads and writes.
//!
//! # Note [Memory of collectives]
//! A call holds a share in the memory of its tensors (`Storage::lend`), taken when it starts, and does
//! not enter their storages while it runs. Holding the access would be a deadlock: an exchange of
//! borders sends one row of a tensor and receives another, and a rank that computes on one half of a
//! storage while the other half is reduced must get on before its peers can. As with arrays that share
//! memory, what is read or written meanwhile is undefined, but the memory stays: a storage that is
//! resized or replaced leaves the old memory to the call.

use std::ffi::c_void;

use corten_core::{Access, AccessSet, DType, Device, LentMemory, Storage};
use corten_ops::Tensor;

use crate::error::{DistError, Result};

/// The elements of a dense tensor.
#[derive(Clone)]
pub(super) struct Piece {
    memory: LentMemory,
    offset: usize,
    nbytes: usize,
    dtype: DType,
}

impl Piece {
    /// The memory of a tensor, for reading or for writing; `call` is named in errors.
    ///
    /// # Errors
    /// `Runtime` for tensors that are not dense, not in memory of the CPU, not aligned, or must not be
    /// written.
    pub(super) fn of(call: &str, tensor: &Tensor, access: Access) -> Result<Self> {
        let refused = |what: String| DistError::runtime(format!("gloo: {call}: {what}"));
        if !tensor.device().is_cpu() {
            return Err(refused(format!(
                "expected a tensor on the CPU, but got one on {}",
                tensor.device()
            )));
        }
        if !tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg() {
            return Err(refused(String::from("Tensors must be contiguous")));
        }
        // Entered for a moment: recorded programs run, memory that is shared until it is written is
        // copied, and memory that must not be written says so.
        drop(AccessSet::acquire(&[(tensor, access)])?);
        let itemsize = tensor.itemsize();
        let storage = tensor.storage()?;
        let piece = Self {
            memory: storage.lend()?,
            offset: usize::try_from(tensor.storage_offset()).unwrap_or(0) * itemsize,
            nbytes: tensor.nbytes(),
            dtype: tensor.dtype(),
        };
        let end = piece.offset.checked_add(piece.nbytes);
        if piece.nbytes > 0 && end.is_none_or(|end| end > piece.memory.nbytes()) {
            return Err(refused(String::from("the tensor reaches beyond its storage")));
        }
        if !piece.start().addr().is_multiple_of(alignment(itemsize)) {
            return Err(refused(String::from("the tensor's memory is not aligned")));
        }
        Ok(piece)
    }

    /// `nbytes` bytes of the call's own, with any contents.
    ///
    /// # Errors
    /// `OutOfMemory` where there is not so much memory.
    pub(super) fn scratch(nbytes: usize, dtype: DType) -> Result<Self> {
        let memory = Storage::new(nbytes, Device::CPU)?.lend()?;
        Ok(Self { memory, offset: 0, nbytes, dtype })
    }

    /// The pieces of several tensors.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) fn of_all(call: &str, tensors: &[Tensor], access: Access) -> Result<Vec<Self>> {
        tensors.iter().map(|tensor| Self::of(call, tensor, access)).collect()
    }

    /// The first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.memory.start().wrapping_add(self.offset)
    }

    /// The first byte, as C functions take it.
    pub(super) fn pointer(&self) -> *mut c_void {
        self.start().cast()
    }

    /// The size in bytes.
    pub(super) fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// The dtype of the elements.
    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements there are.
    pub(super) fn count(&self) -> usize {
        self.nbytes / self.dtype.itemsize()
    }

    /// `nbytes` bytes from `offset` on, which are within this piece.
    pub(super) fn part(&self, offset: usize, nbytes: usize) -> Self {
        let offset = offset.min(self.nbytes);
        let nbytes = nbytes.min(self.nbytes - offset);
        Self { offset: self.offset + offset, nbytes, ..self.clone() }
    }

    /// Copies the bytes of another piece, of the same size.
    pub(super) fn copy_from(&self, source: &Self) {
        let nbytes = self.nbytes.min(source.nbytes);
        if nbytes > 0 {
            // SAFETY: both memories are alive and have so many bytes; they may overlap.
            unsafe { std::ptr::copy(source.start(), self.start(), nbytes) };
        }
    }

    /// One piece of the bytes of several, of one dtype: their own memory, where they follow each other
    /// in it, else a copy.
    ///
    /// # Errors
    /// As [`scratch`](Self::scratch).
    pub(super) fn gathered(pieces: &[Self], dtype: DType) -> Result<Self> {
        if let Some(whole) = Self::joined(pieces) {
            return Ok(whole);
        }
        let whole = Self::scratch(pieces.iter().map(Self::nbytes).sum(), dtype)?;
        let mut at = 0;
        for piece in pieces {
            whole.part(at, piece.nbytes).copy_from(piece);
            at += piece.nbytes;
        }
        Ok(whole)
    }

    /// Gives the bytes to the pieces they are for, one after another.
    pub(super) fn spread(&self, pieces: &[Self]) {
        let mut at = 0;
        for piece in pieces {
            piece.copy_from(&self.part(at, piece.nbytes));
            at += piece.nbytes;
        }
    }

    /// The pieces as one, where they follow each other in one memory.
    pub(super) fn joined(pieces: &[Self]) -> Option<Self> {
        let first = pieces.iter().find(|piece| piece.nbytes > 0)?;
        let mut whole = first.part(0, 0);
        for piece in pieces.iter().filter(|piece| piece.nbytes > 0) {
            let follows = piece.memory.start() == whole.memory.start()
                && piece.offset == whole.offset + whole.nbytes;
            if !follows {
                return None;
            }
            whole.nbytes += piece.nbytes;
        }
        Some(whole)
    }
}

/// Elements are aligned to their size, complex ones to their parts; 8 bytes are enough for all.
fn alignment(itemsize: usize) -> usize {
    if itemsize == 16 { 8 } else { itemsize.clamp(1, 8) }
}
