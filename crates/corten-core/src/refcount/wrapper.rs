//! The link from an object to its Python wrapper. See Note [Wrapper ownership].

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{IntrusivePtr, RefCounted};

/// A Python object, opaque to this crate.
pub type PyObject = NonNull<c_void>;

/// What this crate asks of Python. Each function may be called from any thread, with or without
/// the interpreter lock.
///
/// ```
/// use corten_core::{PyHooks, PyObject};
///
/// unsafe fn ignore(_: PyObject) {}
/// unsafe fn refuse(_: PyObject) -> bool {
///     false
/// }
/// let hooks = PyHooks { incref: ignore, decref: ignore, try_incref: refuse };
/// drop(hooks);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PyHooks {
    /// Adds a reference to a live wrapper.
    pub incref: unsafe fn(PyObject),
    /// Gives a reference back; may run arbitrary Python code.
    pub decref: unsafe fn(PyObject),
    /// Adds a reference unless the wrapper is dying.
    pub try_incref: unsafe fn(PyObject) -> bool,
}

static HOOKS: OnceLock<PyHooks> = OnceLock::new();

/// Installs the hooks, once per process. Returns whether this call did it.
pub fn set_py_hooks(hooks: PyHooks) -> bool {
    HOOKS.set(hooks).is_ok()
}

/// Where an object keeps the address of its wrapper.
///
/// ```
/// assert!(corten_core::Generator::cpu(0).as_intrusive().pyobject().is_none());
/// ```
#[derive(Debug)]
pub struct PyObjectSlot(AtomicPtr<c_void>);

impl PyObjectSlot {
    pub(crate) const fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn get(&self) -> Option<PyObject> {
        NonNull::new(self.0.load(Ordering::Acquire))
    }
}

/// The wrapper and the hooks, when both are there.
fn wrapper(slot: Option<&PyObjectSlot>) -> Option<(PyObject, &'static PyHooks)> {
    Some((slot?.get()?, HOOKS.get()?))
}

#[cold]
pub(super) fn keep(slot: Option<&PyObjectSlot>) {
    if let Some((object, hooks)) = wrapper(slot) {
        // SAFETY: the count was 1 with the wrapper bit set, so the wrapper owned that reference
        // and is alive.
        unsafe { (hooks.incref)(object) };
    }
}

#[cold]
pub(super) fn give_back(slot: Option<&PyObjectSlot>) {
    if let Some((object, hooks)) = wrapper(slot) {
        // SAFETY: the object owned one reference to its wrapper while its count was above 1.
        unsafe { (hooks.decref)(object) };
    }
}

#[cold]
pub(super) fn try_keep(slot: Option<&PyObjectSlot>) -> Option<PyObject> {
    let (object, hooks) = wrapper(slot)?;
    // SAFETY: the hook itself finds out whether the wrapper is still alive.
    unsafe { (hooks.try_incref)(object) }.then_some(object)
}

#[cold]
pub(super) fn undo(kept: Option<PyObject>) {
    if let (Some(object), Some(hooks)) = (kept, HOOKS.get()) {
        // SAFETY: `try_keep` has added the reference that is given back here.
        unsafe { (hooks.decref)(object) };
    }
}

impl<T: RefCounted> IntrusivePtr<T> {
    /// The Python wrapper, if there is one. The reference is borrowed.
    #[inline]
    pub fn pyobject(&self) -> Option<PyObject> {
        if self.refcount().has_wrapper() { self.pyobject_slot()?.get() } else { None }
    }

    /// Makes `object` the wrapper. It must already own one strong reference to this object, which
    /// is `self`'s or another. Fails with the present wrapper if another thread was faster.
    ///
    /// # Safety
    /// `object` must be a live Python object that calls [`clear_pyobject`](Self::clear_pyobject)
    /// when it dies, and the hooks must be installed.
    pub unsafe fn set_pyobject(&mut self, object: PyObject) -> std::result::Result<(), PyObject> {
        let (Some(slot), Some(hooks)) = (self.pyobject_slot(), HOOKS.get()) else { return Ok(()) };
        let raw = object.as_ptr();
        // A new object needs no locked instructions: nobody else knows it.
        if self.refcount().set_wrapper_of_sole() {
            slot.0.store(raw, Ordering::Relaxed);
            return Ok(());
        }
        let swap =
            slot.0.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire);
        if let Err(present) = swap {
            // SAFETY: the exchange failed because the slot was not null.
            return Err(unsafe { NonNull::new_unchecked(present) });
        }
        let mut shared = self.refcount().strong_count() > 1;
        loop {
            if shared {
                // SAFETY: the caller vouches that the wrapper is alive.
                unsafe { (hooks.incref)(object) };
            }
            if self.refcount().try_set_wrapper(shared) {
                return Ok(());
            }
            if shared {
                // SAFETY: undoes the `incref` above.
                unsafe { (hooks.decref)(object) };
            }
            shared = !shared;
        }
    }

    /// Separates object and wrapper, for the wrapper's deallocator. Returns whether the object held
    /// a reference to the wrapper that the caller must give back.
    pub fn clear_pyobject(&mut self) -> bool {
        let owned = !self.refcount().clear_wrapper_of_sole() && self.refcount().clear_wrapper();
        if let Some(slot) = self.pyobject_slot() {
            slot.0.store(ptr::null_mut(), Ordering::Release);
        }
        owned
    }
}
