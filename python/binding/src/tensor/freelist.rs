//! Freed tensor objects, kept for the next ones.
//!
//! Note [Spare tensor objects]: most results of eager programs die soon, and taking memory from the
//! interpreter and giving it back was a sixth of a small operator. As CPython does for its lists
//! and tuples, the memory of some freed objects of exactly the class `Tensor` is kept, header of
//! the collector included. All of it happens with the interpreter lock held.

use crate::py::ffi::PyObject;
use corten_core::fast_paths;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// As many as CPython keeps of its lists.
const CAPACITY: usize = 80;

static OBJECTS: [AtomicPtr<PyObject>; CAPACITY] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CAPACITY];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Takes one out: untracked, without dictionary and weak references, its header out of date, its
/// handle that of the undefined tensor.
#[inline]
pub(super) fn take() -> Option<NonNull<PyObject>> {
    if !fast_paths() {
        return None;
    }
    let last = COUNT.load(Ordering::Relaxed).checked_sub(1)?;
    let object = OBJECTS.get(last)?.load(Ordering::Relaxed);
    COUNT.store(last, Ordering::Relaxed);
    NonNull::new(object)
}

/// Keeps one that was cleared, unless there are enough. Returns whether it was kept.
#[inline]
pub(super) fn keep(object: NonNull<PyObject>) -> bool {
    let count = COUNT.load(Ordering::Relaxed);
    let Some(place) = OBJECTS.get(count).filter(|_| fast_paths()) else { return false };
    place.store(object.as_ptr(), Ordering::Relaxed);
    COUNT.store(count + 1, Ordering::Relaxed);
    true
}
