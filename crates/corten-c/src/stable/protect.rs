//! Calls of functions that may throw.
//!
//! Note [Exceptions of kernels]: kernels of the stable ABI report errors by throwing C++ exceptions through whoever
//! called them, here Rust. Rust may let a foreign exception pass but not catch it: `catch_unwind` ends the process. A
//! shim in C++ would make the package need a C++ compiler and the C++ library. So a few instructions call the function,
//! with a personality routine of ours in their unwind information that stops every exception there, as `catch (...)`
//! does; no frame of Rust is unwound. What was thrown is then asked for its message through the C++ library, which is
//! in the process if anything threw. On other processors than x86-64 an exception ends the process.

use super::lists::Word;
use corten::Result;
use std::ffi::c_void;

/// A kernel: takes its arguments out of the words and puts its results there.
pub(super) type Kernel =
    unsafe extern "C-unwind" fn(words: *mut Word, arguments: u64, results: u64);

/// A part of a range.
pub(super) type RangeFunction =
    unsafe extern "C-unwind" fn(begin: i64, end: i64, context: *mut c_void);

/// Calls a kernel. The error is what it threw.
///
/// # Safety
/// The kernel must be one for these words.
pub(super) unsafe fn call_kernel(
    kernel: Kernel,
    words: &mut [Word],
    arguments: usize,
    results: usize,
) -> Result<()> {
    let words = words.as_mut_ptr();
    // SAFETY: the caller's.
    unsafe { call(kernel as *const c_void, words as u64, arguments as u64, results as u64) }
}

/// Calls a function with a part of a range.
///
/// # Safety
/// The function must be one for this range and context.
pub(super) unsafe fn call_range(
    function: RangeFunction,
    range: std::ops::Range<i64>,
    context: *mut c_void,
) -> Result<()> {
    let (begin, end) = (range.start.cast_unsigned(), range.end.cast_unsigned());
    // SAFETY: the caller's.
    unsafe { call(function as *const c_void, begin, end, context as u64) }
}

/// Calls a deleter.
///
/// # Safety
/// The deleter must be one for this memory and context.
pub(super) unsafe fn delete(
    deleter: unsafe extern "C" fn(*mut c_void, *mut c_void),
    data: *mut c_void,
    context: *mut c_void,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { call(deleter as *const c_void, data as u64, context as u64, 0) }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
mod catching;
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
use catching::call;

/// # Safety
/// The function must be one for these arguments.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
unsafe fn call(function: *const c_void, a: u64, b: u64, c: u64) -> Result<()> {
    type Function = unsafe extern "C" fn(u64, u64, u64);
    // SAFETY: the caller's: all such functions take up to three words and return nothing.
    unsafe { std::mem::transmute::<*const c_void, Function>(function)(a, b, c) };
    Ok(())
}
