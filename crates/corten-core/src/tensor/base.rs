//! The tensor object.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, Ordering};

use super::autograd_meta::make_autograd_meta;
use super::extra::ExtraCell;
use super::shape::{INLINE, SizesAndStrides};
use super::version::VersionSlot;
use super::{AutogradMeta, ExtraMeta, Geometry, ShapePolicy, VersionCounter};
use crate::access::{retire, with_published};
use crate::geometry::{ContiguityFlags, wrap_dim_strict};
use crate::keys::{ADINPLACEORVIEW, AUTOGRAD_KEYS, PYTHON_KEYS};
use crate::refcount::PyObjectSlot;
use crate::{DType, Device, DeviceType, Dims, DispatchKey, IntrusivePtr, KeySet, Layout};
use crate::{MemoryFormat, RefCount, RefCounted, Result, Storage, StorageImpl, TensorOptions};
use crate::{bail, ensure, err, inference_mode_enabled};

/// A tensor: geometry over a shared storage.
///
/// Note [TensorImpl size]: programs hold 10^8 tensors and more, and every word costs gigabytes
/// there. Rare fields live in [`ExtraMeta`]; dtype, device and flags share one word; the sequence
/// number of the geometry shares one with the rank.
pub struct TensorImpl {
    refcount: RefCount,
    pub(super) storage: AtomicPtr<StorageImpl>,
    autograd_meta: UnsafeCell<MaybeUninit<Box<dyn AutogradMeta>>>,
    extra: AtomicPtr<ExtraCell>,
    pub(super) version: VersionSlot,
    pyobject: PyObjectSlot,
    pub(super) shape: SizesAndStrides,
    pub(super) storage_offset: AtomicI64,
    pub(super) numel: AtomicI64,
    info: AtomicU64,
    keys: AtomicU64,
}

const _: () = assert!(size_of::<TensorImpl>() <= 176, "see Note [TensorImpl size]");

/// The packed word: bits 0..16 dtype, 16..24 device type (255: none), 24..32 index, 32.. flags.
#[derive(Clone, Copy)]
pub(super) struct Info(pub(super) u64);

macro_rules! flags {
    ($($name:ident = $bit:literal),* $(,)?) => {
        impl Info { $(pub(super) const $name: u64 = 1 << (32 + $bit);)* }
    };
}

flags! {
    CONTIGUOUS = 0, CHANNELS_LAST = 1, CHANNELS_LAST_CONTIGUOUS = 2, CHANNELS_LAST_3D = 3,
    CHANNELS_LAST_3D_CONTIGUOUS = 4, DENSE = 5, WRAPPED_NUMBER = 6, METADATA_FIXED = 7,
    RESERVED = 8, STORAGE_THROWS = 9, HAS_AUTOGRAD = 10, SYMBOLIC = 11, POLICY = 12,

}

impl Info {
    const SHAPE_FLAGS: u64 = Self::CONTIGUOUS
        | Self::CHANNELS_LAST
        | Self::CHANNELS_LAST_CONTIGUOUS
        | Self::CHANNELS_LAST_3D
        | Self::CHANNELS_LAST_3D_CONTIGUOUS
        | Self::DENSE;
    const NO_DEVICE: u64 = 0xFF << 16;
    const DTYPE_MASK: u64 = 0xFFFF;
    const DEVICE_MASK: u64 = 0xFFFF << 16;

    pub(super) const fn new(dtype: DType, device: Device) -> Self {
        Self(dtype as u64 | Self::device_bits(device))
    }

    const fn device_bits(device: Device) -> u64 {
        ((device.device_type as u8 as u64) << 16) | ((device.index as u8 as u64) << 24)
    }

    /// The flags of a fresh contiguous shape of fewer than four dimensions.
    pub(super) const PLAIN: u64 = Self::CONTIGUOUS | Self::DENSE;

