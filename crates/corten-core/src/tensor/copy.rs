//! Shallow copies and the exchange of contents: `shallow_copy_and_detach`, `set_data`, `set_`.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI64, Ordering};

use super::base::{Info, Parts, TensorImpl, Words};
use super::shape::SizesAndStrides;
use super::version::VersionSlot;
use super::{TensorBase, VersionCounter};
use crate::geometry::{check_in_bounds, checked_numel, storage_bytes_needed};
use crate::keys::PYTHON_KEYS;
use crate::{Backend, DispatchKey, IntrusivePtr, KeySet, RefCounted, Result, Storage, ensure};

/// Flags that a shallow copy carries over.
const COPIED_FLAGS: u64 =
    Info::WRAPPED_NUMBER | Info::RESERVED | Info::STORAGE_THROWS | Info::SYMBOLIC;

impl TensorBase {
    /// [`shallow_copy_and_detach`](Self::shallow_copy_and_detach) with the same version counter.
    pub fn alias(&self) -> Result<Self> {
        let storage = || self.storage_opt();
        match self.copy_words(storage, || VersionSlot::shared_with(&self.0)) {
            Some(copy) => Ok(copy),
            None => self.shallow_copy_and_detach(VersionCounter::Shared, true),
        }
    }

    /// [`alias`](Self::alias) of a tensor that was just made. Where nobody else knows it, that stays
    /// so: the counter moves to the alias, which therefore needs no reference to the tensor.
    ///
    /// # Errors
    /// As [`alias`](Self::alias).
    #[inline]
    pub fn alias_of_fresh(&mut self) -> Result<Self> {
        if !self.0.refcount().is_sole() || !self.version.is_own() {
            return self.alias();
        }
        // SAFETY: the tensor owns a reference to its storage, if there is one, and nobody else can
        // exchange or use it meanwhile; this handle to it is never dropped.
        let owned = unsafe {
            let place = NonNull::new(self.storage.load(Ordering::Relaxed));
            place.map(|place| ManuallyDrop::new(IntrusivePtr::from_raw(place)))
        };
        let storage = || Some(Storage(owned?.clone_exclusive()));
        let Some(mut alias) = self.copy_words(storage, VersionSlot::own) else {
            return self.alias();
        };
        // SAFETY: these are the only references of any kind to both; this one is borrowed exclusively.
        let (tensor, copy) = unsafe { (&mut *self.0.as_ptr(), &mut *alias.0.as_ptr()) };
        std::mem::swap(&mut tensor.version, &mut copy.version);
        tensor.version = VersionSlot::of_new(&mut alias.0);
        Ok(alias)
    }

    /// The same tensor but for autograd state and wrapper. Nothing where that takes more than copying
    /// words: rare properties or many dimensions.
    #[inline(always)]
    fn copy_words(
        &self,
        storage: impl FnOnce() -> Option<Storage>,
        version: impl FnOnce() -> VersionSlot,
    ) -> Option<Self> {
        if !self.extra.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let words = |shape: &mut SizesAndStrides| {
            let (storage_offset, numel, info) = shape.copy_from(&self.shape, || {
                let word = |word: &AtomicI64| word.load(Ordering::Relaxed);
                (word(&self.storage_offset), word(&self.numel), self.info().0)
            })?;
            let kept = Info::DTYPE_MASK | Info::DEVICE_MASK | Info::SHAPE_FLAGS | COPIED_FLAGS;
            let storage = storage().map_or(ptr::null_mut(), |owned| owned.0.into_raw().as_ptr());
            let keys = self.key_set() - PYTHON_KEYS;
            let words = Words { storage, keys, info: info & kept, storage_offset, numel };
            Some((words, version()))
        };
        TensorImpl::place(|shape| words(shape).ok_or(())).ok().map(Self)
    }

    /// A new tensor with the same storage, geometry, dtype, device, keys and rare properties, but
    /// its own autograd state.
    pub fn shallow_copy_and_detach(
        &self,
        version: VersionCounter,
        allow_metadata_change: bool,
    ) -> Result<Self> {
        let geometry = self.geometry();
        let fixed = if allow_metadata_change { 0 } else { Info::METADATA_FIXED };
        let parts = Parts {
            storage: self.storage_opt(),
            dtype: self.dtype(),
            device: self.device(),
            keys: self.key_set() - PYTHON_KEYS,
            version: VersionSlot::of_copy(&self.0, version),
            flags: (self.info().0 & COPIED_FLAGS) | fixed,
        };
        let copy = Self::from_parts(
            parts,
            &geometry.sizes,
            &geometry.strides,
            geometry.storage_offset,
            geometry.numel,
        );
        copy.copy_extra_meta_from(self);
        Ok(copy)
    }

