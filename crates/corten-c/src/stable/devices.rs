//! The current GPU, and streams of GPUs. Without a GPU these functions fail, as PyTorch's do.

use super::lists::take_box;
use super::outcome::{Outcome, guard};
use crate::tensor::write_to;
use crate::value::text_of;
use corten::core::err;
use corten::{Error, Result, Tensor};
use gpu::Stream;
use std::ffi::{CString, c_char, c_void};

#[cfg(feature = "cuda")]
mod gpu;
#[cfg(not(feature = "cuda"))]
#[path = "devices/none.rs"]
mod gpu;

/// The GPU that was the current one of the thread.
struct DeviceGuard {
    before: i8,
}

/// The stream that was the current one of the thread.
struct StreamGuard {
    before: Stream,
    device: DeviceGuard,
}

fn index_of(device: i32) -> Result<i8> {
    i8::try_from(device).map_err(|_| err!(Runtime, "{device} is no index of a device"))
}

impl DeviceGuard {
    fn new(device: i32) -> Result<Self> {
        let guard = Self { before: gpu::current_device()? };
        gpu::set_device(index_of(device)?)?;
        Ok(guard)
    }

    fn restore(&self) -> Result<()> {
        gpu::set_device(self.before)
    }
}

macro_rules! device_guards {
    ($($create:ident $delete:ident $set_index:ident)+) => {$(
        /// # Safety
        /// The place must be valid for a write.
        unsafe extern "C" fn $create(device: i32, made: *mut *mut DeviceGuard) -> Outcome {
            guard(|| {
                let guard = Box::into_raw(Box::new(DeviceGuard::new(device)?));
                // SAFETY: the caller's.
                unsafe { write_to(made, guard) }
            })
        }

        /// # Safety
        /// The handle must be the caller's, and is not used afterwards.
        unsafe extern "C" fn $delete(device: *mut DeviceGuard) -> Outcome {
            // SAFETY: the caller's.
            guard(|| unsafe { take_box(device, "a guard of a device") }?.restore())
        }

        extern "C" fn $set_index(_guard: *mut DeviceGuard, device: i32) -> Outcome {
            guard(|| gpu::set_device(index_of(device)?))
        }
    )+};
}

device_guards! {
    aoti_torch_create_device_guard aoti_torch_delete_device_guard aoti_torch_device_guard_set_index
    aoti_torch_create_cuda_guard aoti_torch_delete_cuda_guard aoti_torch_cuda_guard_set_index
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn aoti_torch_get_current_device_index(device: *mut i32) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(device, i32::from(gpu::current_device()?)) })
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn aoti_torch_get_current_stream(device: i32, made: *mut *mut Stream) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        write_to(made, Box::into_raw(Box::new(gpu::current_stream(index_of(device)?)?)))
    })
}

/// # Safety
/// The handle must be the caller's, and is not used afterwards.
unsafe extern "C" fn aoti_torch_delete_stream(stream: *mut Stream) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { take_box(stream, "a stream") }.map(drop))
}

/// # Safety
/// The handle must be null or alive.
unsafe fn stream_at<'a>(stream: *const Stream) -> Result<&'a Stream> {
    // SAFETY: the caller's.
    unsafe { stream.as_ref() }.ok_or_else(|| err!(Runtime, "the handle of a stream is null"))
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_stream_id(stream: *const Stream, id: *mut i64) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(id, gpu::stream_id(stream_at(stream)?)) })
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn torch_stream_native_handle(
    stream: *const Stream,
    handle: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(handle, gpu::raw_stream(stream_at(stream)?) as *mut c_void) })
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn aoti_torch_get_current_cuda_stream(
    device: i32,
    handle: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let stream = gpu::current_stream(index_of(device)?)?;
        write_to(handle, gpu::raw_stream(&stream) as *mut c_void)
    })
}

/// # Safety
/// The stream must be one of the device.
unsafe extern "C" fn torch_set_current_cuda_stream(stream: *mut c_void, device: i32) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        let stream = unsafe { gpu::foreign_stream(index_of(device)?, stream as usize) }?;
        gpu::make_current(&stream)?;
        Ok(())
    })
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn torch_get_cuda_stream_from_pool(
    high_priority: bool,
    device: i32,
    handle: *mut *mut c_void,
) -> Outcome {
    guard(|| {
        let stream = gpu::new_stream(index_of(device)?, high_priority)?;
        // SAFETY: the caller's.
        unsafe { write_to(handle, gpu::raw_stream(&stream) as *mut c_void) }
    })
}

