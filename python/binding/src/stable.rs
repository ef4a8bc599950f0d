//! Objects of Python for extensions of PyTorch's stable C ABI.

use crate::py::ffi;
use crate::py::{Args, Obj, Py, method};
use crate::tensor;
use crate::types::{device, dtype};
use corten_c::PythonObjects;
use corten_core::{Result, err};
use corten_ops::Tensor;
use std::ffi::c_void;

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_provide_stable_abi", |_m: &Obj, _a: Args<'_>| {
            corten_c::provide()?;
            Ok(Obj::none())
        }),
        method!("_stable_abi_symbols", |_m: &Obj, _a: Args<'_>| {
            Obj::tuple(corten_c::stable_symbols().iter().map(|name| Obj::str_from(name)))
        }),
    ]
}

/// Tells extensions how objects are converted.
pub(crate) fn init() {
    corten_c::set_python_objects(&OBJECTS);
}

static OBJECTS: PythonObjects = PythonObjects {
    tensor: |object| {
        // SAFETY: the caller of the ABI's function owes a live object and the interpreter's lock.
        let object = unsafe { Obj::borrowed(object.cast()) };
        tensor::expect(&object).cloned().map_err(|raised| raised.into_error())
    },
    from_tensor: |tensor, class| {
        // SAFETY: as above, for a class that is null or live.
        unsafe { from_tensor(tensor, class.cast()) }
    },
    dtype: |object| {
        // SAFETY: as above.
        let object = unsafe { Obj::borrowed(object.cast()) };
        let name = object.type_name();
        dtype::get(&object).ok_or_else(|| err!(Type, "expected torch.dtype but got {name}"))
    },
    from_dtype: |found| Ok(dtype::object(found).into_ptr().cast()),
    device: |object| {
        // SAFETY: as above.
        let object = unsafe { Obj::borrowed(object.cast()) };
        device::from_object(&object).map_err(|raised| raised.into_error())
    },
    from_device: |found| given(device::object(found)),
    is_tensor: |object| {
        // SAFETY: as above.
        tensor::get(&unsafe { Obj::borrowed(object.cast()) }).is_some()
    },
};

fn given(object: Py<Obj>) -> Result<*mut c_void> {
    object.map(|object| object.into_ptr().cast()).map_err(|raised| raised.into_error())
}

/// # Safety
/// The class must be null or live, and the interpreter's lock held.
unsafe fn from_tensor(tensor: &Tensor, class: *mut ffi::PyTypeObject) -> Result<*mut c_void> {
    if class.is_null() {
        return given(tensor::wrap(tensor));
    }
    // SAFETY: the caller's.
    if unsafe { ffi::PyType_IsSubtype(class, tensor::TENSOR.get()) } == 0 {
        return Err(err!(Type, "the class of a tensor must be torch.Tensor or derived from it"));
    }
    let Some(known) = tensor.pyobject() else {
        return given(tensor::wrap_as(class, tensor.clone()));
    };
    // SAFETY: the handle of the caller keeps the object alive.
    let known = unsafe { Obj::borrowed(known.as_ptr().cast()) };
    // SAFETY: the object is live.
    if !std::ptr::eq(unsafe { ffi::Py_TYPE(known.as_ptr()) }, class) {
        let name = known.type_name();
        return Err(err!(Runtime, "the tensor has an object of Python already, of class {name}"));
    }
    Ok(known.into_ptr().cast())
}