    /// Takes over everything of `source` except version counter, autograd state and wrapper.
    pub fn shallow_copy_from(&self, source: &Self) -> Result<()> {
        ensure!(self.defined(), Runtime, "cannot copy into an undefined tensor");
        let geometry = source.geometry();
        self.drop_names();
        self.swap_storage(source.storage_opt());
        self.set_dtype(source.dtype());
        self.set_device(source.device());
        let kept = self.key_set() & PYTHON_KEYS;
        self.set_key_set((source.key_set() - PYTHON_KEYS) | kept);
        self.store_geometry(
            &geometry.sizes,
            &geometry.strides,
            geometry.storage_offset,
            geometry.numel,
        );
        for flag in [Info::WRAPPED_NUMBER, Info::RESERVED, Info::STORAGE_THROWS, Info::SYMBOLIC] {
            self.set_flag(flag, source.info().0 & flag != 0);
        }
        self.copy_extra_meta_from(source);
        Ok(())
    }

    fn copy_extra_meta_from(&self, source: &Self) {
        if source.quantizer().is_none() && self.extra_parts().is_some_and(|e| e.quantizer.is_some())
        {
            self.update_extra_meta(|parts| parts.quantizer = None);
        }
        if let Some(extra) = source.extra_meta() {
            let is_sparse = extra.sparse.is_some();
            self.update_extra_meta(|parts| *parts = extra.for_copy());
            if is_sparse {
                self.forget_contiguity();
            }
        }
    }

    /// `self.data = other`: takes over the contents of a tensor of a compatible kind.
    pub fn set_data(&self, other: &Self) -> Result<()> {
        ensure!(
            has_compatible_shallow_copy_type(self, other.key_set()),
            Runtime,
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have \
             incompatible tensor type."
        );
        self.shallow_copy_from(other)
    }

    /// Replaces the storage; the geometry stays. The bounds are the caller's to check.
    pub fn set_storage(&self, storage: Storage) -> Result<()> {
        self.check_metadata_change("set_storage")?;
        self.set_device(storage.device());
        self.swap_storage(Some(storage));
        Ok(())
    }

    /// `self.set_(storage, offset, sizes, strides)`. A storage that is too small grows.
    pub fn set_storage_and_geometry(
        &self,
        storage: Storage,
        storage_offset: i64,
        sizes: &[i64],
        strides: &[i64],
    ) -> Result<()> {
        self.check_metadata_change("set_storage")?;
        ensure!(
            sizes.len() == strides.len(),
            Runtime,
            "unequal size length ({}) and stride length ({})",
            sizes.len(),
            strides.len()
        );
        let numel = checked_numel(sizes)?;
        let itemsize = self.itemsize();
        if self.is_quantized() && self.dtype().elements_per_byte() > 1 {
            return self.set_packed_storage(storage, storage_offset, (sizes, strides, numel));
        }
        let needed = storage_bytes_needed(sizes, strides, itemsize, storage_offset)?;
        if storage_offset >= 0 && needed > storage.nbytes() {
            storage.resize(needed)?;
        }
        check_in_bounds(sizes, strides, storage_offset, itemsize, storage.nbytes())?;
        self.set_device(storage.device());
        self.swap_storage(Some(storage));
        self.store_geometry(sizes, strides, storage_offset, numel);
        Ok(())
    }
}

/// Whether a tensor can take over the contents of one with these keys.
pub(super) fn has_compatible_shallow_copy_type(tensor: &TensorImpl, from: KeySet) -> bool {
    let ours = tensor.key_set();
    ours == from
        || [DispatchKey::Dense, DispatchKey::Sparse, DispatchKey::SparseCsr]
            .iter()
            .any(|&kind| is_kind(ours, kind) && is_kind(from, kind))
}

fn is_kind(keys: KeySet, functionality: DispatchKey) -> bool {
    use Backend::*;
    let dense_or_compressed =
        matches!(keys.highest_backend(), Some(Cpu | Cuda | Mps | Hip | Xpu | Hpu | Mtia));
    let sparse = matches!(keys.highest_backend(), Some(Cpu | Cuda | Mps | Hip | Xpu));
    let known = if functionality == DispatchKey::Sparse { sparse } else { dense_or_compressed };
    keys.has(functionality) && known
}
