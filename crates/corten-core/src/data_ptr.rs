//! A pointer to memory together with what frees it.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use crate::Device;

/// What frees the contexts of [`DataPtr`]s.
///
/// A deleter is told apart by the address of its `static`. That of its function would not do: a linker may
/// give functions of the same instructions one address.
pub type Deleter = &'static FreeContext;

/// A function that frees what a context pointer stands for. One that is to be told apart from others is a
/// `static`.
///
/// ```
/// use corten_core::FreeContext;
/// use std::ffi::c_void;
///
/// unsafe fn leave(_: *mut c_void) {}
/// static LEAVE: FreeContext = FreeContext::new(leave);
/// let _deleter: corten_core::Deleter = &LEAVE;
/// ```
pub struct FreeContext {
    free: unsafe fn(*mut c_void),
    context: Context,
}

/// What the context of a deleter is.
#[derive(PartialEq, Eq)]
enum Context {
    /// A `Box<Box<dyn Any + Send + Sync>>` of [`DataPtr::with_owner`].
    Owner,
    /// An `Arc<DataPtr>` of [`DataPtr::share_parts`].
    Share,
    /// What its function knows.
    Opaque,
}

impl FreeContext {
    /// A deleter that calls a function.
    pub const fn new(free: unsafe fn(*mut c_void)) -> Self {
        Self { free, context: Context::Opaque }
    }
}

/// Memory, the context that owns it, the function that frees the context, and the device.
///
/// The data pointer does not own; the deleter runs with the context when the `DataPtr` is dropped,
/// if and only if the context is not null. Null data with a context is legal.
///
/// ```
/// use corten_core::{DataPtr, Device, Storage};
///
/// let mut bytes = vec![1u8, 2, 3].into_boxed_slice();
/// let start = bytes.as_mut_ptr();
/// let storage = Storage::from_data_ptr(DataPtr::with_owner(start, Box::new(bytes), Device::CPU), 3);
/// assert_eq!(storage.nbytes(), 3);
/// ```
pub struct DataPtr {
    data: *mut u8,
    context: *mut c_void,
    deleter: Deleter,
    device: Device,
}

const _: () = assert!(size_of::<DataPtr>() == 4 * size_of::<usize>());

// SAFETY: a `DataPtr` is the only owner of its context, and the constructors demand contexts that
// any thread may free.
unsafe impl Send for DataPtr {}
// SAFETY: a shared `DataPtr` only lends out raw pointers.
unsafe impl Sync for DataPtr {}

static DELETE_NOTHING: FreeContext = FreeContext::new(delete_nothing);
static DELETE_OWNER: FreeContext = FreeContext { free: delete_owner, context: Context::Owner };
static DELETE_SHARE: FreeContext = FreeContext { free: delete_share, context: Context::Share };

unsafe fn delete_nothing(_: *mut c_void) {}

unsafe fn delete_owner(context: *mut c_void) {
    // SAFETY: `with_owner` made the context from exactly such a box.
    drop(unsafe { Box::from_raw(context.cast::<Box<dyn Any + Send + Sync>>()) });
}

unsafe fn delete_share(context: *mut c_void) {
    // SAFETY: `share_parts` made the context from such a reference, for one release.
    drop(unsafe { Arc::from_raw(context.cast::<DataPtr>().cast_const()) });
}

impl DataPtr {
    /// No memory, on a device.
    pub const fn null(device: Device) -> Self {
        Self { data: ptr::null_mut(), context: ptr::null_mut(), deleter: &DELETE_NOTHING, device }
    }

    /// Memory that somebody else owns.
    pub const fn borrowed(data: *mut u8, device: Device) -> Self {
        Self { data, context: ptr::null_mut(), deleter: &DELETE_NOTHING, device }
    }

    /// Memory whose context `deleter` frees.
    ///
    /// # Safety
    /// It must be sound to call the deleter's function with `context` once, from any thread, when the memory is no
    /// longer used.
    #[inline]
    pub const unsafe fn new(
        data: *mut u8,
        context: *mut c_void,
        deleter: Deleter,
        device: Device,
    ) -> Self {
        Self { data, context, deleter, device }
    }

    /// Memory that lives as long as `owner`.
    pub fn with_owner(data: *mut u8, owner: Box<dyn Any + Send + Sync>, device: Device) -> Self {
        let context = Box::into_raw(Box::new(owner)).cast();
        Self { data, context, deleter: &DELETE_OWNER, device }
    }

    /// The owner given to [`with_owner`](Self::with_owner), if there was one.
    pub fn owner(&self) -> Option<&(dyn Any + Send + Sync)> {
        // SAFETY: context and deleter belong together and live as long as `self`.
        unsafe { Self::owner_of(self.context, self.deleter) }
    }

