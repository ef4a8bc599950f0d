//! Regions that run on one thread.

use super::INSIDE;

/// Runs `body` on the calling thread alone.
pub(crate) fn alone<R>(body: impl FnOnce() -> R) -> R {
    let _before = Before(INSIDE.replace(true));
    body()
}

/// What [`in_parallel_region`] is again afterwards, a panic included.
struct Before(bool);

impl Drop for Before {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}
