//! A handle of cuBLAS for programs that call it themselves.

use crate::device::{MOST_DEVICES, bound};
use crate::driver::cublas_table::cublas;
use crate::driver::cublaslt_table::check;
use crate::driver::{Handle, RelaxedCapture, driver};
use crate::stream::Stream;
use corten_core::Result;
use std::cell::Cell;

thread_local! {
    /// cuBLAS's handle of each device: one per thread, since its stream is a part of it.
    static HANDLES: [Cell<Option<Handle>>; MOST_DEVICES] =
        const { [const { Cell::new(None) }; MOST_DEVICES] };
}

/// This thread's `cublasHandle_t` of the current device, with the current stream. It is never destroyed.
///
/// # Errors
/// `Runtime` where cuBLAS is not installed, and its own errors.
pub fn current_blas_handle() -> Result<usize> {
    let stream = Stream::current(-1);
    bound(stream.device())?;
    let library = cublas()?;
    let place = stream.device() as usize;
    let mut handle = HANDLES.with(|handles| handles[place].get()).unwrap_or(Handle::NULL);
    if handle == Handle::NULL {
        let _relaxed = RelaxedCapture::new(driver()?);
        // SAFETY: one handle is written; the context is current.
        check(unsafe { (library.cublasCreate_v2)(&mut handle) }, "cublasCreate(handle)")?;
        HANDLES.with(|handles| handles[place].set(Some(handle)));
    }
    // SAFETY: the handle exists, and the stream is one of its device.
    let status = unsafe { (library.cublasSetStream_v2)(handle, stream.handle()) };
    check(status, "cublasSetStream(handle, stream)")?;
    Ok(handle.0.addr())
}
