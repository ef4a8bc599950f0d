//! The memory behind tensors: reference counted, without a dtype, guarded by an access state.

mod bytes;
mod copy_on_write;
mod lent;
mod pending;
mod weak;

use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

pub use lent::LentMemory;
pub(crate) use lent::lock_for_fork;
use pending::PendingUse;
pub use pending::{Deferred, Programs, run_programs};
pub use pending::{DeferredFlush, flush_deferred, set_deferred_flush};
pub use weak::WeakStorage;

use crate::access::{AccessState, Hold, slots};
use crate::allocator::{Allocator, get_allocator};
use crate::refcount::PyObjectSlot;
use crate::{Access, DataPtr, Deleter, Device, IntrusivePtr, RefCount, RefCounted, Result};
use crate::{bail, ensure};

/// Bytes on a device, shared by the tensors that view them.
///
/// The contents may be read or written only by who has entered; see [`crate::access`]. Pointer, size
/// and allocator change only while somebody is inside for writing.
///
/// ```
/// use corten_core::{Device, Storage};
///
/// let storage = Storage::new(64, Device::CPU)?;
/// assert_eq!(storage.as_intrusive().nbytes(), 64);
/// # Ok::<(), corten_core::Error>(())
/// ```
pub struct StorageImpl {
    refcount: RefCount,
    data: AtomicPtr<u8>,
    context: UnsafeCell<*mut c_void>,
    deleter: UnsafeCell<Option<Deleter>>,
    device: Device,
    flags: AtomicU8,
    nbytes: AtomicUsize,
    allocator: UnsafeCell<Option<&'static dyn Allocator>>,
    access: AccessState,
    pyobject: PyObjectSlot,
    extra: AtomicPtr<Extra>,
}

const _: () = assert!(size_of::<StorageImpl>() <= 96, "see Note [TensorImpl size]");

const RESIZABLE: u8 = 1;
const CHECK_WRITE: u8 = 2;
const CHECK_ACCESS: u8 = 4;
const FROM_OTHER_PROCESS: u8 = 8;
const COPY_ON_WRITE: u8 = 16;
/// A recorded program will read or write the contents.
const PENDING: u8 = 32;
/// The memory is not resizable, but nobody else has it.
const OWN: u8 = 64;

/// Rare properties, kept out of line.
#[derive(Default)]
struct Extra {
    materialise: Mutex<Option<Materialise>>,
    access_error: Mutex<Option<String>>,
    write_error: Mutex<Option<String>>,
    /// Taken first by who changes what decides the checks.
    pending: Mutex<Vec<PendingUse>>,
}

/// Runs once before the first write to a storage, for instance to make copy-on-write memory its
/// own. Gets the present memory and returns what replaces it.
pub type Materialise = Box<dyn FnOnce(DataPtr, usize) -> Result<DataPtr> + Send>;

// SAFETY: the cells are read and written only by whoever is inside for writing, by whoever is inside
// for reading and holds `LENDING`, or by the last owner; everything else is atomic.
unsafe impl Send for StorageImpl {}
// SAFETY: as above.
unsafe impl Sync for StorageImpl {}

// SAFETY: the count is the field of that name.
unsafe impl RefCounted for StorageImpl {
    #[inline]
    fn refcount(&self) -> &RefCount {
        &self.refcount
    }

    fn pyobject_slot(&self) -> Option<&PyObjectSlot> {
        Some(&self.pyobject)
    }

    unsafe fn release_resources(&self) {
        // SAFETY: the caller is the last owner.
        drop(unsafe { self.replace_data_ptr(DataPtr::null(self.device)) });
        self.forget_uses();
    }
}