    /// # Safety
    /// Context and deleter must come from one `DataPtr` that outlives the result.
    pub(crate) unsafe fn owner_of<'a>(
        context: *mut c_void,
        deleter: Deleter,
    ) -> Option<&'a (dyn Any + Send + Sync)> {
        if context.is_null() {
            return None;
        }
        if deleter.context == Context::Share {
            // SAFETY: this deleter goes with contexts of `share_parts` only.
            return unsafe { &*context.cast::<Self>() }.owner();
        }
        let owned = deleter.context == Context::Owner;
        // SAFETY: this deleter goes with contexts of `with_owner` only.
        owned.then(|| unsafe { &**context.cast::<Box<dyn Any + Send + Sync>>() })
    }

    /// One more reference to the memory of a context and its deleter, which are replaced by a
    /// reference where they own the memory alone.
    ///
    /// # Safety
    /// The three must come from one `DataPtr`, to which the caller has exclusive access.
    pub(crate) unsafe fn share_parts(
        data: *mut u8,
        context: &mut *mut c_void,
        deleter: &mut Deleter,
        device: Device,
    ) -> Arc<Self> {
        if context.is_null() {
            return Arc::new(Self::borrowed(data, device));
        }
        if deleter.context == Context::Share {
            let shared = context.cast::<Self>().cast_const();
            // SAFETY: this deleter goes with references made below; the count goes up by one for
            // the reference that is returned.
            return unsafe {
                Arc::increment_strong_count(shared);
                Arc::from_raw(shared)
            };
        }
        // SAFETY: by contract these are the parts of one `DataPtr`, which the new one replaces.
        let shared = Arc::new(unsafe { Self::new(data, *context, deleter, device) });
        *context = Arc::into_raw(Arc::clone(&shared)).cast_mut().cast();
        *deleter = &DELETE_SHARE;
        shared
    }

    /// How many references there are to the memory of a context and its deleter.
    ///
    /// # Safety
    /// Context and deleter must come from one `DataPtr` that lives.
    pub(crate) unsafe fn shares(context: *mut c_void, deleter: Deleter) -> usize {
        if context.is_null() || deleter.context != Context::Share {
            return 1;
        }
        let shared = context.cast::<Self>().cast_const();
        // SAFETY: this deleter goes with references of `share_parts`, one of which is the caller's.
        unsafe {
            Arc::increment_strong_count(shared);
            Arc::strong_count(&Arc::from_raw(shared)) - 1
        }
    }

    /// The memory of a share, which is given up with it.
    pub(crate) fn of_share(shared: Arc<Self>) -> Self {
        let (data, device) = (shared.get(), shared.device());
        let context = Arc::into_raw(shared).cast_mut().cast();
        Self { data, context, deleter: &DELETE_SHARE, device }
    }

    /// The memory itself, where this is its only owner or its last share; else the share as it is.
    pub(crate) fn into_sole(self) -> std::result::Result<Self, Self> {
        if self.context.is_null() || self.deleter.context != Context::Share {
            return Ok(self);
        }
        let (_, context, ..) = self.into_parts();
        // SAFETY: this deleter goes with contexts of shares only, and the parts are not used again.
        let shared = unsafe { Arc::from_raw(context.cast::<Self>().cast_const()) };
        Arc::try_unwrap(shared).map_err(Self::of_share)
    }

    /// Memory that is freed by running `free` with the data pointer.
    pub fn with_closure<F>(data: *mut u8, free: F, device: Device) -> Self
    where
        F: FnOnce(*mut u8) + Send + 'static,
    {
        struct Closure<F> {
            data: *mut u8,
            free: F,
        }
        unsafe fn delete<F: FnOnce(*mut u8)>(context: *mut c_void) {
            // SAFETY: `with_closure` made the context from exactly such a box.
            let Closure { data, free } = *unsafe { Box::from_raw(context.cast::<Closure<F>>()) };
            free(data);
        }
        let context = Box::into_raw(Box::new(Closure { data, free })).cast();
        Self { data, context, deleter: const { &FreeContext::new(delete::<F>) }, device }
    }

    /// The memory.
    #[inline]
    pub const fn get(&self) -> *mut u8 {
        self.data
    }

    /// The context.
    #[inline]
    pub const fn context(&self) -> *mut c_void {
        self.context
    }

    /// What frees the context.
    pub const fn deleter(&self) -> Deleter {
        self.deleter
    }

    /// The device.
    #[inline]
    pub const fn device(&self) -> Device {
        self.device
    }

    /// Whether there is neither memory nor a context; the device does not matter.
    pub const fn is_null(&self) -> bool {
        self.data.is_null() && self.context.is_null()
    }

    /// The context, if `expected` is what frees it.
    pub fn cast_context<T>(&self, expected: Deleter) -> Option<*mut T> {
        ptr::eq(self.deleter, expected).then_some(self.context.cast())
    }

    /// Replaces the deleter if it is `expected`. Returns whether it was.
    ///
    /// # Safety
    /// As for [`new`](Self::new) with the new deleter.
    pub unsafe fn compare_exchange_deleter(&mut self, expected: Deleter, new: Deleter) -> bool {
        let equal = ptr::eq(self.deleter, expected);
        if equal {
            self.deleter = new;
        }
        equal
    }

    /// Gives the context up without freeing it.
    pub fn release_context(&mut self) -> *mut c_void {
        self.deleter = &DELETE_NOTHING;
        std::mem::replace(&mut self.context, ptr::null_mut())
    }

    /// Sets another device for the same memory, for devices that address each other's memory.
    pub fn set_device(&mut self, device: Device) {
        self.device = device;
    }

    /// Frees the memory now. The device stays.
    pub fn clear(&mut self) {
        *self = Self::null(self.device);
    }

    /// The parts, without freeing anything. The counterpart of [`new`](Self::new).
    #[inline]
    pub fn into_parts(self) -> (*mut u8, *mut c_void, Deleter, Device) {
        let this = ManuallyDrop::new(self);
        (this.data, this.context, this.deleter, this.device)
    }
}

impl Drop for DataPtr {
    #[inline]
    fn drop(&mut self) {
        if !self.context.is_null() {
            // SAFETY: the constructors demand that this call is sound, and it happens once.
            unsafe { (self.deleter.free)(self.context) };
        }
    }
}

impl fmt::Debug for DataPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataPtr({:p} on {})", self.data, self.device)
    }
}
