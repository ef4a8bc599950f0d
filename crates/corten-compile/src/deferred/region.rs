//! The stretch of a thread's calls that is recorded.

use super::program::DeferredProgram;
use corten_core::{DEFERRED, Deferred, Result, tls};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static CURRENT: RefCell<Option<Arc<DeferredProgram>>> = const { RefCell::new(None) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Records the calls of this thread while it lives. A region within another one is a part of it.
///
/// ```
/// use corten::prelude::*;
/// use corten_compile::Region;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0, 2.0]?;
/// let region = Region::enter();
/// let y = (&x * &x)?.exp()?;
/// region.finish()?;
/// assert_eq!(y.to_vec::<f32>()?, [1f32.exp(), 4f32.exp()]);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Region {
    /// Whether the key was not included before.
    included: bool,
    /// It acts on the thread that made it.
    thread: PhantomData<*mut ()>,
}

impl Region {
    /// Starts recording.
    pub fn enter() -> Self {
        super::init();
        let included = !tls::local_include().has_any(DEFERRED);
        if included {
            tls::set_included(DEFERRED, true);
        }
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            CURRENT.set(Some(Arc::default()));
        }
        Self { included, thread: PhantomData }
    }

    /// Ends the region; the outermost one runs what is recorded.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn finish(self) -> Result<()> {
        let outcome = self.leave();
        std::mem::forget(self);
        outcome
    }

    fn leave(&self) -> Result<()> {
        if self.included {
            tls::set_included(DEFERRED, false);
        }
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        let ended = if depth == 0 { CURRENT.take() } else { None };
        ended.map_or(Ok(()), |program| program.flush(true))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // What failed says so to whoever touches it.
        let _ = self.leave();
    }
}

/// The program that this thread records.
pub(super) fn current() -> Option<Arc<DeferredProgram>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether this thread records its calls.
///
/// ```
/// assert!(!corten_compile::is_recording());
/// ```
pub fn is_recording() -> bool {
    DEPTH.get() > 0 && !tls::local_exclude().has_any(DEFERRED)
}

/// Runs what this thread has recorded because the program says so, and goes on recording.
///
/// # Errors
/// Those of the calls.
pub fn break_region(reason: &str) -> Result<()> {
    super::statistics::note_break("a graph break".to_owned(), reason.to_owned());
    flush_thread()
}

/// Runs what this thread has recorded, and goes on recording.
///
/// # Errors
/// Those of the calls.
pub fn flush_thread() -> Result<()> {
    current().map_or(Ok(()), |program| program.flush(true))
}
