//! The stretch of a thread's calls that is recorded.

use super::program::DeferredProgram;
use super::statistics;
use corten_core::{DEFERRED, Deferred, Result, err, grad_mode_enabled, tls};
use corten_ops::Tensor;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static CURRENT: RefCell<Option<Arc<DeferredProgram>>> = const { RefCell::new(None) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// How many of the active regions forbid breaks.
    static STRICT: Cell<usize> = const { Cell::new(0) };
    /// How many reasons there are to run the program that are no breaks of the region.
    static EXPECTED: Cell<usize> = const { Cell::new(0) };
    /// Whether a graph was recorded in a region since the thread forgot the last.
    static GRAPHS: Cell<bool> = const { Cell::new(false) };
    /// Whether programs of the outermost region may be folded.
    static FOLDS: Cell<bool> = const { Cell::new(false) };
}

/// How the message of a forbidden break begins.
const FORBIDDEN: &str = "graph break under fullgraph=True";

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
/// assert!(op::allclose(&y, &op::exp(&(&x * &x)?)?, 1e-6, 0.0, false)?);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Region {
    /// Whether the key was not included before.
    included: bool,
    /// Whether breaks are errors.
    strict: bool,
    /// It acts on the thread that made it.
    thread: PhantomData<*mut ()>,
}

impl Region {
    /// Starts recording.
    pub fn enter() -> Self {
        Self::enter_with(false)
    }

    /// As [`enter`](Self::enter); where `strict` is true, data that is looked at in the region is an error.
    pub fn enter_with(strict: bool) -> Self {
        super::init();
        STRICT.set(STRICT.get() + usize::from(strict));
        let included = !tls::local_include().has_any(DEFERRED);
        if included {
            tls::set_included(DEFERRED, true);
        }
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            CURRENT.set(Some(Arc::default()));
        }
        Self { included, strict, thread: PhantomData }
    }

    /// Allows programs of the outermost region without graphs to [fold](crate::ir::Program::set_folds) weights.
    pub fn allow_folding(&self) {
        FOLDS.set(true);
    }

    /// Ends the region; the outermost one runs what is recorded.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn finish(self) -> Result<()> {
        let outcome = self.leave(None);
        std::mem::forget(self);
        outcome
    }

    /// As [`finish`](Self::finish), where the program will look at `returned` and, as far as it knows, at no other
    /// result: where graphs are recorded, results that only their backward pass reads and that take little to compute
    /// stay without memory, and are computed when somebody wants them.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn finish_returning(self, returned: &[&Tensor]) -> Result<()> {
        let storages = returned.iter().filter_map(|tensor| tensor.storage_opt());
        let keys = storages.map(|storage| storage.key()).collect();
        let outcome = self.leave(Some(keys));
        std::mem::forget(self);
        outcome
    }

    fn leave(&self, returned: Option<Vec<usize>>) -> Result<()> {
        if self.included {
            tls::set_included(DEFERRED, false);
        }
        STRICT.set(STRICT.get() - usize::from(self.strict));
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        let graphs = grad_mode_enabled();
        if graphs {
            GRAPHS.set(true);
        }
        let ended = if depth == 0 { CURRENT.take() } else { None };
        let Some(program) = ended else { return Ok(()) };
        if let Some(returned) = returned.filter(|_| graphs) {
            program.may_leave(returned);
        }
        let outcome = expected(|| program.flush(true));
        FOLDS.set(false);
        outcome
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // What failed says so to whoever touches it.
        let _ = self.leave(None);
    }
}

/// Runs `body`, in which programs may run without being broken.
pub(super) fn expected<R>(body: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            EXPECTED.set(EXPECTED.get() - 1);
        }
    }
    EXPECTED.set(EXPECTED.get() + 1);
    let _restore = Restore;
    body()
}

/// Notes that this thread looks at what it is recording.
///
/// # Errors
/// In a region that forbids it.
pub(super) fn look(program: &DeferredProgram, operator: &str, reason: &str) -> Result<()> {
    let is_own = CURRENT.with_borrow(|current| {
        current.as_ref().is_some_and(|current| std::ptr::eq(&raw const **current, program))
    });
    if !is_own || EXPECTED.get() > 0 {
        return Ok(());
    }
    statistics::note_break(operator, reason);
    if STRICT.get() == 0 {
        return Ok(());
    }
    let line = super::program::line();
    let at = line.map_or(String::new(), |line| format!(" at {line}"));
    Err(err!(Runtime, "{FORBIDDEN}: {operator}{at}: {reason}"))
}

/// Whether backward passes of this thread should be regions: it has recorded graphs in some.
///
/// ```
/// assert!(!corten_compile::defers_passes());
/// ```
pub fn defers_passes() -> bool {
    GRAPHS.get()
}

/// Whether the program that this thread is about to run may be folded.
pub(super) fn folds() -> bool {
    FOLDS.get() && !grad_mode_enabled()
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
    let Some(program) = current() else { return Ok(()) };
    look(&program, "graph_break", reason)?;
    expected(|| program.flush(true))
}

/// Runs what this thread has recorded, and goes on recording.
///
/// # Errors
/// Those of the calls.
pub fn flush_thread() -> Result<()> {
    current().map_or(Ok(()), |program| expected(|| program.flush(true)))
}
