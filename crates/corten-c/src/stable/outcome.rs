//! What functions of the stable ABI return, and the message of the last failure.

use crate::status::{panic_message, without_nul};
use corten::{Error, Result};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a call: `SUCCESS` or `FAILURE`.
pub(super) type Outcome = i32;

pub(super) const SUCCESS: Outcome = 0;
pub(super) const FAILURE: Outcome = 1;

thread_local! {
    static WHAT: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function: errors and panics become `FAILURE` and a message of the thread.
pub(super) fn guard(body: impl FnOnce() -> Result<()>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(error)) => fail(error.message()),
        Err(payload) => fail(&format!("a panic inside Corten: {}", panic_message(&*payload))),
    }
}

/// As [`guard`], for functions that return something else.
pub(super) fn guard_value<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    let mut found = otherwise;
    guard(|| {
        found = body()?;
        Ok(())
    });
    found
}

pub(super) fn fail(message: &str) -> Outcome {
    let message = without_nul(message);
    let _old = WHAT.try_with(|place| place.replace(message));
    FAILURE
}

/// The message of the last failure of this thread, which stays where it is until the next one.
pub(super) fn last_message() -> *const c_char {
    WHAT.try_with(|place| place.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// An error for what no build of Corten has.
pub(super) fn absent(what: &str) -> Error {
    corten::core::err!(NotImplemented, "{what}")
}

/// The message of the last failure of this thread, valid until its next one.
extern "C" fn torch_exception_get_what() -> *const c_char {
    last_message()
}

/// The same: Corten's messages have no backtrace.
extern "C" fn torch_exception_get_what_without_backtrace() -> *const c_char {
    last_message()
}

super::functions! {
    torch_exception_get_what
    torch_exception_get_what_without_backtrace
}
