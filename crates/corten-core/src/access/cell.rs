//! A value that several threads change, each for a few instructions.

use std::cell::UnsafeCell;
use std::fmt;

use super::spinlock::SpinLock;

/// A value behind a lock that is held for a few instructions.
///
/// ```
/// use corten_core::BriefCell;
///
/// static COUNT: BriefCell<u64> = BriefCell::new(0);
/// COUNT.with(|count| *count += 1);
/// assert_eq!(COUNT.with(|count| *count), 1);
/// ```
pub struct BriefCell<T> {
    turn: SpinLock,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lets one thread in at a time, and hands out nothing that outlives the call.
unsafe impl<T: Send> Sync for BriefCell<T> {}

/// Tries before the processor is left to the one who is inside.
const SPINS: u32 = 64;

impl<T> BriefCell<T> {
    /// A value behind a lock.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { turn: SpinLock::new(), value: UnsafeCell::new(value) }
    }

    /// Runs `work` on the value. It must neither come back to this cell, which would never end,
    /// nor run code of others, such as the destructor of what it replaces: hand that out.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        if !self.turn.try_enter() {
            self.wait();
        }
        let _leave = Leave(&self.turn);
        // SAFETY: this thread is inside until `_leave` is dropped.
        work(unsafe { &mut *self.value.get() })
    }

    /// [`with`](Self::with), unless somebody is inside.
    pub fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.turn.try_enter() {
            return None;
        }
        let _leave = Leave(&self.turn);
        // SAFETY: this thread is inside until `_leave` is dropped.
        Some(work(unsafe { &mut *self.value.get() }))
    }

    #[cold]
    fn wait(&self) {
        let mut tries = 0_u32;
        while !self.turn.try_enter() {
            if tries < SPINS {
                std::hint::spin_loop();
            } else {
                crate::sync::yield_now();
            }
            tries = tries.saturating_add(1);
        }
    }

    /// The value, without the lock.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

struct Leave<'a>(&'a SpinLock);

impl Drop for Leave<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<T> fmt::Debug for BriefCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BriefCell").finish_non_exhaustive()
    }
}
