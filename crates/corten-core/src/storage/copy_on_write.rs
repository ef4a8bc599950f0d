//! Storages that share one block of memory until one of them is written to.
//!
//! Note [Copy on write]: the memory of a lazy clone belongs to an `Arc`, of which each storage over it has a
//! share as its context. Whoever enters one of them for writing first makes the memory its own: it
//! takes the block where its share is the last one, and copies it otherwise. While there are several shares
//! nobody writes, so that readers of one storage and the copy of another need not know of each other. Two
//! storages that become their own at the same time may both copy; then the block goes with the second.
//! Memory that others can write to without entering, as arrays of NumPy do, is copied at once instead.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::lent::LENDING;
use super::{CHECK_WRITE, COPY_ON_WRITE, FROM_OTHER_PROCESS, Storage, StorageImpl, lock};
use crate::access::Hold;
use crate::{Access, DataPtr, Result};

impl Storage {
    /// A storage of the same contents. Both share the memory until one of them is written to.
    ///
    /// # Errors
    /// `Runtime` for a storage whose data may not be accessed, and where memory must be copied and there
    /// is none.
    pub fn lazy_clone(&self) -> Result<Self> {
        let _hold = Hold::new(&self.0, Access::Read)?;
        self.0.before_access(false)?;
        match self.share_memory() {
            Some(memory) => {
                let allocator = self.allocator()?;
                let clone = Self::build(memory, self.nbytes(), Some(allocator), true);
                clone.0.mark_copy_on_write();
                self.0.mark_copy_on_write();
                Ok(clone)
            }
            None => self.copy(),
        }
    }

    /// Whether the memory is shared with lazy clones, so that the next write makes it the storage's own.
    #[inline]
    pub fn is_copy_on_write(&self) -> bool {
        self.0.has(COPY_ON_WRITE)
    }

    /// Makes the memory the storage's own, as a write would.
    ///
    /// # Errors
    /// `Runtime` where a copy is needed and there is no memory, and for storages that refuse writes.
    pub fn materialise(&self) -> Result<()> {
        if !self.0.has(CHECK_WRITE) {
            return Ok(());
        }
        let _hold = Hold::new(&self.0, Access::Write)?;
        self.0.before_access(true)
    }

    /// One more share in the memory, of a storage whose memory nobody else can write to. The caller is
    /// inside for reading.
    fn share_memory(&self) -> Option<DataPtr> {
        let is_own = self.is_resizable() && !self.0.has(FROM_OTHER_PROCESS);
        if self.data_ptr().is_null() || !(is_own || self.is_copy_on_write()) {
            return None;
        }
        let _lending = lock(&LENDING);
        // SAFETY: the caller keeps writers out and `_lending` those who read or lend.
        let (context, deleter) =
            unsafe { (&mut *self.0.context.get(), &mut *self.0.deleter.get()) };
        let deleter = deleter.as_mut()?;
        // SAFETY: these are the parts of the storage's `DataPtr`.
        let shared =
            unsafe { DataPtr::share_parts(self.data_ptr(), context, deleter, self.device()) };
        // One share is the storage's and one was made here; more are those of lazy clones, or lent.
        let is_lent = !self.is_copy_on_write() && Arc::strong_count(&shared) > 2;
        (!is_lent).then(|| DataPtr::of_share(shared))
    }

    /// A copy in memory of its own. The caller is inside for reading.
    fn copy(&self) -> Result<Self> {
        let allocator = self.allocator()?;
        let copy = Self::with_allocator(self.nbytes(), self.device(), allocator)?;
        if !self.data_ptr().is_null() && !copy.data_ptr().is_null() {
            // SAFETY: both blocks have that many bytes; the caller is inside of one, the other is fresh.
            unsafe { allocator.copy_data(copy.data_ptr(), self.data_ptr(), self.nbytes()) };
        }
        Ok(copy)
    }
}

impl StorageImpl {
    fn mark_copy_on_write(&self) {
        self.flags.fetch_or(COPY_ON_WRITE | CHECK_WRITE, Ordering::Release);
    }

    /// Forgets that the memory is shared.
    pub(super) fn unmark_copy_on_write(&self) {
        // Hooks and refusals are looked at as long as there may be any.
        let others = !self.extra.load(Ordering::Acquire).is_null();
        let bits = if others { COPY_ON_WRITE } else { COPY_ON_WRITE | CHECK_WRITE };
        self.flags.fetch_and(!bits, Ordering::Release);
    }

    /// Makes the memory this storage's own: takes it where nobody else has a share, else copies it. On
    /// errors it stays as it was.
    ///
    /// # Safety
    /// The caller must be inside for writing.
    #[cold]
    pub(super) unsafe fn own_memory(&self) -> Result<()> {
        let data = self.data_ptr();
        // SAFETY: the caller is inside for writing.
        let shared = unsafe { self.replace_data_ptr(DataPtr::borrowed(data, self.device)) };
        let (memory, outcome) = match shared.into_sole() {
            Ok(own) => (own, Ok(())),
            Err(shared) => match self.copy_of(&shared) {
                Ok(copy) => (copy, Ok(())),
                Err(error) => (shared, Err(error)),
            },
        };
        // SAFETY: as above.
        drop(unsafe { self.replace_data_ptr(memory) });
        if outcome.is_ok() {
            self.unmark_copy_on_write();
        }
        outcome
    }

    fn copy_of(&self, shared: &DataPtr) -> Result<DataPtr> {
        // SAFETY: the caller is inside for writing.
        let own = unsafe { *self.allocator.get() };
        let allocator = match own {
            Some(allocator) => allocator,
            None => crate::get_allocator(self.device.device_type)?,
        };
        let mut copy = match self.device.is_cpu() {
            true => allocator.allocate(self.nbytes())?,
            false => allocator.allocate_on(self.nbytes(), self.device.index)?,
        };
        copy.set_device(self.device);
        // SAFETY: both blocks have that many bytes, and nobody writes to memory that is shared.
        unsafe { allocator.copy_data(copy.get(), shared.get(), self.nbytes()) };
        Ok(copy)
    }
}
