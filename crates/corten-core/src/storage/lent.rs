//! Memory that outlives its place in a storage.

use std::any::Any;
use std::sync::{Arc, Mutex};

use super::{CHECK_WRITE, Storage, lock};
use crate::access::Hold;
use crate::{Access, DataPtr, Device, Result, ensure};

/// Held by who is inside for reading and looks at the owner of the memory, or adds one.
pub(super) static LENDING: Mutex<()> = Mutex::new(());

/// Takes the lock of those who lend.
pub(crate) fn lock_for_fork(guards: &mut Vec<Box<dyn Any>>) {
    guards.push(Box::new(lock(&LENDING)));
}

/// A share in a block of memory, made by [`Storage::lend`].
///
/// Exporters own one: arrays and capsules outlive tensors, and storages are given other memory by
/// `set_`, `resize_`, `share_memory_` and the like.
///
/// ```
/// use corten_core::Storage;
///
/// let storage = Storage::from_vec(vec![1u8, 2, 3, 4]);
/// let lent = storage.lend()?;
/// drop(storage);
/// assert_eq!(lent.slice(1, 2)?.nbytes(), 2);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LentMemory {
    memory: Arc<DataPtr>,
    nbytes: usize,
}

impl LentMemory {
    /// The start of the memory; null if there is none.
    pub fn start(&self) -> *mut u8 {
        self.memory.get()
    }

    /// Size in bytes.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.memory.device()
    }

    /// `nbytes` bytes of the memory, from `offset` on, as a storage that keeps all of it alive. Not
    /// resizable.
    ///
    /// # Errors
    /// `Index` if they are not all within the memory.
    pub fn slice(&self, offset: usize, nbytes: usize) -> Result<Storage> {
        let inside = offset.checked_add(nbytes).is_some_and(|end| end <= self.nbytes);
        ensure!(inside, Index, "bytes {offset}.. of {nbytes} are not within {}", self.nbytes);
        let start = self.start().wrapping_add(offset);
        let data = DataPtr::with_owner(start, Box::new(self.clone()), self.device());
        Ok(Storage::from_data_ptr(data, nbytes))
    }
}

impl Storage {
    /// A share in the memory of now: whatever becomes of the storage, and whatever memory it is given,
    /// this memory stays as long as the share.
    ///
    /// # Errors
    /// `Runtime` for a storage whose data may not be accessed.
    pub fn lend(&self) -> Result<LentMemory> {
        // Whoever is lent the memory writes to it without entering.
        self.flush()?;
        if self.is_copy_on_write() {
            self.materialise()?;
        }
        if self.0.has(CHECK_WRITE) && lock(&self.0.extra().materialise).is_some() {
            let _hold = Hold::new(&self.0, Access::Write)?;
            // SAFETY: `_hold` is for writing. Whoever is lent the memory writes without asking.
            unsafe { self.0.materialise()? };
        }
        let _hold = Hold::new(&self.0, Access::Read)?;
        self.0.before_access(false)?;
        let _lending = lock(&LENDING);
        // SAFETY: `_hold` keeps writers out and `_lending` those who read or lend.
        let (context, deleter) =
            unsafe { (&mut *self.0.context.get(), &mut *self.0.deleter.get()) };
        let memory = match deleter {
            // SAFETY: these are the parts of the storage's `DataPtr`.
            Some(deleter) => unsafe {
                DataPtr::share_parts(self.data_ptr(), context, deleter, self.device())
            },
            None => Arc::new(DataPtr::borrowed(self.data_ptr(), self.device())),
        };
        Ok(LentMemory { memory, nbytes: self.nbytes() })
    }

    /// Shows the owner of the memory to `look`, if the memory is owned by a `T`.
    pub fn with_owner<T: Any, R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let _hold = Hold::new(&self.0, Access::Read).ok()?;
        let (context, deleter) = {
            let _lending = lock(&LENDING);
            // SAFETY: the cells change only while somebody is inside for writing, or lends.
            unsafe { (*self.0.context.get(), *self.0.deleter.get()) }
        };
        // SAFETY: context and deleter came from one `DataPtr`, whose owner stays, lent or not.
        let owner = unsafe { DataPtr::owner_of(context, deleter?) }?;
        owner.downcast_ref().map(look)
    }
}
