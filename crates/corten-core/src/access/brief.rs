//! A lock for a few instructions: pure logic, model-checked by `tests/loom.rs`.

use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody is inside. Taking it costs one locked instruction, leaving it none; a `Mutex`
/// needs one for either.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicBool);

impl Turn {
    /// Waits until nobody is inside, and enters. `wait` is called with the number of tries so far.
    #[inline]
    pub(crate) fn enter(&self, mut wait: impl FnMut(u32)) {
        let mut tries = 0;
        while self.0.swap(true, Ordering::Acquire) {
            wait(tries);
            tries = tries.saturating_add(1);
        }
    }

    /// Leaves. Only who has entered may call it.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }
}