    pub(super) fn shape_flags(flags: ContiguityFlags) -> u64 {
        let bit = |set: bool, flag: u64| if set { flag } else { 0 };
        bit(flags.contiguous, Self::CONTIGUOUS)
            | bit(flags.channels_last, Self::CHANNELS_LAST)
            | bit(flags.channels_last_contiguous, Self::CHANNELS_LAST_CONTIGUOUS)
            | bit(flags.channels_last_3d, Self::CHANNELS_LAST_3D)
            | bit(flags.channels_last_3d_contiguous, Self::CHANNELS_LAST_3D_CONTIGUOUS)
            | bit(flags.non_overlapping_and_dense, Self::DENSE)
    }

    fn dtype(self) -> DType {
        DType::from_number(self.0 as u16).unwrap_or(DType::Undefined)
    }

    fn device(self) -> Option<Device> {
        let device_type = DeviceType::from_number((self.0 >> 16) as i8)?;
        Some(Device { device_type, index: (self.0 >> 24) as i8 })
    }

    const fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
}

// SAFETY: all fields are atomic, except the autograd state: it is written once while the geometry
// is locked, before the flag that lets others read it, and dropped by the last owner.
unsafe impl Send for TensorImpl {}
// SAFETY: as above.
unsafe impl Sync for TensorImpl {}

// SAFETY: the count is the field of that name.
unsafe impl RefCounted for TensorImpl {
    #[inline]
    fn refcount(&self) -> &RefCount {
        &self.refcount
    }

    fn pyobject_slot(&self) -> Option<&PyObjectSlot> {
        Some(&self.pyobject)
    }

    unsafe fn release_resources(&self) {
        if self.info.load(Ordering::Acquire) & Info::HAS_AUTOGRAD != 0 {
            self.set_flag(Info::HAS_AUTOGRAD, false);
            // SAFETY: the flag said that there is a state, and the caller is the last owner.
            unsafe { (*self.autograd_meta.get()).assume_init_drop() };
        }
        if let Some(storage) = NonNull::new(self.storage.swap(ptr::null_mut(), Ordering::Relaxed)) {
            // SAFETY: the tensor owned this reference.
            drop(unsafe { IntrusivePtr::from_raw(storage) });
        }
    }
}

impl Drop for TensorImpl {
    #[inline]
    fn drop(&mut self) {
        if *self.info.get_mut() & Info::HAS_AUTOGRAD != 0 {
            // SAFETY: the flag says that there is a state.
            unsafe { self.autograd_meta.get_mut().assume_init_drop() };
        }
        if let Some(storage) = NonNull::new(*self.storage.get_mut()) {
            // SAFETY: the tensor owned this reference.
            drop(unsafe { IntrusivePtr::from_raw(storage) });
        }
        if let Some(extra) = NonNull::new(*self.extra.get_mut()) {
            // SAFETY: made by `Box::into_raw` in `extra_cell`.
            drop(unsafe { Box::from_raw(extra.as_ptr()) });
        }
    }
}

/// The one tensor that is not defined.
pub(super) static UNDEFINED: TensorImpl = TensorImpl {
    refcount: RefCount::immortal(),
    storage: AtomicPtr::new(ptr::null_mut()),
    autograd_meta: UnsafeCell::new(MaybeUninit::uninit()),
    extra: AtomicPtr::new(ptr::null_mut()),
    version: VersionSlot::empty(),
    pyobject: PyObjectSlot::empty(),
    shape: SizesAndStrides::new(),
    storage_offset: AtomicI64::new(0),
    numel: AtomicI64::new(0),
    info: AtomicU64::new(
        DType::Undefined as u64 | Info::NO_DEVICE | Info::CONTIGUOUS | Info::DENSE,
    ),
    keys: AtomicU64::new(0),
};

/// What a new tensor starts from.
pub(super) struct Parts {
    pub(super) storage: Option<Storage>,
    pub(super) dtype: DType,
    pub(super) device: Device,
    pub(super) keys: KeySet,
    pub(super) version: VersionSlot,
    pub(super) flags: u64,
}