impl StorageImpl {
    #[inline(always)]
    fn new(
        data: DataPtr,
        nbytes: usize,
        allocator: Option<&'static dyn Allocator>,
        resizable: bool,
    ) -> Self {
        let (data, context, deleter, device) = data.into_parts();
        Self {
            refcount: RefCount::unique(),
            data: AtomicPtr::new(data),
            context: UnsafeCell::new(context),
            deleter: UnsafeCell::new(Some(deleter)),
            device,
            flags: AtomicU8::new(if resizable { RESIZABLE } else { 0 }),
            nbytes: AtomicUsize::new(nbytes),
            allocator: UnsafeCell::new(allocator),
            access: AccessState::biased_to(slots()),
            pyobject: PyObjectSlot::empty(),
            extra: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Swaps the memory.
    ///
    /// # Safety
    /// The caller must be inside for writing or be the last owner.
    unsafe fn replace_data_ptr(&self, new: DataPtr) -> DataPtr {
        let (data, context, deleter, _) = new.into_parts();
        let old_data = self.data.swap(data, Ordering::Relaxed);
        // SAFETY: the caller has exclusive access to the cells; context and deleter came from one
        // `DataPtr` and go into one.
        unsafe {
            let old_context = ptr::replace(self.context.get(), context);
            match ptr::replace(self.deleter.get(), Some(deleter)) {
                Some(old) => DataPtr::new(old_data, old_context, old, self.device),
                None => DataPtr::borrowed(old_data, self.device),
            }
        }
    }

    /// Size in bytes.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.nbytes.load(Ordering::Relaxed)
    }

    /// The device; never changes.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// The start of the memory; null for meta and empty storages. May only be dereferenced by who
    /// has entered.
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        self.data.load(Ordering::Relaxed)
    }

    /// Who is inside.
    #[inline]
    pub(crate) fn access(&self) -> &AccessState {
        &self.access
    }

    /// Whether the storage may be resized: it knows its allocator.
    pub fn is_resizable(&self) -> bool {
        self.has(RESIZABLE)
    }

    /// Whether the memory belongs to another process.
    pub fn is_from_other_process(&self) -> bool {
        self.has(FROM_OTHER_PROCESS)
    }

    /// Marks the memory as belonging to another process.
    pub fn set_from_other_process(&self) {
        self.flags.fetch_or(FROM_OTHER_PROCESS, Ordering::Relaxed);
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    fn extra(&self) -> &Extra {
        let present = self.extra.load(Ordering::Acquire);
        if !present.is_null() {
            // SAFETY: set once, freed with the storage.
            return unsafe { &*present };
        }
        let fresh = Box::into_raw(Box::<Extra>::default());
        let swap = self.extra.compare_exchange(
            ptr::null_mut(),
            fresh,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match swap {
            // SAFETY: just stored; freed with the storage.
            Ok(_) => unsafe { &*fresh },
            Err(present) => {
                // SAFETY: `fresh` was not published; `present` is set once, freed with the storage.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*present
                }
            }
        }
    }

    /// What must happen once the contents are entered: refusals, and materialise hooks for writing.
    #[inline]
    pub(crate) fn before_access(&self, write: bool) -> Result<()> {
        if self.must_check(write) { self.run_checks(write) } else { Ok(()) }
    }

    /// Whether there is something to do [before the contents are accessed](Self::before_access).
    #[inline]
    pub(crate) fn must_check(&self, write: bool) -> bool {
        // Whoever took a check away has written what it was about.
        let flags = self.flags.load(Ordering::Acquire);
        flags & if write { CHECK_ACCESS | CHECK_WRITE } else { CHECK_ACCESS } != 0
    }

    #[cold]
    fn run_checks(&self, write: bool) -> Result<()> {
        if !self.extra.load(Ordering::Acquire).is_null() {
            self.check_refusals(write)?;
        }
        if !write {
            return Ok(());
        }
        if self.has(COPY_ON_WRITE) {
            // SAFETY: with `write` the caller is inside for writing.
            unsafe { self.own_memory()? };
        }
        if self.extra.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.materialise() }
    }

    fn check_refusals(&self, write: bool) -> Result<()> {
        let extra = self.extra();
        if let Some(message) = lock(&extra.access_error).clone() {
            bail!(Runtime, "{message}");
        }
        if !write {
            return Ok(());
        }
        if let Some(message) = lock(&extra.write_error).clone() {
            bail!(Runtime, "{message}");
        }
        Ok(())
    }

