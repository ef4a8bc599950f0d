//! The pending Python exception as a Rust error.

use super::obj::Obj;
use corten_core::{Error, ErrorKind};
use pyo3::ffi;
use std::ffi::CString;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A result whose error is an exception already set in the interpreter.
pub(crate) type Py<T> = Result<T, Raised>;

/// Proof that a Python exception is set on this thread.
#[derive(Debug)]
pub(crate) struct Raised(());

/// The exception classes that Corten adds, filled in when the module is made.
pub(crate) static OUT_OF_MEMORY: ExceptionCell = ExceptionCell::new();
pub(crate) static ACCELERATOR: ExceptionCell = ExceptionCell::new();
pub(crate) static LINALG: ExceptionCell = ExceptionCell::new();
pub(crate) static NO_DEVICE: ExceptionCell = ExceptionCell::new();

/// A place for an exception class.
pub(crate) struct ExceptionCell(AtomicPtr<ffi::PyObject>);

impl ExceptionCell {
    /// A place for a class.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Keeps the class for ever.
    pub(crate) fn set(&self, class: Obj) {
        self.0.store(class.into_ptr(), Ordering::Relaxed);
    }

    fn get(&self) -> *mut ffi::PyObject {
        let class = self.0.load(Ordering::Relaxed);
        // SAFETY: reads a static of the interpreter.
        if class.is_null() { unsafe { ffi::PyExc_RuntimeError } } else { class }
    }
}

/// An exception caught in a hook, on its way through the engine.
pub(crate) struct Caught(*mut ffi::PyObject);

// SAFETY: the exception is only touched again with the interpreter lock held (`Raised::from`), and
// a dropped one is handed to `gil::decref_later`, which takes the lock.
unsafe impl Send for Caught {}
// SAFETY: nothing is reachable through a shared reference.
unsafe impl Sync for Caught {}

impl Caught {
    /// The exception, which stays here; the caller holds the interpreter lock.
    pub(crate) fn exception(&self) -> Option<Obj> {
        // SAFETY: the reference is this value's own.
        (!self.0.is_null()).then(|| unsafe { Obj::borrowed(self.0) })
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        if !self.0.is_null() {
            super::gil::decref(self.0);
        }
    }
}

impl Raised {
    /// Hands the exception to `sys.unraisablehook`, where nobody can be told of it.
    pub(crate) fn report(self, context: &Obj) {
        // SAFETY: an exception is set on this thread, which holds the interpreter lock; the object is alive.
        unsafe { ffi::PyErr_WriteUnraisable(context.as_ptr()) };
    }

    /// The C API reported failure, so an exception is set.
    pub(crate) fn already() -> Self {
        Self(())
    }

    /// The exception that is set, if any.
    pub(crate) fn pending() -> Option<Self> {
        // SAFETY: the lock is held.
        (!unsafe { ffi::PyErr_Occurred() }.is_null()).then_some(Self(()))
    }

    /// Forgets the exception.
    pub(crate) fn clear(self) {
        // SAFETY: the lock is held.
        unsafe { ffi::PyErr_Clear() };
    }

    /// Whether the exception is an instance of the class.
    pub(crate) fn matches(&self, class: *mut ffi::PyObject) -> bool {
        // SAFETY: the lock is held and the class is live.
        unsafe { ffi::PyErr_ExceptionMatches(class) != 0 }
    }

    /// Forgets an `AttributeError`, passes on anything else.
    pub(crate) fn absorb_attribute_error(self) -> Py<()> {
        // SAFETY: reads a static of the interpreter.
        if self.matches(unsafe { ffi::PyExc_AttributeError }) {
            self.clear();
            return Ok(());
        }
        Err(self)
    }

    /// Takes the exception out of the interpreter as an error for the Rust layers.
    pub(crate) fn into_error(self) -> Error {
        match self.take() {
            Some(exception) => Error::external(Box::new(Caught(exception.into_ptr()))),
            None => Error::new(ErrorKind::Internal, "an exception was lost".to_owned()),
        }
    }

    /// Takes the exception out of the interpreter, with its traceback attached.
    pub(crate) fn take(self) -> Option<Obj> {
        let (mut class, mut value, mut trace) = (
            std::ptr::null_mut::<ffi::PyObject>(),
            std::ptr::null_mut::<ffi::PyObject>(),
            std::ptr::null_mut::<ffi::PyObject>(),
        );
        // SAFETY: the three references become ours; normalising makes `value` an instance.
        unsafe {
            ffi::PyErr_Fetch(&raw mut class, &raw mut value, &raw mut trace);
            ffi::PyErr_NormalizeException(&raw mut class, &raw mut value, &raw mut trace);
            if !trace.is_null() && !value.is_null() {
                ffi::PyException_SetTraceback(value, trace);
            }
            ffi::Py_XDECREF(class);
            ffi::Py_XDECREF(trace);
            Obj::owned(value).map_err(|_| ()).ok()
        }
    }

    /// Raises an exception object.
    pub(crate) fn raise(exception: &Obj) -> Self {
        // SAFETY: both are live.
        unsafe { ffi::PyErr_SetObject(exception.type_ptr().cast(), exception.as_ptr()) };
        Self(())
    }

