//! Interned attribute and keyword names.

use super::obj::Obj;
use pyo3::ffi;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A name that is interned at first use and then compared by address.
pub(crate) struct Name {
    text: &'static CStr,
    object: AtomicPtr<ffi::PyObject>,
}

impl Name {
    /// A name to be interned later.
    pub(crate) const fn new(text: &'static CStr) -> Self {
        Self { text, object: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The interned string; it lives as long as the process.
    pub(crate) fn as_ptr(&self) -> *mut ffi::PyObject {
        let object = self.object.load(Ordering::Relaxed);
        if object.is_null() { self.intern() } else { object }
    }

    #[cold]
    fn intern(&self) -> *mut ffi::PyObject {
        // SAFETY: the text is terminated; interning fails only without memory, where CPython aborts.
        let object = unsafe { ffi::PyUnicode_InternFromString(self.text.as_ptr()) };
        self.object.store(object, Ordering::Relaxed);
        object
    }

    /// The name as an object.
    pub(crate) fn obj(&self) -> Obj {
        // SAFETY: interned strings are kept for ever.
        unsafe { Obj::borrowed(self.as_ptr()) }
    }
}

/// The interned form of a string literal.
macro_rules! name {
    ($text:literal) => {{
        const TEXT: &std::ffi::CStr =
            match std::ffi::CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                Ok(text) => text,
                Err(_) => panic!("a name without inner NUL"),
            };
        static NAME: $crate::py::names::Name = $crate::py::names::Name::new(TEXT);
        &NAME
    }};
}
pub(crate) use name;
