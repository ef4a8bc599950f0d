//! Status codes of the driver as errors in PyTorch's words.

use super::Driver;
use corten_core::{Error, Result, err};
use std::ffi::{CStr, c_char};

/// CUDA_ERROR_OUT_OF_MEMORY.
pub(crate) const OUT_OF_MEMORY: i32 = 2;
/// CUDA_ERROR_NO_DEVICE.
pub(crate) const NO_DEVICE: i32 = 100;
/// CUDA_ERROR_NOT_READY.
pub(crate) const NOT_READY: i32 = 600;

/// What the driver calls a status, or its number.
pub(crate) fn describe(driver: &Driver, status: i32) -> String {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the driver writes the address of a static text, or null for an unknown status.
    let found = unsafe { (driver.cuGetErrorString)(status, &mut text) };
    if found != 0 || text.is_null() {
        return format!("unknown error {status}");
    }
    // SAFETY: the text is static and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// `Ok` for success, and PyTorch's error otherwise.
///
/// # Errors
/// `Runtime` that begins with `CUDA error:`; `OutOfMemory` where memory is missing.
pub(crate) fn check(driver: &Driver, status: i32) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(failure(driver, status)),
    }
}

#[cold]
fn failure(driver: &Driver, status: i32) -> Error {
    let what = describe(driver, status);
    match status {
        OUT_OF_MEMORY => err!(OutOfMemory, "CUDA error: {what}"),
        _ => err!(
            Runtime,
            "CUDA error: {what}\nCUDA kernel errors might be asynchronously reported at some other API call, \
             so the stacktrace below might be incorrect.\nFor debugging consider passing \
             CUDA_LAUNCH_BLOCKING=1\n"
        ),
    }
}

/// Whether a query has found the work done; `false` while it is under way.
///
/// # Errors
/// As [`check`] for any other status.
pub(crate) fn is_ready(driver: &Driver, status: i32) -> Result<bool> {
    match status {
        NOT_READY => Ok(false),
        _ => check(driver, status).map(|()| true),
    }
}
