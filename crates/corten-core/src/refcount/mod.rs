//! Intrusive reference counting with weak references and Python wrappers.
//!
//! Note [Wrapper ownership]: a Python wrapper owns one strong reference to its object. While anyone
//! else holds the object too, the object owns one reference to its wrapper. So the wrapper, with
//! its identity, attributes and class, lives as long as either side needs it, and nothing is ever
//! resurrected. The reference is added when the strong count goes from 1 to 2 and given back when
//! it returns to 1. The alternative, moving ownership back and forth inside the wrapper's
//! deallocator, is what PyTorch left in 2.10: it broke weak references and cycles.

mod count;
mod shared;
mod wrapper;

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

pub use count::RefCount;
use count::{Released, Upgrade};
pub use shared::{Make, Ready, Shared, Unshared, WeakShared, make_boxed};
pub(crate) use wrapper::PyObjectSlot;
pub use wrapper::{PyHooks, PyObject, set_py_hooks};

impl RefCount {
    /// The count of an object in static memory, which is never freed.
    pub(crate) const fn immortal() -> Self {
        Self::starting_at(AtomicU64::new(count::IMMORTAL))
    }
}

/// An object that carries its own reference count.
///
/// # Safety
/// `refcount` must always return the same field of the object, which nothing else may change.
pub unsafe trait RefCounted: Send + Sync {
    /// The count inside the object.
    fn refcount(&self) -> &RefCount;

    /// The slot for the Python wrapper, if the object can have one.
    #[doc(hidden)]
    fn pyobject_slot(&self) -> Option<&PyObjectSlot> {
        None
    }

    /// Drops what the object holds when only weak references are left.
    ///
    /// # Safety
    /// The caller must be the last owner: nobody may read the contents at the same time or later.
    unsafe fn release_resources(&self) {}
}

/// A strong reference: one pointer, never null.
///
/// ```
/// use corten_core::{Device, Storage};
///
/// if let Ok(storage) = Storage::new(64, Device::CPU) {
///     let pointer = storage.as_intrusive().clone();
///     assert_eq!(pointer.use_count(), 2);
/// }
/// ```
pub struct IntrusivePtr<T: RefCounted> {
    object: NonNull<T>,
    owns: PhantomData<T>,
}

// SAFETY: the count is atomic, and `RefCounted` objects are `Send + Sync`.
unsafe impl<T: RefCounted> Send for IntrusivePtr<T> {}
// SAFETY: as above.
unsafe impl<T: RefCounted> Sync for IntrusivePtr<T> {}

impl<T: RefCounted> IntrusivePtr<T> {
    /// Moves an object, whose count must be fresh, to the heap.
    pub fn new(object: T) -> Self {
        debug_assert!(object.refcount().is_unique());
        Self { object: NonNull::from(Box::leak(Box::new(object))), owns: PhantomData }
    }

    /// Builds an object in its place on the heap: moving large ones there costs more than the rest.
    ///
    /// # Safety
    /// `build` must initialise the whole object, with a fresh count.
    #[inline(always)]
    pub(crate) unsafe fn new_in_place(build: impl FnOnce(*mut T)) -> Self {
        let built = |place| {
            build(place);
            Ok::<(), Infallible>(())
        };
        // SAFETY: passed on to the caller.
        let Ok(object) = unsafe { Self::try_new_in_place(built) };
        object
    }

    /// As [`new_in_place`](Self::new_in_place), unless `build` fails.
    ///
    /// # Safety
    /// Where `build` succeeds, it must have initialised the whole object, with a fresh count.
    #[inline(always)]
    pub(crate) unsafe fn try_new_in_place<E>(
        build: impl FnOnce(*mut T) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut object = Box::<T>::new_uninit();
        build(object.as_mut_ptr())?;
        // SAFETY: `build` has initialised the object, and a box is not null.
        let object = unsafe { NonNull::new_unchecked(Box::into_raw(object.assume_init())) };
        Ok(Self { object, owns: PhantomData })
    }

    /// A handle to an object in static memory whose count is immortal.
    pub(crate) const fn from_static(object: &'static T) -> Self {
        Self { object: NonNull::from_ref(object), owns: PhantomData }
    }

