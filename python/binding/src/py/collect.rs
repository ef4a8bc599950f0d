//! What the garbage collector is told of the objects that a value owns.

use super::Obj;
use super::gil::Shared;
use pyo3::ffi;
use std::ffi::{c_int, c_void};

/// Takes the objects that a `tp_traverse` has to show.
pub(crate) struct Referents {
    visit: ffi::visitproc,
    arg: *mut c_void,
    status: c_int,
}

impl Referents {
    /// For the arguments of a `tp_traverse`.
    ///
    /// # Safety
    /// They are used only until that function returns.
    pub(crate) unsafe fn new(visit: ffi::visitproc, arg: *mut c_void) -> Self {
        Self { visit, arg, status: 0 }
    }

    /// Shows an object, unless it is null or the collector has seen enough.
    ///
    /// # Safety
    /// The object is live.
    pub(crate) unsafe fn add(&mut self, object: *mut ffi::PyObject) {
        if self.status == 0 && !object.is_null() {
            // SAFETY: the callback and its argument are the collector's, which is running.
            self.status = unsafe { (self.visit)(object, self.arg) };
        }
    }

    /// Shows an object.
    pub(crate) fn object(&mut self, object: &Obj) {
        // SAFETY: the reference keeps it alive.
        unsafe { self.add(object.as_ptr()) }
    }

    /// Shows an object that Rust data owns.
    pub(crate) fn shared(&mut self, object: &Shared) {
        // SAFETY: as above.
        unsafe { self.add(object.as_ptr()) }
    }

    /// What the function has to return.
    pub(crate) fn status(&self) -> c_int {
        self.status
    }
}

/// Whether an object has one reference only.
pub(crate) fn has_one_owner(object: *mut ffi::PyObject) -> bool {
    // SAFETY: called for live objects, with the interpreter lock held.
    unsafe { ffi::Py_REFCNT(object) == 1 }
}