    fn set(class: *mut ffi::PyObject, message: &str) -> Self {
        // SAFETY: the class is live; the message may hold any bytes of UTF-8.
        unsafe {
            let text = ffi::PyUnicode_FromStringAndSize(
                message.as_ptr().cast(),
                message.len() as ffi::Py_ssize_t,
            );
            if !text.is_null() {
                ffi::PyErr_SetObject(class, text);
                ffi::Py_DECREF(text);
            }
        }
        Self(())
    }
}

macro_rules! raisers {
    ($($function:ident, $class:ident;)+) => {$(
        /// Raises the exception of that name.
        #[cold]
        pub(crate) fn $function(message: impl AsRef<str>) -> Raised {
            // SAFETY: reads a static of the interpreter.
            Raised::set(unsafe { ffi::$class }, message.as_ref())
        }
    )+};
}

raisers! {
    type_error, PyExc_TypeError;
    value_error, PyExc_ValueError;
    index_error, PyExc_IndexError;
    runtime_error, PyExc_RuntimeError;
    not_implemented_error, PyExc_NotImplementedError;
    attribute_error, PyExc_AttributeError;
    buffer_error, PyExc_BufferError;
    assertion_error, PyExc_AssertionError;
    overflow_error, PyExc_OverflowError;
}

impl From<Error> for Raised {
    #[cold]
    fn from(error: Error) -> Self {
        // SAFETY: reads statics of the interpreter.
        let class = unsafe {
            match error.kind() {
                ErrorKind::Runtime | ErrorKind::Internal => ffi::PyExc_RuntimeError,
                ErrorKind::Index => ffi::PyExc_IndexError,
                ErrorKind::Value => ffi::PyExc_ValueError,
                ErrorKind::Type => ffi::PyExc_TypeError,
                ErrorKind::NotImplemented => ffi::PyExc_NotImplementedError,
                ErrorKind::Buffer => ffi::PyExc_BufferError,
                ErrorKind::Accelerator => return raise_accelerator(&error),
                ErrorKind::OutOfMemory => OUT_OF_MEMORY.get(),
                ErrorKind::LinAlg => LINALG.get(),
                ErrorKind::Assertion => ffi::PyExc_AssertionError,
                ErrorKind::NoDevice => NO_DEVICE.get(),
                ErrorKind::External => return raise_external(error),
            }
        };
        Self::set(class, error.message())
    }
}

/// Raises the exception of a class that Corten adds.
pub(crate) fn set_exception(class: &ExceptionCell, message: &str) -> Raised {
    Raised::set(class.get(), message)
}

/// Raises the error of a device, which has its number as `error_code`.
fn raise_accelerator(error: &Error) -> Raised {
    let raised = Raised::set(ACCELERATOR.get(), error.message());
    let Some(exception) = raised.take() else { return runtime_error(error.message()) };
    let set =
        Obj::int(error.code().into()).and_then(|code| exception.set_attr_str(c"error_code", &code));
    if let Err(other) = set {
        other.clear();
    }
    Raised::raise(&exception)
}

/// Puts an exception that travelled through the Rust layers back into the interpreter.
fn raise_external(error: Error) -> Raised {
    let message = error.message().to_owned();
    let Ok(payload) = error.into_external() else { return runtime_error(message) };
    let payload = match payload.downcast::<corten_dist::DistError>() {
        Ok(error) => return crate::dist::raise(&error),
        Err(payload) => payload,
    };
    let Ok(mut caught) = payload.downcast::<Caught>() else { return runtime_error(message) };
    let exception = std::mem::replace(&mut caught.0, std::ptr::null_mut());
    // SAFETY: the reference was owned by `caught`.
    match unsafe { Obj::owned(exception) } {
        Ok(exception) => Raised::raise(&exception),
        Err(_) => runtime_error(message),
    }
}

/// Issues a warning of a category of the interpreter.
pub(crate) fn warn_as(category: *mut ffi::PyObject, message: &str) -> Py<()> {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the category is live and the text terminated.
    super::obj::check(unsafe { ffi::PyErr_WarnEx(category, text.as_ptr(), 1) })
}

/// Issues a `UserWarning`.
pub(crate) fn warn(message: &str) -> Py<()> {
    // SAFETY: reads a static of the interpreter.
    warn_as(unsafe { ffi::PyExc_UserWarning }, message)
}

/// `(AssertionError, NotImplementedError)`, of which the second is a `RuntimeError`.
pub(crate) fn device_error_bases() -> Py<Obj> {
    // SAFETY: reads statics of the interpreter, which are live.
    let bases = unsafe { [ffi::PyExc_AssertionError, ffi::PyExc_NotImplementedError] };
    Obj::tuple(bases.map(|class| {
        // SAFETY: the class is live; the tuple owns a reference to it.
        unsafe {
            ffi::Py_INCREF(class);
            Obj::owned(class)
        }
    }))
}

/// Makes an exception class `module.name` deriving from `base` and keeps it in `cell`.
pub(crate) fn new_exception(
    cell: &ExceptionCell,
    qualified: &'static std::ffi::CStr,
    doc: &'static std::ffi::CStr,
    bases: Option<&Obj>,
) -> Py<Obj> {
    // SAFETY: all strings are terminated; the base classes are live.
    let class = unsafe {
        let bases = bases.map_or(ffi::PyExc_RuntimeError, Obj::as_ptr);
        Obj::owned(ffi::PyErr_NewExceptionWithDoc(
            qualified.as_ptr(),
            doc.as_ptr(),
            bases,
            std::ptr::null_mut(),
        ))?
    };
    cell.set(class.clone());
    Ok(class)
}