/// # Safety
/// The stream must be one of the device.
unsafe extern "C" fn torch_cuda_stream_synchronize(stream: *mut c_void, device: i32) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        let stream = unsafe { gpu::foreign_stream(index_of(device)?, stream as usize) }?;
        gpu::synchronize(&stream)
    })
}

/// # Safety
/// The stream must be one of the device, the place valid for a write.
unsafe extern "C" fn aoti_torch_create_cuda_stream_guard(
    stream: *mut c_void,
    device: i32,
    made: *mut *mut StreamGuard,
) -> Outcome {
    guard(|| {
        let guard = DeviceGuard::new(device)?;
        // SAFETY: the caller's.
        let stream = unsafe { gpu::foreign_stream(index_of(device)?, stream as usize) }?;
        let before = gpu::make_current(&stream)?;
        let made_guard = Box::new(StreamGuard { before, device: guard });
        // SAFETY: the caller's.
        unsafe { write_to(made, Box::into_raw(made_guard)) }
    })
}

/// # Safety
/// The handle must be the caller's, and is not used afterwards.
unsafe extern "C" fn aoti_torch_delete_cuda_stream_guard(made: *mut StreamGuard) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        let made = unsafe { take_box(made, "a guard of a stream") }?;
        gpu::make_current(&made.before)?;
        made.device.restore()
    })
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn torch_get_current_cuda_blas_handle(handle: *mut *mut c_void) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(handle, gpu::blas_handle()? as *mut c_void) })
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn aoti_torch_cuda_caching_allocator_raw_alloc(
    nbytes: u64,
    memory: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(memory, gpu::allocate(nbytes)?.cast()) })
}

/// # Safety
/// The memory must be null or come from `aoti_torch_cuda_caching_allocator_raw_alloc`.
unsafe extern "C" fn aoti_torch_cuda_caching_allocator_raw_delete(memory: *mut c_void) -> Outcome {
    guard(|| gpu::free(memory.cast()))
}

/// Says what a code of the CUDA runtime means: a text that `torch_c10_cuda_free_error_msg` frees, null for success.
///
/// # Safety
/// The texts must end with zero bytes, the place must be valid for a write.
unsafe extern "C" fn torch_c10_cuda_check_msg(
    code: i32,
    file: *const c_char,
    function: *const c_char,
    line: u32,
    _with_assertions: bool,
    message: *mut *mut c_char,
) -> Outcome {
    guard(|| {
        let text = match code {
            0 => std::ptr::null_mut(),
            code => {
                // SAFETY: the caller's.
                let (file, function) = unsafe {
                    let text = |text| text_of("a name", text).unwrap_or("?");
                    (text(file), text(function))
                };
                let text = format!(
                    "CUDA error: the CUDA runtime reported code {code} in {function} ({file}:{line})"
                );
                CString::new(text).unwrap_or_default().into_raw()
            }
        };
        // SAFETY: the caller's.
        unsafe { write_to(message, text) }
    })
}

/// # Safety
/// The text must be null or come from `torch_c10_cuda_check_msg`, and is not used afterwards.
unsafe extern "C" fn torch_c10_cuda_free_error_msg(message: *mut c_char) {
    if !message.is_null() {
        // SAFETY: the caller's.
        drop(unsafe { CString::from_raw(message) });
    }
}

/// Whether a tensor lies in page-locked memory.
pub(super) fn is_pinned(tensor: &Tensor) -> bool {
    gpu::is_pinned(tensor)
}

fn no_gpu() -> Error {
    err!(NoDevice, "Cannot access accelerator device when none is available.")
}

super::functions! {
    aoti_torch_create_device_guard
    aoti_torch_delete_device_guard
    aoti_torch_device_guard_set_index
    aoti_torch_create_cuda_guard
    aoti_torch_delete_cuda_guard
    aoti_torch_cuda_guard_set_index
    aoti_torch_get_current_device_index
    aoti_torch_get_current_stream
    aoti_torch_delete_stream
    aoti_torch_stream_id
    torch_stream_native_handle
    aoti_torch_get_current_cuda_stream
    torch_set_current_cuda_stream
    torch_get_cuda_stream_from_pool
    torch_cuda_stream_synchronize
    aoti_torch_create_cuda_stream_guard
    aoti_torch_delete_cuda_stream_guard
    torch_get_current_cuda_blas_handle
    aoti_torch_cuda_caching_allocator_raw_alloc
    aoti_torch_cuda_caching_allocator_raw_delete
    torch_c10_cuda_check_msg
    torch_c10_cuda_free_error_msg
}
