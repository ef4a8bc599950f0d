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
use crate::reduce_op::ReduceOp;
use crate::reduction::{self, Combination, Operands};

/// The elements of a dense tensor in the CPU's memory, or scratch memory. Copies name the same bytes.
#[derive(Clone)]
pub(crate) struct Buffer {
    memory: LentMemory,
    offset: usize,
    nbytes: usize,
    dtype: DType,
}

impl Buffer {
    /// The memory of a tensor, for reading or for writing; `call` is named in errors, as `gloo: allreduce`.
    ///
    /// # Errors
    /// `Runtime` for tensors that are not dense, not in memory of the CPU, or must not be written.
    pub(crate) fn of(call: &str, tensor: &Tensor, access: Access) -> Result<Self> {
        let refused = |what: String| DistError::runtime(format!("{call}: {what}"));
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
        let buffer = Self {
            memory: tensor.storage()?.lend()?,
            offset: usize::try_from(tensor.storage_offset()).unwrap_or(0) * tensor.itemsize(),
            nbytes: tensor.nbytes(),
            dtype: tensor.dtype(),
        };
        let end = buffer.offset.checked_add(buffer.nbytes);
        if buffer.nbytes > 0 && end.is_none_or(|end| end > buffer.memory.nbytes()) {
            return Err(refused(String::from("the tensor reaches beyond its storage")));
        }
        if buffer.nbytes > 0 && buffer.memory.start().is_null() {
            return Err(refused(String::from("the tensor has no data")));
        }
        Ok(buffer)
    }

