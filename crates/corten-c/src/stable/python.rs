//! Generators, and objects of Python: the extension module says how they become tensors, dtypes and devices.

use super::handle::{TensorHandle, give, tensor_at};
use super::lists::take_box;
use super::outcome::{Outcome, guard};
use crate::tensor::{CortenDevice, check_place, device_from, dtype_from, write_to};
use corten::core::err;
use corten::{DType, Device, Generator, Result, Tensor};
use std::ffi::c_void;
use std::sync::OnceLock;

/// How objects of Python are converted, for extensions that take and return them. Objects are pointers to `PyObject`,
/// lent where they are arguments and new references where they are results; the interpreter's lock is held.
///
/// ```
/// use corten::core::err;
/// use corten_c::{PythonObjects, set_python_objects};
///
/// // Of an interpreter whose objects are never tensors.
/// static NONE: PythonObjects = PythonObjects {
///     tensor: |_| Err(err!(Type, "no tensor")),
///     from_tensor: |_, _| Err(err!(Type, "no object")),
///     dtype: |_| Err(err!(Type, "no dtype")),
///     from_dtype: |_| Err(err!(Type, "no object")),
///     device: |_| Err(err!(Type, "no device")),
///     from_device: |_| Err(err!(Type, "no object")),
///     is_tensor: |_| false,
/// };
/// set_python_objects(&NONE);
/// ```
pub struct PythonObjects {
    /// The tensor of an object.
    pub tensor: unsafe fn(object: *mut c_void) -> Result<Tensor>,
    /// An object of a tensor, of the class unless that is null.
    pub from_tensor: unsafe fn(tensor: &Tensor, class: *mut c_void) -> Result<*mut c_void>,
    /// The dtype of an object.
    pub dtype: unsafe fn(object: *mut c_void) -> Result<DType>,
    /// An object of a dtype.
    pub from_dtype: unsafe fn(dtype: DType) -> Result<*mut c_void>,
    /// The device of an object.
    pub device: unsafe fn(object: *mut c_void) -> Result<Device>,
    /// An object of a device.
    pub from_device: unsafe fn(device: Device) -> Result<*mut c_void>,
    /// Whether an object is a tensor.
    pub is_tensor: unsafe fn(object: *mut c_void) -> bool,
}

static OBJECTS: OnceLock<&'static PythonObjects> = OnceLock::new();

/// Says how objects of Python are converted. The first one stays.
pub fn set_python_objects(objects: &'static PythonObjects) {
    let _ = OBJECTS.set(objects);
}

fn objects() -> Result<&'static PythonObjects> {
    OBJECTS.get().copied().ok_or_else(|| err!(Runtime, "the Python package is not loaded"))
}

/// # Safety
/// The object must be alive, the place valid for a write, the interpreter's lock held.
unsafe extern "C" fn torch_tensor_from_pyobject(
    object: *mut c_void,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(made, give((objects()?.tensor)(object)?)) })
}

/// # Safety
/// The handle must be alive, the class null or a class, the place valid for a write, the interpreter's lock held.
unsafe extern "C" fn torch_tensor_to_pyobject(
    tensor: TensorHandle,
    class: *mut c_void,
    object: *mut *mut c_void,
) -> Outcome {
    guard(|| {
        check_place(object)?;
        // SAFETY: the caller's.
        unsafe { write_to(object, (objects()?.from_tensor)(tensor_at(tensor)?, class)?) }
    })
}

/// # Safety
/// The object must be alive, the place valid for a write, the interpreter's lock held.
unsafe extern "C" fn torch_is_tensor_pyobject(object: *mut c_void, found: *mut bool) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(found, (objects()?.is_tensor)(object)) })
}

/// # Safety
/// The object must be alive, the place valid for a write, the interpreter's lock held.
unsafe extern "C" fn torch_dtype_from_pyobject(object: *mut c_void, dtype: *mut i32) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(dtype, (objects()?.dtype)(object)? as i32) })
}

/// # Safety
/// The place must be valid for a write, the interpreter's lock held.
unsafe extern "C" fn torch_dtype_to_pyobject(dtype: i32, object: *mut *mut c_void) -> Outcome {
    guard(|| {
        check_place(object)?;
        // SAFETY: the caller's.
        unsafe { write_to(object, (objects()?.from_dtype)(dtype_from(dtype)?)?) }
    })
}

/// # Safety
/// The object must be alive, the places valid for writes, the interpreter's lock held.
unsafe extern "C" fn torch_device_from_pyobject(
    object: *mut c_void,
    device_type: *mut i32,
    device_index: *mut i32,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let device = (objects()?.device)(object)?;
        write_to(device_type, device.device_type as i32)?;
        write_to(device_index, device.index.into())
    })
}

/// # Safety
/// The place must be valid for a write, the interpreter's lock held.
unsafe extern "C" fn torch_device_to_pyobject(
    device_type: i32,
    device_index: i32,
    object: *mut *mut c_void,
) -> Outcome {
    guard(|| {
        check_place(object)?;
        let device = device_from(CortenDevice { r#type: device_type, index: device_index })?;
        // SAFETY: the caller's.
        unsafe { write_to(object, (objects()?.from_device)(device)?) }
    })
}

/// # Safety
/// The handle must be null or alive.
unsafe fn generator_at<'a>(generator: *const Generator) -> Result<&'a Generator> {
    // SAFETY: the caller's.
    unsafe { generator.as_ref() }.ok_or_else(|| err!(Runtime, "the handle of a generator is null"))
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn torch_new_generator_handle(
    generator: *const Generator,
    made: *mut *mut Generator,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(made, Box::into_raw(Box::new(generator_at(generator)?.clone()))) })
}

/// # Safety
/// The handle must be the caller's, and is not used afterwards.
unsafe extern "C" fn torch_delete_generator(generator: *mut Generator) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { take_box(generator, "a generator") }.map(drop))
}

/// # Safety
/// The handle must be alive, the places valid for writes.
unsafe extern "C" fn torch_generator_get_device(
    generator: *const Generator,
    device_type: *mut i32,
    device_index: *mut i32,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let device = generator_at(generator)?.device();
        write_to(device_type, device.device_type as i32)?;
        write_to(device_index, device.index.into())
    })
}

super::functions! {
    torch_tensor_from_pyobject
    torch_tensor_to_pyobject
    torch_is_tensor_pyobject
    torch_dtype_from_pyobject
    torch_dtype_to_pyobject
    torch_device_from_pyobject
    torch_device_to_pyobject
    torch_new_generator_handle
    torch_delete_generator
    torch_generator_get_device
}