impl TensorImpl {
    /// A tensor of a given shape; `shape_flags` are those of the shape.
    #[inline(always)]
    pub(super) fn build(
        parts: Parts,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
        numel: i64,
        shape_flags: u64,
    ) -> IntrusivePtr<Self> {
        let info = Info::new(parts.dtype, parts.device).0 | parts.flags | shape_flags;
        let storage = match parts.storage {
            Some(storage) => storage.0.into_raw().as_ptr(),
            None => ptr::null_mut(),
        };
        // SAFETY: every field is written, except for the autograd state, which may be uninitialised.
        let tensor = unsafe {
            IntrusivePtr::<Self>::new_in_place(|place| {
                (&raw mut (*place).refcount).write(RefCount::unique());
                (&raw mut (*place).storage).write(AtomicPtr::new(storage));
                (&raw mut (*place).extra).write(AtomicPtr::new(ptr::null_mut()));
                (&raw mut (*place).version).write(parts.version);
                (&raw mut (*place).pyobject).write(PyObjectSlot::empty());
                SizesAndStrides::build(&raw mut (*place).shape, sizes, strides);
                (&raw mut (*place).storage_offset).write(AtomicI64::new(storage_offset));
                (&raw mut (*place).numel).write(AtomicI64::new(numel));
                (&raw mut (*place).info).write(AtomicU64::new(info));
                (&raw mut (*place).keys).write(AtomicU64::new(parts.keys.0));
            })
        };
        if sizes.len() > INLINE {
            tensor.shape.lock().store(&mut tensor.extra_cell().blocks(), sizes, strides);
        }
        tensor
    }

    #[inline]
    pub(super) fn info(&self) -> Info {
        Info(self.info.load(Ordering::Relaxed))
    }

    pub(super) fn set_flag(&self, flag: u64, set: bool) {
        if set {
            self.info.fetch_or(flag, Ordering::Release);
        } else {
            self.info.fetch_and(!flag, Ordering::Release);
        }
    }

