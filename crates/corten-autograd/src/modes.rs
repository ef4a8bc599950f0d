//! Whether operators are recorded.

use corten_core::{GradModeGuard, InferenceModeGuard};

/// Runs `body` without recording: its results require no gradient.
pub fn no_grad<R>(body: impl FnOnce() -> R) -> R {
    let _mode = GradModeGuard::new(false);
    body()
}

/// Runs `body` with recording, inside of [`no_grad`] too.
pub fn enable_grad<R>(body: impl FnOnce() -> R) -> R {
    let _mode = GradModeGuard::new(true);
    body()
}

/// Runs `body` in inference mode: nothing is recorded, and its results can never be.
pub fn inference_mode<R>(body: impl FnOnce() -> R) -> R {
    let _mode = InferenceModeGuard::new(true);
    body()
}
