//! Memory of storages that objects of Python look at: what arrays and views keep alive.

use crate::args::parser;
use crate::py::class::{Class, TypeBuilder, instance, this};
use crate::py::errors::runtime_error;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method};
use corten_core::LentMemory;
use std::ffi::{CStr, c_int, c_void};

static TYPE: TypeCell = TypeCell::new();

/// A share in a block of memory, with the buffer protocol.
struct PyLent {
    memory: LentMemory,
    writable: bool,
}

impl Class for PyLent {
    const NAME: &'static CStr = c"corten._C._LentMemory";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"Memory of a storage that stays whatever becomes of the storage.")
            .slot(ffi::Py_bf_getbuffer, get_buffer as *mut c_void)
    }
}

unsafe extern "C" fn get_buffer(
    object: *mut ffi::PyObject,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> c_int {
    // SAFETY: CPython passes an instance of the type and a view to fill, which keeps the instance, and
    // thereby the memory, alive.
    unsafe {
        let lent: &PyLent = this(Obj::peek(&object));
        let mut start: *mut c_void = lent.memory.start().cast();
        if start.is_null() {
            start = std::ptr::dangling_mut::<u128>().cast();
        }
        let length = lent.memory.nbytes() as ffi::Py_ssize_t;
        ffi::PyBuffer_FillInfo(view, object, start, length, c_int::from(!lent.writable), flags)
    }
}

/// Makes the type.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_LentMemory", &crate::py::class::make::<PyLent>()?)
}

/// The object that keeps memory alive.
pub(crate) fn wrap(memory: LentMemory, writable: bool) -> Py<Obj> {
    instance(PyLent { memory, writable })
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("_lend_storage", |_m: &Obj, args: Args<'_>| {
        let bound = parser!("_lend_storage(any storage)").parse(None, args)?;
        let storage = crate::storage::from_object(bound.object(0)?)?;
        if !storage.device().is_cpu() {
            return Err(runtime_error("the bytes of this storage are not in host memory"));
        }
        wrap(storage.lend()?, storage.is_writable())
    })]
}
