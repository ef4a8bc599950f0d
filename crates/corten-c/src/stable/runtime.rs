//! Threads, checks, warnings and prints.

use super::handle::{TensorHandle, tensor_at};
use super::outcome::{Outcome, fail, guard};
use super::protect::{RangeFunction, call_range};
use crate::tensor::write_to;
use crate::value::text_of;
use corten::core::{bail, warn};
use corten::ops::parallel;
use corten::{Device, op};
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// The context of a range, which all threads share.
struct Shared(*mut c_void);

// SAFETY: an extension that calls `torch_parallel_for` lets several threads use its context at once.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Numbers of threads that run parts of ranges now. A part takes the lowest that is free, so that it is below the
/// number of threads.
static RUNNING: Mutex<Vec<bool>> = Mutex::new(Vec::new());

thread_local! {
    static INDEX: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The number of a thread while it runs parts of a range.
struct ThreadIndex(Option<u32>);

impl ThreadIndex {
    fn take() -> Self {
        if INDEX.get().is_some() {
            return Self(None);
        }
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = running.iter().position(|taken| !taken).unwrap_or(running.len());
        match running.get_mut(free) {
            Some(taken) => *taken = true,
            None => running.push(true),
        }
        let index = free as u32;
        INDEX.set(Some(index));
        Self(Some(index))
    }
}

impl Drop for ThreadIndex {
    fn drop(&mut self) {
        let Some(index) = self.0 else { return };
        INDEX.set(None);
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = running.get_mut(index as usize) {
            *taken = false;
        }
    }
}

/// Calls a function with parts of a range on the threads of the library. The first thing that is thrown ends the
/// call.
///
/// # Safety
/// Several threads may call the function with the context at once.
unsafe extern "C" fn torch_parallel_for(
    begin: i64,
    end: i64,
    grain: i64,
    function: Option<RangeFunction>,
    context: *mut c_void,
) -> Outcome {
    guard(|| {
        let Some(function) = function else { bail!(Runtime, "the function of a range is null") };
        if end.checked_sub(begin).is_none() {
            bail!(Runtime, "the range from {begin} to {end} is too long");
        }
        let shared = Shared(context);
        parallel::parallel_for(begin..end, grain.max(1), |part| {
            let _index = ThreadIndex::take();
            // SAFETY: the caller's.
            unsafe { call_range(function, part, shared.get()) }
        })
    })
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn torch_get_thread_idx(index: *mut u32) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(index, INDEX.get().unwrap_or(0)) })
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn torch_get_num_threads(count: *mut u32) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(count, parallel::num_threads() as u32) })
}

/// # Safety
/// The text must end with a zero byte, the places must be valid for writes.
unsafe extern "C" fn torch_parse_device_string(
    text: *const c_char,
    device_type: *mut u32,
    device_index: *mut i32,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let device: Device = text_of("a device", text)?.parse()?;
        write_to(device_type, device.device_type as u32)?;
        write_to(device_index, i32::from(device.index))
    })
}

/// Throws `std::runtime_error` unless a condition holds, as PyTorch's throws.
///
/// # Safety
/// The texts must end with zero bytes; the caller is C++.
unsafe extern "C-unwind" fn aoti_torch_check(
    holds: bool,
    function: *const c_char,
    file: *const c_char,
    line: u32,
    message: *const c_char,
) {
    if holds {
        return;
    }
    // SAFETY: the caller's.
    unsafe {
        note_failure(function, file, line, message);
        throw_last();
    }
}

/// # Safety
/// The texts must end with zero bytes.
unsafe fn note_failure(
    function: *const c_char,
    file: *const c_char,
    line: u32,
    message: *const c_char,
) {
    // SAFETY: the caller's.
    let text = |text| unsafe { text_of("a text", text) }.unwrap_or("?");
    fail(&format!("{} ({} at {}:{line})", text(message), text(function), text(file)));
}

/// Throws the message of the last failure as `std::runtime_error`. Nothing of Rust is alive in the frames that the
/// exception leaves.
///
/// # Safety
/// The caller is C++.
unsafe fn throw_last() {
    type Throw = unsafe extern "C-unwind" fn(*const c_char);
    let message = super::outcome::last_message();
    let name = c"_ZSt21__throw_runtime_errorPKc".as_ptr();
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
    // SAFETY: the names end with zero bytes.
    let throw = unsafe {
        let library = libc::dlopen(c"libstdc++.so.6".as_ptr(), flags);
        if library.is_null() { library } else { libc::dlsym(library, name) }
    };
    if throw.is_null() {
        // A caller that throws nothing itself cannot be told.
        return;
    }
    // SAFETY: the C++ library's function of this name has this type.
    unsafe { std::mem::transmute::<*mut c_void, Throw>(throw)(message) };
}

/// # Safety
/// The texts must end with zero bytes.
unsafe extern "C" fn aoti_torch_warn(
    _function: *const c_char,
    file: *const c_char,
    line: u32,
    message: *const c_char,
) {
    guard(|| {
        // SAFETY: the caller's.
        let (file, message) = unsafe { (text_of("a file", file)?, text_of("a message", message)?) };
        warn(format!("{message} (Triggered internally at {file}:{line}.)"));
        Ok(())
    });
}

/// Prints a tensor, for those who look for errors.
///
/// # Safety
/// The handle must be alive, the text end with a zero byte.
unsafe extern "C" fn aoti_torch_print_tensor_handle(tensor: TensorHandle, message: *const c_char) {
    guard(|| {
        // SAFETY: the caller's.
        let (tensor, message) = unsafe { (tensor_at(tensor)?, text_of("a message", message)?) };
        let shape = tensor.sizes();
        let text = format!(
            "[  {message}  ]:\n{tensor}\nNumber of elements: {}\nDtype: {}\nSize: {shape:?}\nDevice: {}\n",
            tensor.numel(),
            tensor.dtype().name(),
            tensor.device()
        );
        // Where nobody reads, nobody misses it.
        let _ = std::io::stdout().write_all(text.as_bytes());
        Ok(())
    });
}

/// Fails for a tensor with an infinity or a NaN.
///
/// # Safety
/// The handle must be alive, the text end with a zero byte.
unsafe extern "C" fn aoti_torch_check_inf_and_nan(
    name: *const c_char,
    tensor: TensorHandle,
) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        let (name, tensor) = unsafe { (text_of("a name", name)?, tensor_at(tensor)?) };
        let all_finite = op::item(&op::all(&op::isfinite(tensor)?)?)?;
        if all_finite.to_f64() == 0.0 {
            bail!(Runtime, "At least one INF or NaN in {name}");
        }
        Ok(())
    })
}

super::functions! {
    torch_parallel_for
    torch_get_thread_idx
    torch_get_num_threads
    torch_parse_device_string
    aoti_torch_check
    aoti_torch_warn
    aoti_torch_print_tensor_handle
    aoti_torch_check_inf_and_nan
}