    /// The memory of several tensors.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn of_all(call: &str, tensors: &[Tensor], access: Access) -> Result<Vec<Self>> {
        tensors.iter().map(|tensor| Self::of(call, tensor, access)).collect()
    }

    /// `nbytes` bytes of the call's own, with any contents.
    ///
    /// # Errors
    /// `OutOfMemory` where there is not so much memory.
    pub(crate) fn scratch(nbytes: usize, dtype: DType) -> Result<Self> {
        let memory = Storage::new(nbytes, Device::CPU)?.lend()?;
        Ok(Self { memory, offset: 0, nbytes, dtype })
    }

    /// A copy in scratch memory.
    ///
    /// # Errors
    /// As [`scratch`](Self::scratch).
    pub(crate) fn copied(&self) -> Result<Self> {
        let copy = Self::scratch(self.nbytes, self.dtype)?;
        copy.copy_from(self);
        Ok(copy)
    }

    /// The first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.memory.start().wrapping_add(self.offset)
    }

    /// The first byte, as C functions take it.
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.start().cast()
    }

    /// The size in bytes.
    pub(crate) fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// The dtype of the elements.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements there are.
    pub(crate) fn count(&self) -> usize {
        self.nbytes / self.dtype.itemsize()
    }

    /// `nbytes` bytes from `offset` on.
    ///
    /// # Errors
    /// `Internal` where they are not within.
    pub(crate) fn part(&self, offset: usize, nbytes: usize) -> Result<Self> {
        if offset.checked_add(nbytes).is_none_or(|end| end > self.nbytes) {
            let message = format!("bytes {offset} to {offset} + {nbytes} of {}", self.nbytes);
            return Err(corten_core::err!(Internal, "{message}").into());
        }
        Ok(Self { offset: self.offset + offset, nbytes, ..self.clone() })
    }

    /// The rows of a tensor that belong to each rank, of which `splits` says how many.
    ///
    /// # Errors
    /// As [`part`](Self::part).
    pub(crate) fn rows(&self, splits: &[usize]) -> Result<Vec<Self>> {
        let row = self.nbytes / splits.iter().sum::<usize>().max(1);
        let mut at = 0;
        let part = |&rows: &usize| {
            let part = self.part(at, rows * row);
            at += rows * row;
            part
        };
        splits.iter().map(part).collect()
    }

    /// Whether two have bytes in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (here, there) = (self.start().addr(), other.start().addr());
        let is_empty = self.nbytes == 0 || other.nbytes == 0;
        !is_empty && here < there + other.nbytes && there < here + self.nbytes
    }

    /// Whether they are the same bytes.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.start() == other.start() && self.nbytes == other.nbytes
    }

    /// Copies the bytes of another of the same size.
    pub(crate) fn copy_from(&self, source: &Self) {
        let nbytes = self.nbytes.min(source.nbytes);
        if nbytes > 0 {
            // SAFETY: both memories are alive, have so many bytes and belong to the call; they may overlap.
            unsafe { std::ptr::copy(source.start(), self.start(), nbytes) };
        }
    }

    /// One of the bytes of several, of one dtype: their own memory, where they follow each other in it, else a
    /// copy.
    ///
    /// # Errors
    /// As [`scratch`](Self::scratch).
    pub(crate) fn gathered(buffers: &[Self], dtype: DType) -> Result<Self> {
        if let Some(whole) = Self::joined(buffers) {
            return Ok(whole);
        }
        let whole = Self::scratch(Self::total(buffers)?, dtype)?;
        let mut at = 0;
        for buffer in buffers {
            whole.part(at, buffer.nbytes)?.copy_from(buffer);
            at += buffer.nbytes;
        }
        Ok(whole)
    }

    /// Gives the bytes to those that they are for, one after another.
    ///
    /// # Errors
    /// As [`part`](Self::part).
    pub(crate) fn spread(&self, buffers: &[Self]) -> Result<()> {
        let mut at = 0;
        for buffer in buffers {
            buffer.copy_from(&self.part(at, buffer.nbytes)?);
            at += buffer.nbytes;
        }
        Ok(())
    }

    /// Several as one, where they follow each other in one memory.
    pub(crate) fn joined(buffers: &[Self]) -> Option<Self> {
        let first = buffers.iter().find(|buffer| buffer.nbytes > 0)?;
        let mut whole = first.part(0, 0).ok()?;
        for buffer in buffers.iter().filter(|buffer| buffer.nbytes > 0) {
            let follows = buffer.memory.start() == whole.memory.start()
                && buffer.offset == whole.offset + whole.nbytes;
            if !follows {
                return None;
            }
            whole.nbytes += buffer.nbytes;
        }
        Some(whole)
    }

    /// How many bytes several have.
    ///
    /// # Errors
    /// `Value` where no memory has as many.
    pub(crate) fn total(buffers: &[Self]) -> Result<usize> {
        let mut sizes = buffers.iter().map(Self::nbytes);
        let total = sizes.try_fold(0_usize, |total, nbytes| total.checked_add(nbytes));
        total.ok_or_else(|| DistError::value("the tensors have more bytes than memory has"))
    }

    /// Multiplies the elements with the factor of `op`, if it has one.
    ///
    /// # Errors
    /// As for [`reduction::premultiply`].
    pub(crate) fn premultiply(&self, op: &ReduceOp) -> Result<()> {
        // SAFETY: these elements, which belong to the call.
        unsafe { reduction::premultiply(op, self.dtype, self.start(), self.count()) }
    }

    /// Divides the elements by the number of ranks, if `op` is an average.
    ///
    /// # Errors
    /// As for [`reduction::divide`].
    pub(crate) fn divide(&self, op: &ReduceOp, ranks: usize) -> Result<()> {
        // SAFETY: these elements, which belong to the call.
        unsafe { reduction::divide(op, self.dtype, self.start(), self.count(), ranks) }
    }

    /// Becomes the reduction of operands of its size, which are in the order of ranks; one may be this one.
    ///
    /// # Errors
    /// `Internal` for operands of other sizes, and as for [`reduction::fold`].
    pub(crate) fn reduce(&self, combination: Combination, operands: &[Self]) -> Result<()> {
        if let Some(other) = operands.iter().find(|operand| operand.nbytes != self.nbytes) {
            let message = format!("operands of {} and {} bytes", self.nbytes, other.nbytes);
            return Err(corten_core::err!(Internal, "{message}").into());
        }
        let starts: Vec<*const u8> =
            operands.iter().map(|operand| operand.start().cast_const()).collect();
        let operands = Operands { starts: &starts, factors: &[], divisor: None };
        // SAFETY: each has so many bytes, which belong to the call.
        unsafe { reduction::fold(self.dtype, combination, self.start(), &operands, self.count()) }
    }
}
