//! The interpreter lock: giving it up around long work, taking it for reference counts.

use pyo3::ffi;
use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Work below this many nanoseconds keeps the lock.
///
/// Note [Keeping the interpreter lock]: when another Python thread is busy, an operator that gives
/// the lock up waits up to a switch interval (5 ms) to get it back: measured 38 to 580 µs a call
/// against 0.3 µs. So only work that takes longer than such a wait is worth the hand-over.
pub(crate) const DETACH_ABOVE_NS: u64 = 50_000;

/// How many calls run without the interpreter lock. Only changed with the lock held.
static DETACHED: AtomicUsize = AtomicUsize::new(0);

/// Whether no call runs without the lock. While a thread holds the lock that does not change.
pub(crate) fn all_attached() -> bool {
    DETACHED.load(Ordering::Relaxed) == 0
}

/// Runs `work` without the interpreter lock.
pub(crate) fn detach<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    struct Restore(*mut ffi::PyThreadState);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the state saved by this thread, restored once.
            unsafe { ffi::PyEval_RestoreThread(self.0) };
            DETACHED.store(DETACHED.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        }
    }
    DETACHED.store(DETACHED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    // SAFETY: the lock is held by whoever calls into the binding.
    let restore = Restore(unsafe { ffi::PyEval_SaveThread() });
    let result = work();
    drop(restore);
    super::super::warnings::emit_pending();
    result
}

/// As [`detach`], for work on what belongs to this thread.
pub(crate) fn without<T>(work: impl FnOnce() -> T) -> T {
    struct OfThread<W>(W);
    // SAFETY: `detach` runs the work on the thread that calls it.
    unsafe impl<W> Send for OfThread<W> {}
    let (work, mut result) = (OfThread(work), OfThread(None));
    let place = OfThread(&mut result);
    detach(move || {
        let (OfThread(work), OfThread(place)) = ({ work }, { place });
        place.0 = Some(work());
    });
    match result.0 {
        Some(result) => result,
        None => unreachable!("the work has run"),
    }
}

/// Runs `work` without the lock when it is estimated to take long enough.
pub(crate) fn detach_if<T: Send>(long: bool, work: impl FnOnce() -> T + Send) -> T {
    if long { detach(work) } else { work() }
}

/// Runs `work` with the lock held, taking it where it is not.
pub(crate) fn attach<T>(work: impl FnOnce() -> T) -> T {
    struct Release(ffi::PyGILState_STATE);
    impl Drop for Release {
        fn drop(&mut self) {
            // SAFETY: matches the `Ensure` below on the same thread.
            unsafe { ffi::PyGILState_Release(self.0) };
        }
    }
    if is_attached() {
        return work();
    }
    // SAFETY: the interpreter is running (`is_alive` guards the callers that outlive it).
    let _release = Release(unsafe { ffi::PyGILState_Ensure() });
    work()
}

/// Runs Python for the Rust layers: with the lock held, also while an exception becomes an error.
///
/// # Errors
/// What `work` raised.
pub(crate) fn call_python<T>(work: impl FnOnce() -> super::Py<T>) -> corten_core::Result<T> {
    attach(|| work().map_err(super::Raised::into_error))
}

/// `PyGILState_Check`, which is outside the stable ABI but exported by every CPython.
static STATE_CHECK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// `PyObject_Vectorcall`, which is in the stable ABI since 3.12 only.
static VECTORCALL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Calls an object with so many arguments in a row, and the names of the last ones or null.
pub(crate) type Vectorcall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The call without a tuple, if the interpreter has it.
pub(crate) fn vectorcall() -> Option<Vectorcall> {
    let symbol = VECTORCALL.load(Ordering::Relaxed);
    // SAFETY: the symbol was looked up under the name of a function of this type.
    (!symbol.is_null()).then(|| unsafe { std::mem::transmute(symbol) })
}

/// Looks up what the stable ABI lacks.
pub(crate) fn init() {
    STATE_CHECK.store(symbol(c"PyGILState_Check").cast(), Ordering::Relaxed);
    VECTORCALL.store(symbol(c"PyObject_Vectorcall").cast(), Ordering::Relaxed);
}

unsafe extern "C" {
    fn dlsym(handle: *mut std::ffi::c_void, name: *const std::ffi::c_char)
    -> *mut std::ffi::c_void;
}

/// A symbol of anything that is loaded; null where nothing has it.
pub(crate) fn symbol(name: &std::ffi::CStr) -> *mut std::ffi::c_void {
    // SAFETY: the name is terminated; a null handle is the default search order.
    unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) }
}

/// Whether this thread holds the lock.
pub(crate) fn is_attached() -> bool {
    let symbol = STATE_CHECK.load(Ordering::Relaxed);
    if symbol.is_null() {
        return false;
    }
    // SAFETY: the symbol was looked up under the name of a function of this type.
    let check: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(symbol) };
    // SAFETY: callable from any thread.
    unsafe { check() != 0 }
}

/// Whether there is an interpreter to count references in.
pub(crate) fn is_alive() -> bool {
    // SAFETY: callable from any thread at any time.
    unsafe { ffi::Py_IsInitialized() != 0 }
}

/// Gives up a reference from any thread; at interpreter exit it is leaked instead.
pub(crate) fn decref(object: *mut ffi::PyObject) {
    if is_alive() {
        // SAFETY: the reference is the caller's and the lock is held inside.
        attach(|| unsafe { ffi::Py_DECREF(object) });
    }
}

/// A Python object that Rust data of any thread may own.
pub(crate) struct Shared(*mut ffi::PyObject);

// SAFETY: the object is reached only through `get`, which requires the lock, and dropped by
// `decref`, which takes it.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Keeps a reference.
    pub(crate) fn new(object: super::Obj) -> Self {
        Self(object.into_ptr())
    }

    /// The address of the object.
    pub(crate) fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0
    }

    /// The object; the caller holds the lock.
    pub(crate) fn get(&self) -> super::Obj {
        // SAFETY: the reference is ours.
        unsafe { super::Obj::borrowed(self.0) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        decref(self.0);
    }
}
