//! The tensor object.

use std::cell::UnsafeCell;
use std::convert::Infallible;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, Ordering};

use super::AutogradMeta;
use super::extra::ExtraCell;
use super::shape::{INLINE, SizesAndStrides};
use super::version::VersionSlot;
use crate::access::retire;
use crate::geometry::ContiguityFlags;
use crate::keys::{ADINPLACEORVIEW, AUTOGRAD_KEYS, NEGATIVE_STRIDES, PYTHON_KEYS};
use crate::refcount::PyObjectSlot;
use crate::{DType, Device, DeviceType, IntrusivePtr, KeySet, RefCount, RefCounted, Result};
use crate::{Storage, StorageImpl, ensure, inference_mode_enabled};

/// A tensor: geometry over a shared storage.
///
/// Note [TensorImpl size]: programs hold 10^8 tensors and more, and every word costs gigabytes
/// there. Rare fields live in [`ExtraMeta`]; dtype, device and flags share one word; the sequence
/// number of the geometry shares one with the rank.
///
/// ```
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[2], TensorOptions::default())?;
/// assert_eq!(x.impl_ptr(), x.clone().impl_ptr());
/// # Ok::<(), corten_core::Error>(())
/// ```
pub struct TensorImpl {
    refcount: RefCount,
    pub(super) storage: AtomicPtr<StorageImpl>,
    pub(super) autograd_meta: UnsafeCell<MaybeUninit<Box<dyn AutogradMeta>>>,
    pub(super) extra: AtomicPtr<ExtraCell>,
    pub(super) version: VersionSlot,
    pyobject: PyObjectSlot,
    pub(super) shape: SizesAndStrides,
    pub(super) storage_offset: AtomicI64,
    pub(super) numel: AtomicI64,
    pub(super) info: AtomicU64,
    pub(super) keys: AtomicU64,
}

const _: () = assert!(size_of::<TensorImpl>() <= 176, "see Note [TensorImpl size]");

/// The packed word: bits 0..16 dtype, 16..24 device type (255: none), 24..32 index, 32..48 flags,
/// 48..64 the version at which a compact view was made.
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
    BRIEF_VIEW = 13, MADE_UNRECORDED = 14,
}

impl Info {
    pub(super) const SHAPE_FLAGS: u64 = Self::CONTIGUOUS
        | Self::CHANNELS_LAST
        | Self::CHANNELS_LAST_CONTIGUOUS
        | Self::CHANNELS_LAST_3D
        | Self::CHANNELS_LAST_3D_CONTIGUOUS
        | Self::DENSE;
    const NO_DEVICE: u64 = 0xFF << 16;
    pub(super) const DTYPE_MASK: u64 = 0xFFFF;
    pub(super) const DEVICE_MASK: u64 = 0xFFFF << 16;
    pub(super) const DEVICE_TYPE: u64 = 0xFF << 16;

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

    #[inline(always)]
    pub(super) fn dtype(self) -> DType {
        DType::from_number(self.0 as u16).unwrap_or(DType::Undefined)
    }

    #[inline]
    pub(super) fn device(self) -> Option<Device> {
        let device_type = DeviceType::from_number((self.0 >> 16) as i8)?;
        Some(Device { device_type, index: (self.0 >> 24) as i8 })
    }

    pub(super) const fn has(self, flag: u64) -> bool {
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
        // The last owner needs no locked instructions: nobody else reads or changes these fields.
        let info = self.info.load(Ordering::Acquire);
        if info & Info::HAS_AUTOGRAD != 0 {
            self.info.store(info & !Info::HAS_AUTOGRAD, Ordering::Relaxed);
            // SAFETY: the flag said that there is a state, and the caller is the last owner.
            unsafe { (*self.autograd_meta.get()).assume_init_drop() };
        }
        self.version.let_go();
        if info & Info::STORAGE_THROWS != 0 {
            let parts = self.extra_parts().and_then(|mut extra| extra.sparse.take());
            drop(parts);
        }
        if let Some(storage) = NonNull::new(self.storage.load(Ordering::Relaxed)) {
            self.storage.store(ptr::null_mut(), Ordering::Relaxed);
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
    version: VersionSlot::own(),
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

/// What is a word in a tensor.
pub(super) struct Words {
    pub(super) storage: *mut StorageImpl,
    pub(super) keys: KeySet,
    pub(super) info: u64,
    pub(super) storage_offset: i64,
    pub(super) numel: i64,
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
        let Ok(tensor) = Self::place(|shape| {
            // More dimensions follow below.
            if shape.set_sizes(sizes).is_some() {
                shape.set_strides(strides);
            }
            let words = Words { storage, keys: parts.keys, info, storage_offset, numel };
            Ok::<_, Infallible>((words, parts.version))
        });
        if sizes.len() > INLINE {
            tensor.shape.lock().store(&mut tensor.extra_cell().blocks(), sizes, strides);
        }
        tensor
    }

    /// A new tensor in its place on the heap. `fill` gives it a shape, which has no dimensions yet, and
    /// says the rest, or fails. See Note [Shapes in place].
    #[inline(always)]
    pub(super) fn place<E>(
        fill: impl FnOnce(&mut SizesAndStrides) -> Result<(Words, VersionSlot), E>,
    ) -> Result<IntrusivePtr<Self>, E> {
        // SAFETY: every field is written, except for the autograd state, which may be uninitialised.
        unsafe {
            IntrusivePtr::try_new_in_place(|place: *mut Self| {
                let shape = &raw mut (*place).shape;
                shape.write(SizesAndStrides::empty());
                let (words, version) = fill(&mut *shape)?;
                (&raw mut (*place).refcount).write(RefCount::unique());
                (&raw mut (*place).storage).write(AtomicPtr::new(words.storage));
                (&raw mut (*place).extra).write(AtomicPtr::new(ptr::null_mut()));
                (&raw mut (*place).version).write(version);
                (&raw mut (*place).pyobject).write(PyObjectSlot::empty());
                (&raw mut (*place).storage_offset).write(AtomicI64::new(words.storage_offset));
                (&raw mut (*place).numel).write(AtomicI64::new(words.numel));
                (&raw mut (*place).info).write(AtomicU64::new(words.info));
                (&raw mut (*place).keys).write(AtomicU64::new(words.keys.0));
                Ok(())
            })
        }
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
        if self.is_sparse() || self.is_sparse_compressed() {
            self.forget_contiguity();
        }
        let keys = self.key_set();
        if keys != keys_of_strides(keys, strides) {
            self.keys.fetch_xor(NEGATIVE_STRIDES.0, Ordering::Relaxed);
        }
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

/// The keys of a tensor of these strides.
///
/// Note [Negative strides]: a tensor has the key `NegativeStrides` if and only if one of its strides is
/// negative. It is the first key of all. Views, which compute with strides alone, pass it; every other
/// operator, also from outside, gets a copy with the strides of a fresh tensor, and what it writes
/// to is copied back, before autograd, batches or a kernel see the call. So the copies are recorded as other
/// calls are, and no kernel can be wrong about strides that it was not written for. Rejected: making the
/// kernels take them, since each of a thousand, and each from outside, would have to be
/// trusted for ever.
#[inline]
pub(super) fn keys_of_strides(keys: KeySet, strides: &[i64]) -> KeySet {
    let signs = strides.iter().fold(0, |signs, &stride| signs | stride);
    if signs < 0 { keys | NEGATIVE_STRIDES } else { keys - NEGATIVE_STRIDES }
}

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
