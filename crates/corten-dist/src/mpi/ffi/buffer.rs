//! Memory that MPI reads and writes while a call runs.

use std::any::Any;
use std::sync::Arc;

use corten_core::{Access, AccessSet, Element};
use corten_ops::Tensor;

use crate::{DistError, Result};

/// Some bytes of a tensor, or of scratch memory. Copies name the same bytes; the memory lives as long
/// as any of them.
///
/// The bytes of a tensor belong to the call that it was given to until the call's work is done (see
/// [`crate::Engine::start`]): no access of the tensor's storage is held, so that other parts of it can be
/// used meanwhile. The storage lends its memory, so that the bytes stay where they are when it is resized or
/// given other memory.
#[derive(Clone)]
pub(in crate::mpi) struct Buffer {
    start: *mut u8,
    len: usize,
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the owner may be shared, and a buffer gives no references to its bytes, which only the thread
// that runs the call touches.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// Memory for elements of any dtype.
type Unit = u128;

impl Buffer {
    /// The elements of a contiguous tensor in the CPU's memory, which MPI only reads.
    ///
    /// # Errors
    /// `Runtime` where this thread is writing the tensor or it is no such tensor.
    pub(in crate::mpi) fn read(tensor: &Tensor) -> Result<Self> {
        Self::of(tensor, Access::Read)
    }

    /// The elements of a contiguous tensor in the CPU's memory, which MPI writes.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(in crate::mpi) fn write(tensor: &Tensor) -> Result<Self> {
        Self::of(tensor, Access::Write)
    }

    fn of(tensor: &Tensor, access: Access) -> Result<Self> {
        if !tensor.device().is_cpu() || !tensor.is_contiguous() {
            return Err(DistError::value(format!(
                "the mpi back end expects contiguous tensors in the CPU's memory, but got one on {}{}",
                tensor.device(),
                if tensor.is_contiguous() { "" } else { " with gaps between its elements" }
            )));
        }
        // Entering runs what the tensor is waiting for, copies memory that is shared until it is written, and
        // finds accesses that this thread holds.
        drop(AccessSet::acquire(&[(tensor, access)])?);
        let (len, memory) = (tensor.nbytes(), tensor.storage()?.lend()?);
        let offset = usize::try_from(tensor.storage_offset()).unwrap_or(0) * tensor.itemsize();
        if len > 0 && offset.checked_add(len).is_none_or(|end| end > memory.nbytes()) {
            return Err(DistError::runtime("a tensor reaches beyond the memory of its storage"));
        }
        let start = memory.start().wrapping_add(offset);
        if memory.start().is_null() && len > 0 {
            return Err(DistError::runtime("a tensor without data cannot be sent or received"));
        }
        Ok(Self { start, len, owner: Arc::new(memory) })
    }

    /// New memory, filled with zeros.
    ///
    /// # Errors
    /// `OutOfMemory` where there is none.
    pub(in crate::mpi) fn scratch(len: usize) -> Result<Self> {
        let mut owner = corten_core::try_vec(0 as Unit, len.div_ceil(size_of::<Unit>()))?;
        let start = owner.as_mut_ptr().cast();
        Ok(Self { start, len, owner: Arc::new(owner) })
    }

    /// How many bytes there are.
    pub(in crate::mpi) fn len(&self) -> usize {
        self.len
    }

    /// The `len` bytes from `offset` on.
    ///
    /// # Errors
    /// `Internal` where they are not within.
    pub(in crate::mpi) fn part(&self, offset: usize, len: usize) -> Result<Self> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            let message = format!("bytes {offset} to {offset} + {len} of {}", self.len);
            return Err(corten_core::err!(Internal, "{message}").into());
        }
        Ok(Self { start: self.start.wrapping_add(offset), len, owner: self.owner.clone() })
    }

    /// Whether two have bytes in common.
    pub(in crate::mpi) fn overlaps(&self, other: &Self) -> bool {
        let (here, there) = (self.start.addr(), other.start.addr());
        self.len > 0 && other.len > 0 && here < there + other.len && there < here + self.len
    }

    /// Whether they are the same bytes.
    pub(in crate::mpi) fn is(&self, other: &Self) -> bool {
        self.start == other.start && self.len == other.len
    }

    /// Copies the bytes of another of the same length, which may overlap.
    pub(in crate::mpi) fn copy_from(&self, other: &Self) {
        let len = self.len.min(other.len);
        if len > 0 {
            // SAFETY: both are alive, `len` bytes long at least, and belong to the call that runs here.
            unsafe { std::ptr::copy(other.start, self.start, len) };
        }
    }

    /// Replaces every element of type `T`.
    pub(in crate::mpi) fn update<T: Element>(&self, change: impl Fn(T) -> T) {
        let start: *mut T = self.start.cast();
        for index in 0..self.len / size_of::<T>() {
            // SAFETY: the element is within the bytes, which belong to the call that runs here; those of a
            // tensor of `T` are valid elements, and those of scratch memory have been copied from one.
            unsafe {
                let place = start.add(index);
                place.write_unaligned(change(place.read_unaligned()));
            }
        }
    }

    /// Where MPI reads and writes.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.start
    }
}
