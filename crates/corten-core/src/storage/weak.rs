//! Weak references.

use super::{Storage, StorageImpl};

/// A weak reference to a storage.
///
/// ```
/// use corten_core::{Device, Storage};
///
/// let storage = Storage::new(64, Device::CPU)?;
/// let weak = storage.downgrade();
/// drop(storage);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeakStorage(crate::WeakPtr<StorageImpl>);

impl WeakStorage {
    /// The storage, unless it is gone.
    pub fn upgrade(&self) -> Option<Storage> {
        self.0.upgrade().map(Storage)
    }
}

impl Storage {
    /// A weak reference, for caches of shared storages.
    pub fn downgrade(&self) -> WeakStorage {
        WeakStorage(self.0.downgrade())
    }
}
