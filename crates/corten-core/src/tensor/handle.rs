//! The handle: one pointer to a [`TensorImpl`].

use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use super::AutogradMeta;
use super::base::{Info, Parts, TensorImpl, UNDEFINED, extend_keys, keys_of_strides};
use super::version::VersionSlot;
use crate::geometry::{ContiguityFlags, checked_numel, fill_in_strides};
use crate::keys::NAMED;
use crate::{DType, IntrusivePtr, KeySet, PyObject, RefCounted, Result, Storage, WeakPtr, ensure};

/// A cheap handle to a tensor, without operators. Clones refer to the same tensor.
///
/// ```
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[2, 3], TensorOptions::default())?;
/// let same = x.clone();
/// assert!(same.is_same(&x));
/// assert_eq!((x.use_count(), x.numel()), (2, 6));
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone)]
pub struct TensorBase(pub(super) IntrusivePtr<TensorImpl>);

const _: () = assert!(size_of::<Option<TensorBase>>() == size_of::<usize>());
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<TensorBase>();
};

impl Deref for TensorBase {
    type Target = TensorImpl;
    #[inline]
    fn deref(&self) -> &TensorImpl {
        &self.0
    }
}

impl Default for TensorBase {
    fn default() -> Self {
        Self::undefined()
    }
}

