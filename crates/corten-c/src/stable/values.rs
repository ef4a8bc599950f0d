//! Values that describe what a range of the profiler was given.

use super::create::count;
use super::handle::{TensorHandle, tensor_at};
use super::lists::take_box;
use super::outcome::{Outcome, guard};
use crate::tensor::write_to;
use crate::value::{slice_of, text_of};
use corten::Result;
use corten::ops::IValue;
use corten::ops::profiler::{EventKind, Range, range};
use std::ffi::{c_char, c_void};

fn give(value: IValue) -> *mut IValue {
    Box::into_raw(Box::new(value))
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn aoti_torch_int64_to_ivalue(number: i64, made: *mut *mut IValue) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(made, give(number.into())) })
}

/// # Safety
/// The text must end with a zero byte, the place be valid for a write.
unsafe extern "C" fn aoti_torch_str_to_ivalue(
    text: *const c_char,
    made: *mut *mut IValue,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(made, give(text_of("a text", text)?.into())) })
}

/// # Safety
/// The list must be valid for `length` texts that end with zero bytes, the place for a write.
unsafe extern "C" fn aoti_torch_strlist_to_ivalue(
    texts: *const *const c_char,
    length: i64,
    made: *mut *mut IValue,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let texts = slice_of(texts, count(length)?)?;
        let values = texts.iter().map(|text| Ok(text_of("a text", *text)?.into()));
        write_to(made, give(IValue::Tuple(values.collect::<Result<_>>()?)))
    })
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_tensor_to_ivalue(
    tensor: TensorHandle,
    made: *mut *mut IValue,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(made, give(tensor_at(tensor)?.into())) })
}

/// # Safety
/// The handle must be the caller's, and is not used afterwards.
unsafe extern "C" fn aoti_torch_delete_c10_value_object(value: *mut IValue) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { take_box(value, "a value") }.map(drop))
}

/// Opens a range of the profiler, of which the name is kept.
///
/// # Safety
/// The text must end with a zero byte, the place be valid for a write.
unsafe extern "C" fn aoti_record_function_start(
    name: *const c_char,
    _keywords: *mut c_void,
    _inputs: *const *mut IValue,
    _n_inputs: u64,
    made: *mut *mut Range,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let name = text_of("a name", name)?;
        let opened = range(EventKind::Range, || name.to_owned());
        write_to(made, Box::into_raw(Box::new(opened)))
    })
}

/// # Safety
/// The handle must be the caller's, of this thread, and is not used afterwards.
unsafe extern "C" fn aoti_record_function_end(opened: *mut Range) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { take_box(opened, "a range") }.map(drop))
}

super::functions! {
    aoti_torch_int64_to_ivalue
    aoti_torch_str_to_ivalue
    aoti_torch_strlist_to_ivalue
    aoti_torch_tensor_to_ivalue
    aoti_torch_delete_c10_value_object
    aoti_record_function_start
    aoti_record_function_end
}
