//! A lock for a few instructions: pure logic, model-checked by `tests/loom.rs`.

use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody is inside. Taking it costs one locked instruction, leaving it none; a `Mutex`
/// needs one for either.
#[derive(Debug, Default)]
pub(crate) struct SpinLock(AtomicBool);

impl SpinLock {
    /// Nobody is inside.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Enters if nobody is inside.
    #[inline]
    pub(crate) fn try_enter(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    /// Leaves. Only who has entered may call it.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }
}