    fn replace_info(&self, mask: u64, bits: u64) {
        let change = |info: u64| Some((info & !mask) | bits);
        // The closure always returns a value, so the update cannot fail.
        let _ = self.info.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    pub(super) fn set_dtype(&self, dtype: DType) {
        self.replace_info(Info::DTYPE_MASK, dtype as u64);
    }

    pub(super) fn set_device(&self, device: Device) {
        self.replace_info(Info::DEVICE_MASK, Info::device_bits(device));
    }

    /// Sizes.
    #[inline]
    pub fn sizes(&self) -> Dims {
        if self.info().has(Info::POLICY) {
            return self.ask_policy(|policy| policy.sizes()).unwrap_or_else(|| self.shape.sizes());
        }
        self.shape.sizes()
    }

    /// Strides, in elements.
    #[inline]
    pub fn strides(&self) -> Dims {
        if self.info().has(Info::POLICY) {
            return self
                .ask_policy(|policy| policy.strides())
                .unwrap_or_else(|| self.shape.strides());
        }
        self.shape.strides()
    }

    #[cold]
    fn ask_policy<R>(&self, question: impl FnOnce(&dyn ShapePolicy) -> Option<R>) -> Option<R> {
        // The lock is given back first: the policy may run foreign code.
        let policy = self.extra_cell_opt()?.parts().policy.clone();
        question(&*policy?)
    }

    /// Installs or removes who answers for sizes, strides, device and layout. Only tensors without
    /// data can have one: kernels rely on the stored geometry of the others.
    pub fn set_shape_policy(&self, policy: Option<Arc<dyn ShapePolicy>>) -> Result<()> {
        let has_data = self.storage_opt().is_some_and(|storage| !storage.data_ptr().is_null());
        ensure!(!has_data, Runtime, "a tensor with data answers for its own sizes");
        let present = policy.is_some();
        let old = std::mem::replace(&mut self.extra_cell().parts().policy, policy);
        self.set_flag(Info::POLICY, present);
        drop(old);
        Ok(())
    }

    /// The stored sizes, strides, offset and element count of one moment.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.shape.consistent(|| {
            let (sizes, strides) = self.shape.copy_both();
            let storage_offset = self.storage_offset.load(Ordering::Relaxed);
            Geometry { sizes, strides, storage_offset, numel: self.numel.load(Ordering::Relaxed) }
        })
    }

    /// The size of one dimension, which may count from the end.
    pub fn size(&self, dim: i64) -> Result<i64> {
        let sizes = self.sizes();
        Ok(sizes[wrap_dim_strict(dim, sizes.len())?])
    }

    /// The stride of one dimension, which may count from the end.
    pub fn stride(&self, dim: i64) -> Result<i64> {
        let strides = self.strides();
        Ok(strides[wrap_dim_strict(dim, strides.len())?])
    }

    /// The number of dimensions.
    #[inline]
    pub fn dim(&self) -> usize {
        if self.info().has(Info::POLICY) { self.sizes().len() } else { self.shape.rank() }
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> i64 {
        if self.info().has(Info::POLICY) {
            return self.sizes().iter().product();
        }
        self.numel.load(Ordering::Relaxed)
    }

    /// Where the element with all indices zero lies in the storage, in elements.
    #[inline]
    pub fn storage_offset(&self) -> i64 {
        self.storage_offset.load(Ordering::Relaxed)
    }

    /// The dtype.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.info().dtype()
    }

    /// Bytes per element.
    #[inline]
    pub fn itemsize(&self) -> usize {
        self.dtype().itemsize()
    }

    /// Bytes of all elements, each counted once.
    pub fn nbytes(&self) -> usize {
        self.numel() as usize * self.itemsize()
    }

    /// The device; of the undefined tensor, the host.
    #[inline]
    pub fn device(&self) -> Device {
        self.device_opt().unwrap_or(Device::CPU)
    }

    /// The device, which only the undefined tensor lacks.
    #[inline]
    pub fn device_opt(&self) -> Option<Device> {
        let info = self.info();
        if info.has(Info::POLICY) {
            return self.ask_policy(|policy| policy.device()).or(info.device());
        }
        info.device()
    }

    /// The dispatch keys.
    #[inline]
    pub fn key_set(&self) -> KeySet {
        KeySet(self.keys.load(Ordering::Relaxed))
    }

    /// Replaces the dispatch keys.
    pub fn set_key_set(&self, keys: KeySet) {
        self.keys.store(keys.0, Ordering::Relaxed);
    }

    /// Adds or removes keys: the conjugate and negative bits, Python keys.
    pub fn set_keys(&self, keys: KeySet, present: bool) {
        if present {
            self.keys.fetch_or(keys.0, Ordering::Relaxed);
        } else {
            self.keys.fetch_and(!(keys.0 & !0xFFFF), Ordering::Relaxed);
        }
    }

    /// The layout, which follows from the keys.
    #[inline]
    pub fn layout(&self) -> Layout {
        if self.info().has(Info::POLICY)
            && let Some(layout) = self.ask_policy(|policy| policy.layout())
        {
            return layout;
        }
        let keys = self.key_set();
        if !keys.has_any(NOT_STRIDED) {
            Layout::Strided
        } else if keys.has(DispatchKey::Sparse) {
            Layout::Sparse
        } else if keys.has(DispatchKey::SparseCsr) {
            Layout::SparseCsr
        } else if keys.has(DispatchKey::MkldnnCPU) {
            Layout::Mkldnn
        } else {
            Layout::Jagged
        }
    }

    /// Whether this is not the undefined tensor.
    #[inline]
    pub fn defined(&self) -> bool {
        !ptr::eq(self, &UNDEFINED)
    }

    /// Whether the elements lie densely in the order of the last dimension first.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.info().has(Info::CONTIGUOUS)
    }

    /// Whether the elements lie densely in the order of a memory format.
    pub fn is_contiguous_for(&self, format: MemoryFormat) -> bool {
        self.info().has(match format {
            MemoryFormat::Contiguous | MemoryFormat::Preserve => Info::CONTIGUOUS,
            MemoryFormat::ChannelsLast => Info::CHANNELS_LAST_CONTIGUOUS,
            MemoryFormat::ChannelsLast3d => Info::CHANNELS_LAST_3D_CONTIGUOUS,
        })
    }

    /// Whether the strides order the dimensions as a channels-last format does, gaps allowed.
    pub fn is_strides_like(&self, format: MemoryFormat) -> bool {
        match format {
            MemoryFormat::ChannelsLast => self.info().has(Info::CHANNELS_LAST),
            MemoryFormat::ChannelsLast3d => self.info().has(Info::CHANNELS_LAST_3D),
            _ => false,
        }
    }

    /// Whether the elements fill a block of memory without gaps and without sharing, in any order.
    #[inline]
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        self.info().has(Info::DENSE)
    }

    /// The memory format that results of this tensor should have.
    pub fn suggest_memory_format(&self) -> MemoryFormat {
        let info = self.info();
        if info.has(Info::CHANNELS_LAST) {
            MemoryFormat::ChannelsLast
        } else if info.has(Info::CHANNELS_LAST_3D) {
            MemoryFormat::ChannelsLast3d
        } else {
            MemoryFormat::Contiguous
        }
    }

    /// Whether the tensor was made from a language number and yields to others in promotion.
    #[inline]
    pub fn is_wrapped_number(&self) -> bool {
        self.info().has(Info::WRAPPED_NUMBER)
    }

    /// Marks a tensor of rank 0 as made from a language number.
    pub fn set_wrapped_number(&self, wrapped: bool) {
        debug_assert!(!wrapped || self.dim() == 0);
        self.set_flag(Info::WRAPPED_NUMBER, wrapped);
    }

    /// Whether the elements are to be read as their conjugates.
    #[inline]
    pub fn is_conj(&self) -> bool {
        self.key_set().has(DispatchKey::Conjugate)
    }

    /// Whether the elements are to be read negated.
    #[inline]
    pub fn is_neg(&self) -> bool {
        self.key_set().has(DispatchKey::Negative)
    }

    /// Whether the tensor was made in inference mode: no recording, no version.
    #[inline]
    pub fn is_inference(&self) -> bool {
        !self.key_set().has_any(AUTOGRAD_KEYS.union(ADINPLACEORVIEW))
    }

    /// What a factory must be asked for to make a tensor like this.
    pub fn options(&self) -> TensorOptions {
        TensorOptions::new().dtype(self.dtype()).device(self.device()).layout(self.layout())
    }

    /// How often the contents were changed in place.
    pub fn version(&self) -> Result<u32> {
        ensure!(!self.is_inference(), Runtime, "Inference tensors do not track version counter.");
        Ok(self.version.current())
    }

    /// Counts one change in place.
    #[inline]
    pub fn bump_version(&self) {
        if !self.is_inference() {
            self.version.bump();
        }
    }

    /// The version counter, to share it.
    pub fn version_counter(&self) -> VersionCounter {
        if self.is_inference() { VersionCounter::disabled() } else { self.version.get_or_create() }
    }

    /// Whether writes to one tensor count as changes of the other.
    pub fn shares_version_with(&self, other: &TensorImpl) -> bool {
        self.version.shares_with(&other.version)
    }

    /// Gives a fresh tensor the counter of another one. A counter that is in use stays.
    pub fn set_version_counter(&self, counter: VersionCounter) -> Result<()> {
        if !self.version.set_once(counter) {
            bail!(Internal, "the tensor already has a version counter");
        }
        Ok(())
    }

    /// The autograd state, if there is one.
    #[inline]
    pub fn autograd_meta(&self) -> Option<&dyn AutogradMeta> {
        if self.info.load(Ordering::Acquire) & Info::HAS_AUTOGRAD == 0 {
            return None;
        }
        // SAFETY: the flag is set after the state, which then stays until the tensor dies.
        Some(unsafe { (*self.autograd_meta.get()).assume_init_ref() }.as_ref())
    }

    /// The autograd state, made now if there is none.
    pub fn autograd_meta_or_init(&self) -> &dyn AutogradMeta {
        loop {
            if let Some(meta) = self.autograd_meta() {
                return meta;
            }
            self.set_autograd_meta(make_autograd_meta());
        }
    }

    /// Installs an autograd state unless there is one. Returns whether it was installed.
    pub fn set_autograd_meta(&self, meta: Box<dyn AutogradMeta>) -> bool {
        if !self.defined() {
            return false;
        }
        let _guard = self.shape.lock();
        if self.info.load(Ordering::Acquire) & Info::HAS_AUTOGRAD != 0 {
            return false;
        }
        // SAFETY: the lock makes this the only writer, and without the flag nobody reads.
        unsafe { (*self.autograd_meta.get()).write(meta) };
        self.set_flag(Info::HAS_AUTOGRAD, true);
        true
    }

    pub(super) fn extra_cell(&self) -> &ExtraCell {
        loop {
            if let Some(cell) = self.extra_cell_opt() {
                return cell;
            }
            let fresh = Box::into_raw(Box::<ExtraCell>::default());
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self.extra.compare_exchange(ptr::null_mut(), fresh, success, failure).is_err() {
                // SAFETY: another thread was faster, so `fresh` was not published.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    fn extra_cell_opt(&self) -> Option<&ExtraCell> {
        // SAFETY: set once, freed with the tensor.
        unsafe { self.extra.load(Ordering::Acquire).as_ref() }
    }

    /// A copy of the rare properties, if there are any.
    pub fn extra_meta(&self) -> Option<ExtraMeta> {
        self.extra_cell_opt().map(|cell| cell.parts().clone())
    }

    /// Changes the rare properties. The closure must not use the tensor.
    pub fn update_extra_meta(&self, change: impl FnOnce(&mut ExtraMeta)) {
        let old = {
            let mut parts = self.extra_cell().parts();
            let old = parts.clone();
            change(&mut parts);
            let throws = parts.data_ptr_error.is_some() || parts.storage_error.is_some();
            self.set_flag(Info::STORAGE_THROWS, throws);
            self.set_flag(Info::SYMBOLIC, parts.symbolic_shape.is_some());
            old
        };
        // Dropped without the lock: a part may run foreign code.
        drop(old);
    }

    /// The names of the dimensions, `None` if none is named.
    pub fn names(&self) -> Option<Box<[Option<Arc<str>>]>> {
        self.extra_cell_opt()?.parts().names.clone()
    }

    /// Whether there is a storage.
    #[inline]
    pub fn has_storage(&self) -> bool {
        !self.storage.load(Ordering::Relaxed).is_null()
    }

    /// The storage, if there is one.
    #[inline]
    pub fn storage_opt(&self) -> Option<Storage> {
        with_published(&self.storage, Storage::from_ref)
    }

    /// The handle, for who enters the storage.
    #[inline(always)]
    pub(crate) fn storage_source(&self) -> &AtomicPtr<StorageImpl> {
        &self.storage
    }

    /// The storage.
    pub fn storage(&self) -> Result<Storage> {
        if self.info().has(Info::STORAGE_THROWS) {
            self.check_storage_allowed()?;
        }
        self.storage_opt().ok_or_else(|| self.no_storage())
    }

    #[cold]
    fn check_storage_allowed(&self) -> Result<()> {
        match self.extra_meta().and_then(|extra| extra.storage_error) {
            Some(message) => Err(err!(NotImplemented, "{message}")),
            None => Ok(()),
        }
    }

    #[cold]
    fn no_storage(&self) -> crate::Error {
        let kind = if self.defined() { self.layout().name() } else { "an undefined" };
        err!(NotImplemented, "Cannot access storage of {kind} tensor")
    }

    /// The address of the element with all indices zero; null if there is no data.
    ///
    /// Reading or writing through it is sound only while the storage's access is held; see
    /// [`crate::access`].
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        if self.numel() == 0 {
            return ptr::null_mut();
        }
        let base = with_published(&self.storage, StorageImpl::data_ptr).unwrap_or(ptr::null_mut());
        if base.is_null() {
            return base;
        }
        base.wrapping_offset(self.storage_offset() as isize * self.itemsize() as isize)
    }

    /// A number that identifies the storage while it lives; 0 if there is none.
    #[inline]
    pub fn storage_key(&self) -> usize {
        self.storage.load(Ordering::Relaxed).addr()
    }

    /// Whether sizes, strides and storage may be changed in place.
    pub fn allows_metadata_change(&self) -> bool {
        !self.info().has(Info::METADATA_FIXED)
    }

    /// Allows or forbids changing sizes, strides and storage in place.
    pub fn set_allow_metadata_change(&self, allowed: bool) {
        self.set_flag(Info::METADATA_FIXED, !allowed);
    }

    pub(super) fn check_metadata_change(&self, operation: &str) -> Result<()> {
        ensure!(
            self.allows_metadata_change(),
            Runtime,
            "{operation} is not allowed on a Tensor created from .data or .detach().\nIf your \
             intent is to change the metadata of a Tensor (such as sizes / strides / storage / \
             storage_offset)\nwithout autograd tracking the change, remove the .data / .detach() \
             call and wrap the change in a `with torch.no_grad():` block."
        );
        ensure!(self.defined(), Runtime, "{operation} is not allowed on an undefined tensor");
        Ok(())
    }

    /// Stores a new geometry; the caller has checked it.
    pub(super) fn store_geometry(
        &self,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
        numel: i64,
    ) {
        let flags = Info::shape_flags(ContiguityFlags::compute(sizes, strides, numel));
        let guard = self.shape.lock();
        if sizes.len() <= INLINE {
            guard.store(&mut Vec::new(), sizes, strides);
        } else {
            guard.store(&mut self.extra_cell().blocks(), sizes, strides);
        }
        self.storage_offset.store(storage_offset, Ordering::Relaxed);
        self.numel.store(numel, Ordering::Relaxed);
        self.replace_info(Info::SHAPE_FLAGS, flags);
    }

    /// Exchanges the storage handle. The old storage stays as long as somebody uses it through
    /// this tensor.
    pub(super) fn swap_storage(&self, storage: Option<Storage>) {
        // A tensor with data answers for its own sizes.
        self.set_flag(Info::POLICY, false);
        let new = storage.map_or(ptr::null_mut(), |storage| storage.0.into_raw().as_ptr());
        let old = {
            let _guard = self.shape.lock();
            self.storage.swap(new, Ordering::SeqCst)
        };
        if let Some(old) = NonNull::new(old) {
            // SAFETY: the tensor owned the reference that is taken out here.
            retire(Storage(unsafe { IntrusivePtr::from_raw(old) }));
        }
    }
}

const NOT_STRIDED: KeySet = KeySet::of(&[
    DispatchKey::Sparse,
    DispatchKey::SparseCsr,
    DispatchKey::MkldnnCPU,
    DispatchKey::NestedTensor,
]);

/// Adds to the keys of a fresh tensor what its backend and the present mode imply.
pub(super) fn extend_keys(keys: KeySet) -> KeySet {
    let keys = (keys - PYTHON_KEYS) | keys.autocast_of_backend();
    if inference_mode_enabled() {
        keys - AUTOGRAD_KEYS.union(ADINPLACEORVIEW)
    } else {
        keys | keys.autograd_of_backend() | ADINPLACEORVIEW
    }
}

impl fmt::Debug for TensorImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.defined() {
            return f.write_str("Tensor(undefined)");
        }
        let geometry = self.geometry();
        write!(
            f,
            "Tensor({} {:?} strides {:?} offset {} on {})",
            self.dtype().name(),
            geometry.sizes.as_slice(),
            geometry.strides.as_slice(),
            geometry.storage_offset,
            self.device()
        )
    }
}
