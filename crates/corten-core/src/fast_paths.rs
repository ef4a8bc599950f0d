//! The switch between fast paths and the general path.
//!
//! Note [Fast paths]: a fast path takes the calls on which it gives what the general path gives, and
//! leaves all others to it. Each of them asks [`fast_paths`] first, so that tests can run everything
//! both ways. Builds without debug assertions have no switch: the question is a constant there.

/// Whether fast paths are taken.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn fast_paths() -> bool {
    true
}

/// Turns fast paths on or off. Returns whether this build can.
#[cfg(not(debug_assertions))]
pub fn set_fast_paths(_on: bool) -> bool {
    false
}

#[cfg(debug_assertions)]
pub use switch::{fast_paths, set_fast_paths};

#[cfg(debug_assertions)]
mod switch {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Off from the start with `CORTEN_GENERAL_PATHS=1`.
    fn state() -> &'static AtomicBool {
        static STATE: OnceLock<AtomicBool> = OnceLock::new();
        STATE.get_or_init(|| AtomicBool::new(!crate::config::flag("CORTEN_GENERAL_PATHS")))
    }

    /// Whether fast paths are taken.
    #[inline]
    pub fn fast_paths() -> bool {
        state().load(Ordering::Relaxed)
    }

    /// Turns fast paths on or off. Returns whether this build can.
    pub fn set_fast_paths(on: bool) -> bool {
        state().store(on, Ordering::Relaxed);
        true
    }
}
