//! Version counters: how often the contents of a tensor were changed in place.
//!
//! Note [Version counter sharing]: a view, a detached tensor and an unpacked saved tensor share the
//! counter of their base, so that a write through one is noticed by whoever saved another. `.data`
//! and fresh results have their own. Most tensors are never viewed nor written in place, so the
//! counter is made when it is first shared or bumped; no counter reads as version 0.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::{IntrusivePtr, RefCount, RefCounted};

/// The shared number.
#[derive(Debug)]
pub(super) struct VersionCell {
    refcount: RefCount,
    version: AtomicU32,
}

// SAFETY: the count is the field of that name.
unsafe impl RefCounted for VersionCell {
    fn refcount(&self) -> &RefCount {
        &self.refcount
    }
}

/// A handle to a version counter, or none for inference tensors.
#[derive(Clone, Debug)]
pub struct VersionCounter(Option<IntrusivePtr<VersionCell>>);

impl VersionCounter {
    /// A counter at `version`.
    pub fn new(version: u32) -> Self {
        Self(Some(IntrusivePtr::new(VersionCell {
            refcount: RefCount::unique(),
            version: AtomicU32::new(version),
        })))
    }

    /// No counter.
    pub const fn disabled() -> Self {
        Self(None)
    }

    /// Whether there is a counter.
    pub const fn enabled(&self) -> bool {
        self.0.is_some()
    }

    /// The present version; 0 without a counter.
    pub fn current(&self) -> u32 {
        self.0.as_ref().map_or(0, |cell| cell.version.load(Ordering::Acquire))
    }

    /// Counts one change. The number wraps.
    pub fn bump(&self) {
        if let Some(cell) = &self.0 {
            cell.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Sets the version, for code that undoes a change completely.
    pub fn set(&self, version: u32) {
        if let Some(cell) = &self.0 {
            cell.version.store(version, Ordering::Release);
        }
    }

    /// Whether both are the same counter.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        matches!((&self.0, &other.0), (Some(a), Some(b)) if a.ptr_eq(b))
    }

    /// Whether another handle or tensor uses the counter too.
    pub fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|cell| !cell.is_unique())
    }
}

/// The counter inside a tensor: set at most once.
#[derive(Debug)]
pub(super) struct VersionSlot(AtomicPtr<VersionCell>);

impl VersionSlot {
    pub(super) const fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(super) fn with(counter: VersionCounter) -> Self {
        let raw = counter.0.map_or(ptr::null_mut(), |cell| cell.into_raw().as_ptr());
        Self(AtomicPtr::new(raw))
    }

    #[inline]
    fn cell(&self) -> Option<&VersionCell> {
        // SAFETY: the slot owns a reference to the counter, is set once and emptied with the tensor.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    pub(super) fn current(&self) -> u32 {
        self.cell().map_or(0, |cell| cell.version.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn bump(&self) {
        match self.cell() {
            Some(cell) => {
                cell.version.fetch_add(1, Ordering::AcqRel);
            }
            None => self.get_or_create().bump(),
        }
    }

    #[cold]
    fn create(&self) {
        self.set_once(VersionCounter::new(0));
    }

    /// Installs a counter unless there is one. Returns whether it was installed.
    pub(super) fn set_once(&self, counter: VersionCounter) -> bool {
        let Some(cell) = counter.0 else { return true };
        let raw = cell.into_raw();
        let swap = self.0.compare_exchange(
            ptr::null_mut(),
            raw.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if swap.is_err() {
            // SAFETY: `raw` was not stored, so the reference is still this function's.
            drop(unsafe { IntrusivePtr::from_raw(raw) });
        }
        swap.is_ok()
    }

    pub(super) fn get_or_create(&self) -> VersionCounter {
        loop {
            if let Some(cell) = NonNull::new(self.0.load(Ordering::Acquire)) {
                // SAFETY: the slot keeps the counter alive.
                return VersionCounter(Some(unsafe { IntrusivePtr::clone_from_raw(cell) }));
            }
            self.create();
        }
    }

    pub(super) fn shares_with(&self, other: &Self) -> bool {
        let (a, b) = (self.0.load(Ordering::Acquire), other.0.load(Ordering::Acquire));
        !a.is_null() && a == b
    }
}

impl Drop for VersionSlot {
    fn drop(&mut self) {
        if let Some(cell) = NonNull::new(*self.0.get_mut()) {
            // SAFETY: the slot owned this reference.
            drop(unsafe { IntrusivePtr::from_raw(cell) });
        }
    }
}