    /// Gives up the reference without releasing it. Undo with [`from_raw`](Self::from_raw).
    #[inline]
    pub fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).object
    }

    /// Takes over a reference.
    ///
    /// # Safety
    /// `object` must come from [`into_raw`](Self::into_raw), each time used once.
    #[inline]
    pub unsafe fn from_raw(object: NonNull<T>) -> Self {
        Self { object, owns: PhantomData }
    }

    /// Adds a reference to an object that someone else holds.
    ///
    /// # Safety
    /// `object` must be held by a strong reference during the call.
    #[inline]
    pub unsafe fn clone_from_raw(object: NonNull<T>) -> Self {
        // SAFETY: the caller vouches that the object is alive; the copy is never dropped.
        let borrowed = ManuallyDrop::new(unsafe { Self::from_raw(object) });
        Self::clone(&borrowed)
    }

    /// The address of the object.
    #[inline]
    pub fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }

    /// Whether both refer to the same object.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.object == other.object
    }

    /// How many strong references there are.
    pub fn use_count(&self) -> usize {
        self.refcount().strong_count()
    }

    /// How many weak references there are.
    pub fn weak_use_count(&self) -> usize {
        self.refcount().weak_count()
    }

    /// Whether this is the only strong reference.
    pub fn is_unique(&self) -> bool {
        self.refcount().is_unique()
    }

    /// A weak reference to the object.
    pub fn downgrade(&self) -> WeakPtr<T> {
        self.refcount().retain_weak();
        WeakPtr { object: self.object, owns: PhantomData }
    }

    /// [`clone`](Clone::clone) without a locked instruction where this is the only reference of any
    /// kind: borrowed exclusively, it tells nobody else about the object meanwhile.
    #[inline]
    pub(crate) fn clone_exclusive(&mut self) -> Self {
        if self.refcount().add_to_sole(false) {
            return Self { object: self.object, owns: PhantomData };
        }
        self.clone()
    }

    /// [`downgrade`](Self::downgrade), as [`clone_exclusive`](Self::clone_exclusive).
    #[inline]
    pub(crate) fn downgrade_exclusive(&mut self) -> WeakPtr<T> {
        if self.refcount().add_to_sole(true) {
            return WeakPtr { object: self.object, owns: PhantomData };
        }
        self.downgrade()
    }

    #[cold]
    fn released(&self, outcome: Released) {
        match outcome {
            Released::Alive => {}
            Released::WrapperOnly => wrapper::give_back(self.pyobject_slot()),
            Released::Contents => {
                // SAFETY: the strong count has just reached zero, so this was the last owner.
                unsafe { self.release_resources() };
                if self.refcount().release_weak() {
                    self.delete();
                }
            }
            Released::Dead => self.delete(),
        }
    }

    #[inline]
    fn delete(&self) {
        // SAFETY: no strong and no weak reference is left, and `new` made the object with `Box`.
        drop(unsafe { Box::from_raw(self.object.as_ptr()) });
    }
}

impl<T: RefCounted> Clone for IntrusivePtr<T> {
    #[inline]
    fn clone(&self) -> Self {
        if self.refcount().retain() {
            wrapper::keep(self.pyobject_slot());
        }
        Self { object: self.object, owns: PhantomData }
    }
}

impl<T: RefCounted> Drop for IntrusivePtr<T> {
    #[inline]
    fn drop(&mut self) {
        match self.refcount().release() {
            Released::Alive => {}
            Released::Dead => self.delete(),
            outcome => self.released(outcome),
        }
    }
}

impl<T: RefCounted> Deref for IntrusivePtr<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this reference keeps the object alive.
        unsafe { self.object.as_ref() }
    }
}

impl<T: RefCounted> fmt::Debug for IntrusivePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p} x{}", self.object, self.use_count())
    }
}

/// A weak reference: keeps the memory of the object, not its contents.
///
/// ```
/// use corten_core::{Device, Storage};
///
/// if let Ok(storage) = Storage::new(64, Device::CPU) {
///     let weak = storage.as_intrusive().downgrade();
///     assert!(weak.upgrade().is_some());
///     drop(storage);
///     assert!(weak.expired());
/// }
/// ```
pub struct WeakPtr<T: RefCounted> {
    object: NonNull<T>,
    owns: PhantomData<T>,
}

