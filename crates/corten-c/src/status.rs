//! Errors as codes with a message per thread.

use corten::{Error, ErrorKind, Result};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a call: `CORTEN_OK`, or the kind of an error.
pub type CortenStatus = i32;

/// The call did what it should.
pub const CORTEN_OK: CortenStatus = 0;
/// An error of no other kind: Python's RuntimeError.
pub const CORTEN_RUNTIME_ERROR: CortenStatus = 1;
/// An index or a dimension out of range: IndexError.
pub const CORTEN_INDEX_ERROR: CortenStatus = 2;
/// An argument of the right type with a wrong value: ValueError.
pub const CORTEN_VALUE_ERROR: CortenStatus = 3;
/// An argument of a wrong type: TypeError.
pub const CORTEN_TYPE_ERROR: CortenStatus = 4;
/// No kernel serves the arguments: NotImplementedError.
pub const CORTEN_NOT_IMPLEMENTED: CortenStatus = 5;
/// Memory could not be allocated.
pub const CORTEN_OUT_OF_MEMORY: CortenStatus = 6;
/// A device reported an error.
pub const CORTEN_ACCELERATOR_ERROR: CortenStatus = 7;
/// Memory cannot be exchanged with another library: BufferError.
pub const CORTEN_BUFFER_ERROR: CortenStatus = 8;
/// A matrix is singular, or an iteration did not converge.
pub const CORTEN_LINALG_ERROR: CortenStatus = 9;
/// A device is absent.
pub const CORTEN_NO_DEVICE: CortenStatus = 10;
/// A contradiction inside the library: a defect of it.
pub const CORTEN_INTERNAL_ERROR: CortenStatus = 11;
/// An error of another language that travels through the library, such as a Python exception.
pub const CORTEN_EXTERNAL_ERROR: CortenStatus = 12;

const KINDS: [(CortenStatus, ErrorKind); 13] = [
    (CORTEN_RUNTIME_ERROR, ErrorKind::Runtime),
    (CORTEN_INDEX_ERROR, ErrorKind::Index),
    (CORTEN_VALUE_ERROR, ErrorKind::Value),
    (CORTEN_TYPE_ERROR, ErrorKind::Type),
    (CORTEN_NOT_IMPLEMENTED, ErrorKind::NotImplemented),
    (CORTEN_OUT_OF_MEMORY, ErrorKind::OutOfMemory),
    (CORTEN_ACCELERATOR_ERROR, ErrorKind::Accelerator),
    (CORTEN_BUFFER_ERROR, ErrorKind::Buffer),
    (CORTEN_LINALG_ERROR, ErrorKind::LinAlg),
    (CORTEN_NO_DEVICE, ErrorKind::NoDevice),
    (CORTEN_INTERNAL_ERROR, ErrorKind::Internal),
    (CORTEN_EXTERNAL_ERROR, ErrorKind::External),
    (CORTEN_RUNTIME_ERROR, ErrorKind::Assertion),
];

/// The last error of a thread. The error itself is kept so that one that passes through a callback arrives as it
/// was raised, with what another language put into it.
#[derive(Default)]
struct Last {
    message: CString,
    status: CortenStatus,
    error: Option<Error>,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Runs the body of a function of the ABI: errors and panics become a status.
pub(crate) fn guard(body: impl FnOnce() -> Result<()>) -> CortenStatus {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => CORTEN_OK,
        Ok(Err(error)) => record(error),
        Err(payload) => {
            let message = format!("a panic inside Corten: {}", panic_message(&*payload));
            record(Error::new(ErrorKind::Internal, message))
        }
    }
}

/// As [`guard`], for functions that return something else than a status.
pub(crate) fn guard_value<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    let mut found = otherwise;
    guard(|| {
        found = body()?;
        Ok(())
    });
    found
}

pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        _ => "of unknown cause",
    }
}

fn record(error: Error) -> CortenStatus {
    let known = KINDS.iter().find(|(_, kind)| *kind == error.kind());
    let status = known.map_or(CORTEN_INTERNAL_ERROR, |(status, _)| *status);
    let message = without_nul(error.message());
    let last = Last { message, status, error: Some(error) };
    // What was there is dropped after the borrow: dropping an error may run foreign code.
    let _old = LAST.try_with(|place| place.replace(last));
    status
}

/// Text as C reads it. Nothing in messages is worth an error about the error.
pub(crate) fn without_nul(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// What a callback of C returned, as a result: the error that it met in this library where that is what it
/// returned, else what it said through `corten_set_error`.
pub(crate) fn check_callback(what: &str, status: CortenStatus) -> Result<()> {
    if status == CORTEN_OK {
        return Ok(());
    }
    let last = LAST.try_with(|place| {
        let fits = place.borrow().status == status;
        if fits { Some(place.take()) } else { None }
    });
    match last.ok().flatten() {
        Some(Last { error: Some(error), .. }) => Err(error),
        Some(Last { message, .. }) => {
            Err(Error::new(kind_of(status), message.to_string_lossy().into_owned()))
        }
        None => Err(Error::new(kind_of(status), format!("{what} failed with status {status}"))),
    }
}

fn kind_of(status: CortenStatus) -> ErrorKind {
    let known = KINDS.iter().find(|(number, _)| *number == status);
    // An error of another language is one only with what that language put into it.
    known.map_or(ErrorKind::Runtime, |(_, kind)| *kind)
}

/// The message of the last error of this thread; empty if there was none. It stays valid until the next call of
/// this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn corten_last_error() -> *const c_char {
    LAST.try_with(|place| place.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The status of the last error of this thread; `CORTEN_OK` if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn corten_last_status() -> CortenStatus {
    LAST.try_with(|place| place.borrow().status).unwrap_or(CORTEN_OK)
}

/// Says why a callback fails, which then returns `status`. Returns `status`.
///
/// # Safety
/// `message` must be null or point to text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_set_error(
    status: CortenStatus,
    message: *const c_char,
) -> CortenStatus {
    let message = match message.is_null() {
        true => CString::default(),
        // SAFETY: the caller vouches for the text.
        false => unsafe { CStr::from_ptr(message) }.to_owned(),
    };
    let _old = LAST.try_with(|place| place.replace(Last { message, status, error: None }));
    status
}
