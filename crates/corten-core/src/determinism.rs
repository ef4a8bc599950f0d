//! The wish for the same results in every run.

use std::sync::atomic::{AtomicBool, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);
static FILLING: AtomicBool = AtomicBool::new(true);

/// Asks for the same results in every run. The kernels of the CPU give them anyway; new memory
/// whose contents are arbitrary otherwise is filled, see [`set_fill_uninitialized_memory`].
pub fn use_deterministic_algorithms(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
}

/// Whether the same results are asked for in every run.
pub fn are_deterministic_algorithms_enabled() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Whether that wish includes filling what `empty` and its kin return and what `resize_` adds: with
/// NaN, the greatest integer or `true`. It does unless told otherwise.
pub fn set_fill_uninitialized_memory(fill: bool) {
    FILLING.store(fill, Ordering::Relaxed);
}

/// What [`set_fill_uninitialized_memory`] was told.
pub fn fill_uninitialized_memory() -> bool {
    FILLING.load(Ordering::Relaxed)
}