impl TensorBase {
    /// Whether nobody else holds the tensor and it has no autograd state yet.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        RefCounted::refcount(&*self.0).is_sole()
            && !self.info().has(Info::HAS_AUTOGRAD | Info::BRIEF_VIEW)
    }

    /// Installs an autograd state, without the lock of the geometry where the tensor
    /// [is fresh](Self::is_fresh). Returns whether it was installed.
    #[inline]
    pub fn adopt_autograd_meta(&mut self, meta: Box<dyn AutogradMeta>) -> bool {
        if !self.is_fresh() {
            return self.set_autograd_meta(meta);
        }
        // SAFETY: this is the only reference of any kind, and it is borrowed exclusively.
        let tensor = unsafe { &mut *self.0.as_ptr() };
        tensor.autograd_meta.get_mut().write(meta);
        *tensor.info.get_mut() |= Info::HAS_AUTOGRAD;
        true
    }

    /// The tensor that stands for "none": no dtype, no device, no storage.
    #[inline]
    pub fn undefined() -> Self {
        Self(IntrusivePtr::from_static(&UNDEFINED))
    }

    pub(super) fn from_parts(
        parts: Parts,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
        numel: i64,
    ) -> Self {
        let flags = Info::shape_flags(ContiguityFlags::compute(sizes, strides, numel));
        let keys = keys_of_strides(parts.keys, strides);
        let parts = Parts { keys, ..parts };
        Self(TensorImpl::build(parts, sizes, strides, storage_offset, numel, flags))
    }

    /// A new tensor over a storage. The keys are those of its backend; autograd and autocast keys
    /// are added according to the present mode. The bounds are the caller's to check.
    pub fn new_with_storage(
        storage: Storage,
        dtype: DType,
        keys: KeySet,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
    ) -> Result<Self> {
        check_ranks(sizes, strides)?;
        let numel = checked_numel(sizes)?;
        let device = storage.device();
        let parts = Parts {
            storage: Some(storage),
            dtype,
            device,
            keys: extend_keys(keys),
            version: VersionSlot::own(),
            flags: 0,
        };
        Ok(Self::from_parts(parts, sizes, strides, storage_offset, numel))
    }

    /// A tensor without a storage: sparse and opaque layouts keep their data elsewhere.
    pub fn new_without_storage(
        dtype: DType,
        device: crate::Device,
        keys: KeySet,
        sizes: &[i64],
    ) -> Result<Self> {
        Self::without_storage(dtype, device, keys, sizes, VersionSlot::own())
    }

    /// As [`new_without_storage`](Self::new_without_storage), with the device and the version counter of this
    /// tensor: a view of a tensor without a storage.
    ///
    /// # Errors
    /// Those of that function.
    pub fn view_without_storage(&self, dtype: DType, keys: KeySet, sizes: &[i64]) -> Result<Self> {
        Self::without_storage(dtype, self.device(), keys, sizes, VersionSlot::shared_with(&self.0))
    }

    fn without_storage(
        dtype: DType,
        device: crate::Device,
        keys: KeySet,
        sizes: &[i64],
        version: VersionSlot,
    ) -> Result<Self> {
        super::factory::check_not_negative(sizes)?;
        let numel = checked_numel(sizes)?;
        let strides = crate::geometry::contiguous_strides(sizes)?;
        let keys = extend_keys(keys);
        let parts = Parts { storage: None, dtype, device, keys, version, flags: 0 };
        Ok(Self::from_parts(parts, sizes, &strides, 0, numel))
    }

    /// A view: another geometry over the same storage, with the same keys and version counter. The
    /// bounds are the caller's to check.
    pub fn as_view_of(&self, sizes: &[i64], strides: &[i64], storage_offset: i64) -> Result<Self> {
        if let Some(view) = self.view_by_words(sizes, strides, storage_offset) {
            return Ok(view);
        }
        self.as_view_with(self.dtype(), self.key_set(), sizes, strides, storage_offset)
    }

    /// As [`as_view_of`](Self::as_view_of), with another dtype or other keys.
    pub fn as_view_with(
        &self,
        dtype: DType,
        keys: KeySet,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
    ) -> Result<Self> {
        check_ranks(sizes, strides)?;
        if self.is_quantized() && dtype == self.dtype() {
            self.check_geometry_for_quantizer(sizes, strides, storage_offset)?;
            return self.view_with_quantizer(sizes, strides, storage_offset, self.quantizer());
        }
        let parts = Parts {
            storage: Some(self.storage()?),
            dtype,
            device: self.device(),
            // A view has other dimensions; who made it knows their names.
            keys: keys - NAMED,
            version: VersionSlot::shared_with(&self.0),
            flags: 0,
        };
        Ok(Self::from_parts(parts, sizes, strides, storage_offset, checked_numel(sizes)?))
    }

    /// Whether both handles refer to the same tensor.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// Whether both tensors view the same storage.
    #[inline]
    pub fn is_alias_of(&self, other: &Self) -> bool {
        let key = self.storage_key();
        key != 0 && key == other.storage_key()
    }

    /// How many handles to this tensor there are.
    pub fn use_count(&self) -> usize {
        self.0.use_count()
    }

    /// A weak handle.
    pub fn downgrade(&self) -> WeakTensor {
        WeakTensor(self.0.downgrade())
    }

    /// The address of the tensor object, which identifies it while it lives.
    #[inline]
    pub fn impl_ptr(&self) -> *const TensorImpl {
        self.0.as_ptr()
    }

    /// Gives up the handle for a raw pointer. Undo with [`from_raw`](Self::from_raw).
    #[inline]
    pub fn into_raw(self) -> NonNull<TensorImpl> {
        self.0.into_raw()
    }

    /// Takes over a handle.
    ///
    /// # Safety
    /// `tensor` must come from [`into_raw`](Self::into_raw), each time used once.
    #[inline]
    pub unsafe fn from_raw(tensor: NonNull<TensorImpl>) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { IntrusivePtr::from_raw(tensor) })
    }

    /// Treats a raw pointer as a handle without taking it over.
    ///
    /// # Safety
    /// `tensor` must point to the address of a live [`TensorImpl`] for as long as the result is
    /// used.
    #[inline]
    pub unsafe fn borrow_raw(tensor: &NonNull<TensorImpl>) -> &Self {
        // SAFETY: the handle is one pointer to the tensor, and so is what is borrowed.
        unsafe { &*ptr::from_ref(tensor).cast() }
    }

    /// The Python wrapper, if there is one; the reference is borrowed.
    #[inline]
    pub fn pyobject(&self) -> Option<PyObject> {
        self.0.pyobject()
    }

    /// See [`IntrusivePtr::set_pyobject`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn set_pyobject(&mut self, object: PyObject) -> std::result::Result<(), PyObject> {
        // SAFETY: passed on to the caller.
        unsafe { self.0.set_pyobject(object) }
    }

    /// See [`IntrusivePtr::clear_pyobject`].
    pub fn clear_pyobject(&mut self) -> bool {
        self.0.clear_pyobject()
    }

    /// Replaces sizes, strides and offset. A negative stride asks for the one that a contiguous tensor
    /// would have before the dimensions that follow. The bounds are the caller's to check.
    ///
    /// # Errors
    /// `Runtime` for lists of different lengths, and where elements or strides cannot be counted.
    pub fn set_sizes_and_strides(
        &self,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: impl Into<Option<i64>>,
    ) -> Result<()> {
        self.check_metadata_change("set_sizes_and_strides")?;
        check_ranks(sizes, strides)?;
        self.set_geometry(sizes, &fill_in_strides(sizes, strides)?, storage_offset)
    }

    /// As [`set_sizes_and_strides`](Self::set_sizes_and_strides), with negative strides as they are.
    ///
    /// # Errors
    /// As there.
    pub fn set_geometry(
        &self,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: impl Into<Option<i64>>,
    ) -> Result<()> {
        self.check_metadata_change("set_sizes_and_strides")?;
        check_ranks(sizes, strides)?;
        let numel = checked_numel(sizes)?;
        let storage_offset = storage_offset.into().unwrap_or_else(|| self.storage_offset());
        self.check_geometry_for_quantizer(sizes, strides, storage_offset)?;
        self.store_geometry(sizes, strides, storage_offset, numel);
        Ok(())
    }

    /// Whether `Info` says that the tensor reserved memory; see `ReserveSpace`.
    pub(super) fn is_reserved(&self) -> bool {
        self.info().0 & Info::RESERVED != 0
    }
}

pub(super) fn check_ranks(sizes: &[i64], strides: &[i64]) -> Result<()> {
    ensure!(
        sizes.len() == strides.len(),
        Runtime,
        "dimensionality of sizes ({}) must match dimensionality of strides ({})",
        sizes.len(),
        strides.len()
    );
    Ok(())
}

impl fmt::Debug for TensorBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A weak handle: does not keep the contents.
///
/// ```
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[2], TensorOptions::default())?;
/// let weak = x.downgrade();
/// drop(x);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeakTensor(WeakPtr<TensorImpl>);

impl WeakTensor {
    /// The tensor, unless its contents are gone.
    pub fn upgrade(&self) -> Option<TensorBase> {
        self.0.upgrade().map(TensorBase)
    }

    /// Whether the contents are gone.
    pub fn expired(&self) -> bool {
        self.0.expired()
    }

    /// Whether this refers to the object of `tensor`.
    pub fn is_same(&self, tensor: &TensorBase) -> bool {
        ptr::eq(self.0.as_ptr(), tensor.0.as_ptr())
    }
}
