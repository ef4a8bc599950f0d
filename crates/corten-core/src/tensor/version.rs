//! Version counters: how often the contents of a tensor were changed in place.
//!
//! Note [Version counter sharing]: a view, a detached tensor and an unpacked saved tensor share the
//! counter of their base, so that a write through one is noticed by whoever saved another. `.data`
//! and fresh results have their own. Most tensors are never viewed, so the counter is a number in
//! the tensor itself; whoever shares it keeps the memory of that tensor, not what it holds, by a
//! weak reference. A counter on the heap would be an allocation for every tensor that is viewed,
//! saved or written in place.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::TensorImpl;
use crate::{IntrusivePtr, WeakPtr};

/// Which counter the copy of a tensor counts on.
///
/// ```
/// use corten_core::{TensorBase, TensorOptions, VersionCounter};
///
/// let x = TensorBase::empty(&[2], TensorOptions::default())?;
/// let copy = x.shallow_copy_and_detach(VersionCounter::Own, true)?;
/// x.bump_version();
/// assert_eq!((x.version()?, copy.version()?), (1, 0));
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionCounter {
    /// One of its own, which starts at zero.
    Own,
    /// That of the tensor it is a copy of.
    Shared,
}

/// The counter inside a tensor: a number with the lowest bit set, or the address of the tensor
/// whose counter it is, with the next bit set where the reference is a strong one. Which of them it
/// is changes only while nobody else knows the tensor.
#[derive(Debug)]
pub(super) struct VersionSlot(AtomicPtr<TensorImpl>);

const OWN: usize = 1;
const ONE: usize = 2;
const STRONG: usize = 2;

impl VersionSlot {
    /// A counter at zero.
    pub(super) const fn own() -> Self {
        Self(AtomicPtr::new(ptr::without_provenance_mut(OWN)))
    }

    /// The counter of `tensor`, for another one.
    #[inline]
    pub(super) fn shared_with(tensor: &IntrusivePtr<TensorImpl>) -> Self {
        let reference = match tensor.version.keeper() {
            None => tensor.downgrade(),
            // SAFETY: the slot holds a weak reference to that tensor.
            Some(keeper) => unsafe { WeakPtr::clone_from_raw(keeper) },
        };
        Self(AtomicPtr::new(reference.into_raw().as_ptr()))
    }

    /// The counter of `tensor`, which nobody else knows yet and which has one of its own.
    #[inline]
    pub(super) fn of_new(tensor: &mut IntrusivePtr<TensorImpl>) -> Self {
        debug_assert!(tensor.version.is_own());
        Self(AtomicPtr::new(tensor.downgrade_exclusive().into_raw().as_ptr()))
    }

    /// The counter of the copy of `tensor`.
    #[inline]
    pub(super) fn of_copy(tensor: &IntrusivePtr<TensorImpl>, counter: VersionCounter) -> Self {
        match counter {
            VersionCounter::Own => Self::own(),
            VersionCounter::Shared => Self::shared_with(tensor),
        }
    }

    /// Whether the number is here.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        self.keeper().is_none()
    }

    /// The tensor whose counter it is, unless the number is here.
    #[inline]
    fn keeper(&self) -> Option<NonNull<TensorImpl>> {
        let place = self.0.load(Ordering::Relaxed);
        let address = |place: *mut TensorImpl| place.map_addr(|addr| addr & !STRONG);
        if place.addr() & OWN != 0 { None } else { NonNull::new(address(place)) }
    }

    /// The tensor whose counter it is, where this holds it by a strong reference.
    #[inline]
    pub(super) fn strong_keeper(&self) -> Option<NonNull<TensorImpl>> {
        let place = self.0.load(Ordering::Relaxed);
        if place.addr() & (OWN | STRONG) == STRONG { self.keeper() } else { None }
    }

    /// Holds the tensor whose counter it is by a strong reference from now on. Returns whether that
    /// is `tensor` or, for one that holds its own in this way, the same as `tensor`'s.
    #[inline]
    pub(super) fn strengthen(&mut self, tensor: &TensorImpl) -> bool {
        let base = tensor.version.strong_keeper();
        let place = *self.0.get_mut();
        let known = match base {
            Some(base) => ptr::eq(place, base.as_ptr()),
            None => ptr::eq(place, tensor),
        };
        let Some(weak) = NonNull::new(place).filter(|_| known) else { return false };
        // SAFETY: the slot holds a weak reference, which goes over. The tensor is there, and with it
        // what it holds by a strong reference, if it does.
        let strong = unsafe { WeakPtr::from_raw(weak).strengthen() };
        *self.0.get_mut() = strong.into_raw().as_ptr().map_addr(|addr| addr | STRONG);
        true
    }

    /// Drops a strong reference, for the last owner of the tensor.
    pub(super) fn let_go(&self) {
        if let Some(keeper) = self.strong_keeper() {
            self.0.store(ptr::without_provenance_mut(OWN), Ordering::Relaxed);
            // SAFETY: the slot owned this reference.
            unsafe { release_keeper(keeper, true) };
        }
    }

    #[inline]
    fn counter(&self) -> &AtomicPtr<TensorImpl> {
        match self.keeper() {
            None => &self.0,
            // SAFETY: the slot holds a weak reference, which keeps the memory of that tensor; its
            // counter is there, and stays as it is when the tensor releases what it holds.
            Some(keeper) => unsafe { &(*keeper.as_ptr()).version.0 },
        }
    }

    #[inline]
    pub(super) fn current(&self) -> u32 {
        (self.counter().load(Ordering::Acquire).addr() >> 1) as u32
    }

    /// Counts one change. The number wraps.
    #[inline]
    pub(super) fn bump(&self) {
        let counter = self.counter();
        let mut before = counter.load(Ordering::Relaxed);
        loop {
            let after = ptr::without_provenance_mut(before.addr().wrapping_add(ONE));
            let (ordering, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            match counter.compare_exchange_weak(before, after, ordering, failed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    pub(super) fn shares_with(&self, other: &Self) -> bool {
        ptr::eq(self.counter(), other.counter())
    }
}

impl Drop for VersionSlot {
    #[inline]
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper() {
            // SAFETY: the slot owned this reference, which was of that kind.
            unsafe { release_keeper(keeper, self.strong_keeper().is_some()) };
        }
    }
}

/// Gives a reference back.
///
/// # Safety
/// `keeper` must be the tensor of a reference, of this kind, that nobody uses any more.
// Not inlined: dropping a tensor would be recursive, and then be inlined half at each of its uses.
#[inline(never)]
unsafe fn release_keeper(keeper: NonNull<TensorImpl>, strong: bool) {
    // SAFETY: passed on to the caller.
    unsafe {
        match strong {
            true => drop(IntrusivePtr::from_raw(keeper)),
            false => drop(WeakPtr::from_raw(keeper)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_wraps() {
        let last = (u32::MAX as usize) << 1 | OWN;
        let slot = VersionSlot(AtomicPtr::new(ptr::without_provenance_mut(last)));
        assert_eq!(slot.current(), u32::MAX);
        slot.bump();
        assert_eq!(slot.current(), 0);
        assert!(slot.is_own());
    }
}