    /// Runs the hook that is pending, if there is one.
    ///
    /// # Safety
    /// The caller must be inside for writing.
    #[cold]
    unsafe fn materialise(&self) -> Result<()> {
        let Some(materialise) = lock(&self.extra().materialise).take() else { return Ok(()) };
        // SAFETY: the caller is inside for writing.
        let old = unsafe { self.replace_data_ptr(DataPtr::null(self.device)) };
        let new = materialise(old, self.nbytes())?;
        // SAFETY: as above.
        drop(unsafe { self.replace_data_ptr(new) });
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for StorageImpl {
    fn drop(&mut self) {
        if let Some(deleter) = *self.deleter.get_mut() {
            let (data, context) = (*self.data.get_mut(), *self.context.get_mut());
            // SAFETY: context and deleter came from one `DataPtr`.
            drop(unsafe { DataPtr::new(data, context, deleter, self.device) });
        }
        let extra = *self.extra.get_mut();
        if !extra.is_null() {
            // SAFETY: made by `Box::into_raw` in `extra`, and nobody else is left.
            drop(unsafe { Box::from_raw(extra) });
        }
    }
}

impl fmt::Debug for StorageImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p} on {}", self.nbytes(), self.data_ptr(), self.device)
    }
}

/// A handle to a [`StorageImpl`].
///
/// ```
/// use corten_core::{Device, Storage};
///
/// let storage = Storage::new(64, Device::CPU)?;
/// storage.resize(128)?;
/// assert_eq!((storage.nbytes(), storage.use_count()), (128, 1));
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Storage(pub(crate) IntrusivePtr<StorageImpl>);

const _: () = assert!(size_of::<Option<Storage>>() == size_of::<usize>());

impl Storage {
    /// `nbytes` fresh bytes from the allocator of the device. The contents are arbitrary.
    #[inline]
    pub fn new(nbytes: usize, device: Device) -> Result<Self> {
        let allocator = get_allocator(device.device_type)?;
        Self::with_allocator(nbytes, device, allocator)
    }

    /// `nbytes` fresh bytes from a given allocator.
    #[inline]
    pub fn with_allocator(
        nbytes: usize,
        device: Device,
        allocator: &'static dyn Allocator,
    ) -> Result<Self> {
        let mut data = match device.is_cpu() {
            true => allocator.allocate(nbytes)?,
            false => allocator.allocate_on(nbytes, device.index)?,
        };
        if data.device().device_type != device.device_type {
            data.set_device(device);
        }
        Ok(Self::build(data, nbytes, Some(allocator), true))
    }

    /// Memory that exists already and belongs to the storage from now on. Not resizable.
    pub fn from_data_ptr(data: DataPtr, nbytes: usize) -> Self {
        Self::build(data, nbytes, None, false)
    }

    /// `nbytes` bytes of host memory at `data` that are kept alive by `owner`. Not resizable.
    ///
    /// # Safety
    /// The memory must be valid for reads and writes of `nbytes` bytes while `owner` lives, and
    /// nobody else may touch it at the same time as a holder of the storage's access word.
    pub unsafe fn from_owner(
        owner: Box<dyn Any + Send + Sync>,
        data: *mut u8,
        nbytes: usize,
    ) -> Self {
        Self::from_data_ptr(DataPtr::with_owner(data, owner, Device::CPU), nbytes)
    }

    /// The bytes of a vector, without a copy. Not resizable.
    pub fn from_vec<T: crate::Element>(mut elements: Vec<T>) -> Self {
        let (data, nbytes) = (elements.as_mut_ptr().cast(), size_of_val(elements.as_slice()));
        // SAFETY: the vector owns the memory, is kept alive and out of everybody's reach.
        let storage = unsafe { Self::from_owner(Box::new(elements), data, nbytes) };
        storage.mark_own();
        storage
    }

