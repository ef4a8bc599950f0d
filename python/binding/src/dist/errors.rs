//! Exceptions of `torch.distributed`, and Ctrl-C while something is waited for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use corten_core::Error;
use corten_dist::{DistError, DistErrorKind, interrupt};

use crate::py::errors::{Caught, ExceptionCell, Raised, new_exception, set_exception};
use crate::py::{Args, Obj, Py, ffi, gil};

static DIST: ExceptionCell = ExceptionCell::new();
static BACKEND: ExceptionCell = ExceptionCell::new();
static NETWORK: ExceptionCell = ExceptionCell::new();
static STORE: ExceptionCell = ExceptionCell::new();
static QUEUE_EMPTY: ExceptionCell = ExceptionCell::new();

/// The thread that runs Python's handlers of signals.
static MAIN_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// Whether the interpreter is about to end: threads of engines must not enter it any more.
static EXITING: AtomicBool = AtomicBool::new(false);

/// Whether threads of engines may call Python.
pub(super) fn may_call_python() -> bool {
    gil::is_alive() && !EXITING.load(Ordering::Acquire)
}

/// `_dist_at_exit()`: the interpreter is about to end.
pub(super) fn at_exit(_module: &Obj, _args: Args<'_>) -> Py<Obj> {
    EXITING.store(true, Ordering::Release);
    Ok(Obj::none())
}

/// Raises the exception of an error.
pub(crate) fn raise(error: &DistError) -> Raised {
    let cell = match error.kind() {
        DistErrorKind::Dist => &DIST,
        DistErrorKind::Backend => &BACKEND,
        DistErrorKind::Network => &NETWORK,
        DistErrorKind::Store => &STORE,
        DistErrorKind::QueueEmpty => &QUEUE_EMPTY,
        DistErrorKind::Core(kind) => {
            return Raised::from(Error::new(kind, error.message().to_owned()));
        }
        DistErrorKind::Foreign => return raise_foreign(error),
    };
    set_exception(cell, error.message())
}

fn raise_foreign(error: &DistError) -> Raised {
    let caught = error.payload().and_then(|payload| payload.downcast_ref::<Caught>());
    match caught.and_then(Caught::exception) {
        Some(exception) => Raised::raise(&exception),
        None => set_exception(&DIST, error.message()),
    }
}

/// The exception of an error as an object.
pub(crate) fn exception(error: &DistError) -> Py<Obj> {
    Ok(raise(error).take().unwrap_or_else(Obj::none))
}

/// An exception that Python raised, for the Rust layers.
pub(crate) fn caught(raised: Raised) -> DistError {
    DistError::from(raised.into_error())
}

/// Runs without the interpreter lock; the error becomes an exception.
pub(crate) fn detached<T: Send>(work: impl FnOnce() -> corten_dist::Result<T> + Send) -> Py<T> {
    gil::detach(work).map_err(|error| raise(&error))
}

/// Runs Python's handlers of signals: nothing, unless one raises.
fn check_signals() -> Option<DistError> {
    if MAIN_THREAD.get() != Some(&std::thread::current().id()) || !gil::is_alive() {
        return None;
    }
    gil::attach(|| {
        // SAFETY: the lock is held.
        if unsafe { ffi::PyErr_CheckSignals() } == 0 { None } else { Raised::pending().map(caught) }
    })
}

/// Makes the classes, and has waits look for signals.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    MAIN_THREAD.get_or_init(|| std::thread::current().id());
    interrupt::set_check(check_signals);
    let doc = c"A failure between processes.";
    let base = new_exception(&DIST, c"corten.distributed.DistError", doc, None)?;
    module.set_attr_str(c"_DistError", &base)?;
    let doc = c"A collective failed, or a rank did not come.";
    let name = c"corten.distributed.DistBackendError";
    module.set_attr_str(c"_DistBackendError", &new_exception(&BACKEND, name, doc, Some(&base))?)?;
    let doc = c"A connection could not be made, or broke.";
    let name = c"corten.distributed.DistNetworkError";
    module.set_attr_str(c"_DistNetworkError", &new_exception(&NETWORK, name, doc, Some(&base))?)?;
    let doc = c"A store failed, or a key did not come in time.";
    let name = c"corten.distributed.DistStoreError";
    let store = new_exception(&STORE, name, doc, Some(&base))?;
    module.set_attr_str(c"_DistStoreError", &store)?;
    let doc = c"A queue of a store is empty.";
    let name = c"corten.distributed.QueueEmptyError";
    let empty = new_exception(&QUEUE_EMPTY, name, doc, Some(&store))?;
    module.set_attr_str(c"_DistQueueEmptyError", &empty)
}