// SAFETY: as for `IntrusivePtr`.
unsafe impl<T: RefCounted> Send for WeakPtr<T> {}
// SAFETY: as for `IntrusivePtr`.
unsafe impl<T: RefCounted> Sync for WeakPtr<T> {}

impl<T: RefCounted> WeakPtr<T> {
    /// Gives up the reference without releasing it. Undo with [`from_raw`](Self::from_raw).
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).object
    }

    /// Takes over a reference.
    ///
    /// # Safety
    /// `object` must come from [`into_raw`](Self::into_raw), each time used once.
    #[inline]
    pub(crate) unsafe fn from_raw(object: NonNull<T>) -> Self {
        Self { object, owns: PhantomData }
    }

    /// Adds a weak reference to an object that someone else holds by one.
    ///
    /// # Safety
    /// `object` must be held by a weak or strong reference during the call.
    #[inline]
    pub(crate) unsafe fn clone_from_raw(object: NonNull<T>) -> Self {
        // SAFETY: the caller vouches that the memory is there; the copy is never dropped.
        let borrowed = ManuallyDrop::new(unsafe { Self::from_raw(object) });
        Self::clone(&borrowed)
    }

    /// The strong reference that this becomes.
    ///
    /// # Safety
    /// Somebody must hold a strong reference during the call.
    #[inline]
    pub(crate) unsafe fn strengthen(self) -> IntrusivePtr<T> {
        if self.object().refcount().strengthen() {
            wrapper::keep(self.object().pyobject_slot());
        }
        // SAFETY: the reference that `into_raw` gives up is the strong one that was just counted.
        unsafe { IntrusivePtr::from_raw(self.into_raw()) }
    }

    /// The one strong reference to an object whose contents are gone, if this was the last
    /// reference of any kind.
    ///
    /// # Safety
    /// The contents must be made anew before anybody reads them; dropping it without is allowed.
    #[inline(always)]
    unsafe fn into_last(self) -> Option<IntrusivePtr<T>> {
        if !self.object().refcount().start_over() {
            return None;
        }
        // SAFETY: the reference that `into_raw` gives up is the strong one that is now counted.
        Some(unsafe { IntrusivePtr::from_raw(self.into_raw()) })
    }

    #[inline]
    fn object(&self) -> &T {
        // SAFETY: a weak reference keeps the memory, and the count and the wrapper slot in it stay
        // valid after the contents are released.
        unsafe { self.object.as_ref() }
    }

    /// A strong reference, unless the contents are gone.
    pub fn upgrade(&self) -> Option<IntrusivePtr<T>> {
        let count = self.object().refcount();
        let mut kept = None;
        loop {
            match count.try_upgrade(kept.is_some()) {
                // SAFETY: `try_upgrade` has just added the reference that is taken over here.
                Upgrade::Done => return Some(unsafe { IntrusivePtr::from_raw(self.object) }),
                Upgrade::Gone => {
                    wrapper::undo(kept.take());
                    return None;
                }
                Upgrade::NeedsWrapper if kept.is_some() => wrapper::undo(kept.take()),
                // See Note [Wrapper ownership]: a dying wrapper takes the object with it.
                Upgrade::NeedsWrapper => {
                    kept = Some(wrapper::try_keep(self.object().pyobject_slot())?);
                }
            }
        }
    }

    /// How many strong references there are.
    pub fn use_count(&self) -> usize {
        self.object().refcount().strong_count()
    }

    /// Whether the contents are gone.
    pub fn expired(&self) -> bool {
        self.use_count() == 0
    }

    /// The address of the object; valid to compare, not to read.
    pub fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T: RefCounted> Clone for WeakPtr<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.object().refcount().retain_weak();
        Self { object: self.object, owns: PhantomData }
    }
}

impl<T: RefCounted> Drop for WeakPtr<T> {
    #[inline]
    fn drop(&mut self) {
        if self.object().refcount().release_weak() {
            // SAFETY: this was the last reference of any kind.
            drop(unsafe { Box::from_raw(self.object.as_ptr()) });
        }
    }
}

impl<T: RefCounted> fmt::Debug for WeakPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "weak {:p}", self.object)
    }
}