    /// Says that nobody else has the memory.
    pub(crate) fn mark_own(&self) {
        self.0.flags.fetch_or(OWN, Ordering::Relaxed);
    }

    /// What is in a file, for this process alone: changes do not reach the file. It is mapped, so that
    /// what is used is read; a build without the feature `mmap` reads it whole.
    ///
    /// # Errors
    /// `Runtime` with the reason of the system.
    pub fn of_file(path: &std::path::Path) -> Result<Self> {
        #[cfg(all(unix, feature = "mmap"))]
        return Self::from_file(path, crate::mapped::Sharing::Private, 0);
        #[cfg(not(all(unix, feature = "mmap")))]
        Self::read_file(path)
    }

    #[cfg(not(all(unix, feature = "mmap")))]
    fn read_file(path: &std::path::Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| {
            crate::err!(Runtime, "unable to read file <{}>: {error}", path.display())
        })?;
        let storage = Self::new(bytes.len(), Device::CPU)?;
        storage.write_bytes(0, &bytes)?;
        Ok(storage)
    }

    /// A new handle to a storage that somebody holds.
    #[inline]
    pub(crate) fn from_ref(storage: &StorageImpl) -> Self {
        // SAFETY: who lends the reference keeps the storage alive.
        Self(unsafe { IntrusivePtr::clone_from_raw(ptr::NonNull::from_ref(storage)) })
    }

    #[inline(always)]
    fn build(
        data: DataPtr,
        nbytes: usize,
        allocator: Option<&'static dyn Allocator>,
        resizable: bool,
    ) -> Self {
        let fresh = || StorageImpl::new(data, nbytes, allocator, resizable);
        // SAFETY: the whole object is written.
        Self(unsafe { IntrusivePtr::new_in_place(|place: *mut StorageImpl| place.write(fresh())) })
    }

    /// Size in bytes.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.0.nbytes()
    }

    /// The device.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.device()
    }

    /// See [`StorageImpl::data_ptr`].
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        self.0.data_ptr()
    }

    /// Whether the storage may be resized.
    pub fn is_resizable(&self) -> bool {
        self.0.is_resizable()
    }

    /// Takes the right to resize away: the memory has been lent to somebody else.
    pub fn forbid_resizing(&self) {
        self.0.flags.fetch_and(!RESIZABLE, Ordering::Relaxed);
    }

    /// How many handles there are, those inside tensors included, and those of recorded programs not: what nobody
    /// else holds may be overwritten by one more call.
    pub fn use_count(&self) -> usize {
        let all = self.0.use_count();
        if self.is_pending() { all.saturating_sub(self.count_uses()) } else { all }
    }

    /// Whether both are the same storage.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// A number that identifies the storage while it lives.
    #[inline]
    pub fn key(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// The allocator that resizing asks.
    fn allocator(&self) -> Result<&'static dyn Allocator> {
        // SAFETY: callers are inside for writing.
        match unsafe { *self.0.allocator.get() } {
            Some(allocator) => Ok(allocator),
            None => get_allocator(self.device().device_type),
        }
    }

    /// Moves the contents to fresh memory of `nbytes` bytes. The tail of a larger memory is
    /// arbitrary.
    pub fn resize(&self, nbytes: usize) -> Result<()> {
        let _hold = Hold::new(&self.0, Access::Write)?;
        ensure!(self.is_resizable(), Runtime, "Trying to resize storage that is not resizable");
        self.0.before_access(true)?;
        let allocator = self.allocator()?;
        let fresh = allocator.allocate_on(nbytes, self.device().index)?;
        let kept = nbytes.min(self.nbytes());
        if kept > 0 && !self.data_ptr().is_null() && !fresh.get().is_null() {
            // SAFETY: both blocks have at least `kept` bytes; `_hold` is for writing.
            unsafe { allocator.copy_data(fresh.get(), self.data_ptr(), kept) };
        }
        // SAFETY: `_hold` is for writing.
        drop(unsafe { self.0.replace_data_ptr(fresh) });
        self.0.nbytes.store(nbytes, Ordering::Relaxed);
        Ok(())
    }

    /// Replaces memory and size and returns the old memory. The storage is resizable afterwards
    /// only if it was before.
    pub fn set_data_ptr(&self, data: DataPtr, nbytes: usize) -> Result<DataPtr> {
        let _hold = Hold::new(&self.0, Access::Write)?;
        ensure!(
            data.device().device_type == self.device().device_type,
            Runtime,
            "the new memory is on {}, the storage on {}",
            data.device(),
            self.device()
        );
        // SAFETY: `_hold` is for writing.
        let old = unsafe { self.0.replace_data_ptr(data) };
        self.0.unmark_copy_on_write();
        self.0.nbytes.store(nbytes, Ordering::Relaxed);
        Ok(old)
    }

    /// Exchanges the memory of a storage that nobody else holds for memory of somebody else.
    pub fn share_external_pointer(&self, data: DataPtr, nbytes: usize) -> Result<()> {
        ensure!(
            self.use_count() == 1,
            Runtime,
            "UniqueStorageShareExternalPointer can only be called when use_count == 1"
        );
        drop(self.set_data_ptr(data, nbytes)?);
        let _hold = Hold::new(&self.0, Access::Write)?;
        // SAFETY: `_hold` is for writing.
        unsafe { *self.0.allocator.get() = None };
        self.0.flags.fetch_and(!RESIZABLE, Ordering::Relaxed);
        Ok(())
    }

    /// Copies the contents to other memory of at least the same size, which becomes the storage's.
    /// The storage is not resizable afterwards.
    #[cfg(all(unix, feature = "mmap"))]
    pub(crate) fn move_to(&self, data: DataPtr) -> Result<()> {
        let _hold = Hold::new(&self.0, Access::Write)?;
        self.0.before_access(true)?;
        let allocator = self.allocator()?;
        if !self.data_ptr().is_null() && !data.get().is_null() {
            // SAFETY: both blocks have `nbytes` bytes, and `_hold` is for writing.
            unsafe { allocator.copy_data(data.get(), self.data_ptr(), self.nbytes()) };
        }
        // SAFETY: `_hold` is for writing.
        unsafe {
            drop(self.0.replace_data_ptr(data));
            *self.0.allocator.get() = None;
        }
        self.0.flags.fetch_and(!RESIZABLE, Ordering::Relaxed);
        Ok(())
    }

    /// Frees the memory and sets the size to zero.
    pub fn reset(&self) -> Result<()> {
        drop(self.set_data_ptr(DataPtr::null(self.device()), 0)?);
        Ok(())
    }

    /// Installs a hook that runs once, before the first write. Only one can be pending.
    pub fn set_materialise(&self, materialise: Materialise) -> Result<()> {
        let _hold = Hold::new(&self.0, Access::Write)?;
        let _checks = lock(&self.0.extra().pending);
        let mut slot = lock(&self.0.extra().materialise);
        ensure!(slot.is_none(), Runtime, "the storage already has a materialise hook");
        *slot = Some(materialise);
        self.0.flags.fetch_or(CHECK_WRITE, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the contents may be changed.
    pub fn is_writable(&self) -> bool {
        !self.0.has(CHECK_WRITE) || lock(&self.0.extra().write_error).is_none()
    }

    /// Makes every later write fail with `message`; `None` allows writes again.
    pub fn set_write_error(&self, message: Option<String>) {
        let _checks = lock(&self.0.extra().pending);
        *lock(&self.0.extra().write_error) = message;
        self.0.flags.fetch_or(CHECK_WRITE, Ordering::Relaxed);
    }

    /// The handle to the object itself.
    pub fn as_intrusive(&self) -> &IntrusivePtr<StorageImpl> {
        &self.0
    }

    /// A handle made of the object.
    pub fn from_intrusive(storage: IntrusivePtr<StorageImpl>) -> Self {
        Self(storage)
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({:?})", *self.0)
    }
}
