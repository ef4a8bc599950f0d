//! Shared values of any type, with the packed count in front.
//!
//! `Arc` keeps its two counts apart: asking for sole ownership and dropping the last owner cost
//! two locked instructions each, and both happen once for every node of a graph.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{IntrusivePtr, RefCount, RefCounted, WeakPtr};

/// A value with its count.
struct Counted<T> {
    count: RefCount,
    /// Whether the value is still there: weak references outlive it.
    present: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// Note [Threads and shared values]: a graph's node holds handles to nodes. With the condition
// `T: Send + Sync` here the compiler would go round in circles, for it follows them through the
// trait `RefCounted`; so the handles, which are all that leaves this module, carry it.

// SAFETY: the handles that can move to other threads are those of values that may be used there.
unsafe impl<T> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Counted<T> {}

// SAFETY: the count is the field of that name.
unsafe impl<T> RefCounted for Counted<T> {
    #[inline]
    fn refcount(&self) -> &RefCount {
        &self.count
    }

    unsafe fn release_resources(&self) {
        self.present.store(false, Ordering::Relaxed);
        // SAFETY: the value was present, and the caller is the last owner.
        unsafe { (*self.value.get()).assume_init_drop() };
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        if *self.present.get_mut() {
            // SAFETY: the value is present, and nobody else is left.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

/// A shared value: an `Arc` whose counts lie in one word.
///
/// ```
/// use corten_core::Shared;
///
/// let value = Shared::new(5);
/// let other = value.clone();
/// assert!(value.ptr_eq(&other) && *other == 5);
/// ```
pub struct Shared<T>(IntrusivePtr<Counted<T>>, AsArc<T>);

/// Makes a handle `Send` and `Sync` where an `Arc` is: see Note [Threads and shared values].
type AsArc<T> = PhantomData<Arc<T>>;

impl<T> Shared<T> {
    /// Moves a value to the heap.
    #[inline]
    pub fn new(value: T) -> Self {
        Unshared::new(value).share()
    }

    /// A reference that does not keep the value.
    pub fn downgrade(&self) -> WeakShared<T> {
        WeakShared(self.0.downgrade(), PhantomData)
    }

    /// Whether both are the same value.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// A number that identifies the value while it lives.
    #[inline]
    pub fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// How many handles there are, weak ones not counted.
    pub fn use_count(&self) -> usize {
        self.0.use_count()
    }
}

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a strong reference keeps the value, and nobody changes it.
        unsafe { (*self.0.value.get()).assume_init_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A reference that does not keep the value.
///
/// ```
/// use corten_core::Shared;
///
/// let value = Shared::new(5);
/// let weak = value.downgrade();
/// drop(value);
/// assert!(weak.upgrade().is_none());
/// ```
pub struct WeakShared<T>(WeakPtr<Counted<T>>, AsArc<T>);

impl<T> WeakShared<T> {
    /// The value, unless it is gone.
    pub fn upgrade(&self) -> Option<Shared<T>> {
        Some(Shared(self.0.upgrade()?, PhantomData))
    }

    /// Whether the value is gone.
    pub fn expired(&self) -> bool {
        self.0.expired()
    }
}

impl<T> Clone for WeakShared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

/// What a shared value is made of.
///
/// A trait instead of a closure: closures are inlined late, after what they return was laid on the
/// stack. Where `make` is always inlined and the parts are words, the fields of the value are stored
/// where they will stay.
///
/// ```
/// use corten_core::{Make, make_boxed};
///
/// /// So many zeros.
/// struct Zeros;
///
/// impl Make<[u8; 1024]> for Zeros {
///     fn make(self) -> [u8; 1024] {
///         [0; 1024]
///     }
/// }
/// assert_eq!(make_boxed(Zeros).len(), 1024);
/// ```
pub trait Make<T> {
    /// Makes the value.
    fn make(self) -> T;
}

/// Makes a value in a box, without laying it on the stack first.
#[inline(always)]
pub fn make_boxed<T>(parts: impl Make<T>) -> Box<T> {
    let mut place = Box::<T>::new_uninit();
    place.write(parts.make());
    // SAFETY: it was just written.
    unsafe { place.assume_init() }
}

/// A value that is there already.
///
/// ```
/// assert_eq!(*corten_core::make_boxed(corten_core::Ready(3)), 3);
/// ```
pub struct Ready<T>(pub T);

impl<T> Make<T> for Ready<T> {
    #[inline(always)]
    fn make(self) -> T {
        self.0
    }
}

/// A value that lies where it will stay, before anybody else has a handle to it.
///
/// ```
/// use corten_core::Unshared;
///
/// let mut value = Unshared::new(1);
/// let weak = value.downgrade();
/// let shared = value.share();
/// assert!(weak.upgrade().is_some_and(|found| found.ptr_eq(&shared)));
/// ```
pub struct Unshared<T>(IntrusivePtr<Counted<T>>, AsArc<T>);

impl<T> Unshared<T> {
    /// Moves a value to the heap.
    #[inline(always)]
    pub fn new(value: T) -> Self {
        Self::build(Ready(value))
    }

    /// Makes a value on the heap: moving large ones there costs more than making them.
    #[inline(always)]
    pub fn build(parts: impl Make<T>) -> Self {
        // SAFETY: every field is written; where `make` panics nobody gets the object.
        let counted = unsafe {
            IntrusivePtr::new_in_place(|place: *mut Counted<T>| {
                (&raw mut (*place).value).cast::<T>().write(parts.make());
                (&raw mut (*place).count).write(RefCount::unique());
                (&raw mut (*place).present).write(AtomicBool::new(true));
            })
        };
        Self(counted, PhantomData)
    }

    /// [`build`](Self::build) in the memory of a value that is gone and that nobody else refers to.
    #[inline(always)]
    pub fn build_again(memory: Option<WeakShared<T>>, parts: impl Make<T>) -> Self {
        // SAFETY: the value is made before the handle is given to anybody.
        let Some(memory) = memory.and_then(|memory| unsafe { memory.0.into_last() }) else {
            return Self::build(parts);
        };
        let place = memory.as_ptr();
        // SAFETY: nobody else refers to the place, and the value that was in it is gone.
        unsafe {
            (&raw mut (*place).value).cast::<T>().write(parts.make());
            (&raw mut (*place).present).write(AtomicBool::new(true));
        }
        Self(memory, PhantomData)
    }

    /// A reference that does not keep the value.
    #[inline]
    pub fn downgrade(&mut self) -> WeakShared<T> {
        WeakShared(self.0.downgrade_exclusive(), PhantomData)
    }

    /// The value for everybody.
    #[inline]
    pub fn share(self) -> Shared<T> {
        Shared(self.0, PhantomData)
    }
}

impl<T> Deref for Unshared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is present.
        unsafe { (*self.0.value.get()).assume_init_ref() }
    }
}

impl<T> DerefMut for Unshared<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is present, and this is the only handle, borrowed exclusively.
        unsafe { (*self.0.value.get()).assume_init_mut() }
    }
}
