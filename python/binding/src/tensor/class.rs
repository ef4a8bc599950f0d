//! Puts the class together.

use super::object::{self, TENSOR, TensorObject, clear, dealloc, traverse};
use super::{attrs, convert, fake, index, item, legacy, methods, number, subclass};
use crate::functions;
use crate::py::class::TypeBuilder;
use crate::py::{Obj, Py, ffi, method, slot};
use std::collections::HashSet;
use std::ffi::{CStr, c_void};
use std::mem::{offset_of, size_of};

/// Makes the class and its metaclass, and the functions that belong to it.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    object::install_hooks();
    let metaclass = make_metaclass()?;
    let mut rows = methods::rows();
    rows.extend(convert::rows());
    rows.extend(subclass::rows());
    rows.extend(fake::rows());
    rows.extend(crate::creation::method_rows());
    rows.push(method!("new", legacy::new_like));
    let attributes = attrs::rows();
    let names = rows.iter().map(|row| row.ml_name).chain(attributes.iter().map(|row| row.name));
    // SAFETY: every row has a terminated name.
    let taken: HashSet<&CStr> = names.map(|name| unsafe { CStr::from_ptr(name) }).collect();
    let generated = functions::method_rows(&taken);
    let mut builder = TypeBuilder::new(c"corten.Tensor", size_of::<TensorObject>())
        .flags(ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC)
        .doc(c"A multi-dimensional array of elements of one dtype.")
        .slot(ffi::Py_tp_new, slot!(call legacy::new))
        .slot(ffi::Py_tp_init, slot!(init init))
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_traverse, traverse as *mut c_void)
        .slot(ffi::Py_tp_clear, clear as *mut c_void)
        .offset(c"__dictoffset__", offset_of!(TensorObject, dict))
        .offset(c"__weaklistoffset__", offset_of!(TensorObject, weak))
        .methods(rows)
        .methods(generated)
        .getset(attributes);
    for (id, function) in number::slots().into_iter().chain(item::slots()).chain(index::slots()) {
        builder = builder.slot(id, function);
    }
    let ty = builder.build()?;
    // CPython's own messages print the name that was set last, here without the module.
    ty.set_attr(crate::py::name!("__name__"), &Obj::str_from("Tensor")?)?;
    // SAFETY: the metaclass adds no fields to those of `type`, so the memory fits; the type keeps
    // its own reference to it, and the old one, `type`, is static.
    unsafe {
        ffi::Py_INCREF(metaclass.as_ptr());
        (*ty.as_ptr()).ob_type = metaclass.as_ptr().cast();
    }
    TENSOR.set(&ty);
    let disabled = module.attr(crate::py::name!("_disabled_torch_function_impl"))?;
    object::set_disabled_function(&disabled);
    for name in [c"TensorBase", c"_TensorBase", c"Tensor"] {
        module.set_attr_str(name, &ty)?;
    }
    module.set_attr_str(c"_TensorMeta", &metaclass)
}

/// The class of the class: `isinstance` of legacy tensor types is decided there, in Python.
fn make_metaclass() -> Py<Obj> {
    // SAFETY: address of a static of the interpreter.
    let base = unsafe { Obj::borrowed((&raw mut ffi::PyType_Type).cast()) };
    TypeBuilder::new(c"corten._C._TensorMeta", 0).flags(ffi::Py_TPFLAGS_BASETYPE).base(base).build()
}

/// Subclasses may pass arguments of their own to `__init__`; `Tensor` ignores them.
fn init(_object: &Obj, _args: &Obj, _kwargs: Option<&Obj>) -> Py<()> {
    Ok(())
}

/// The functions of the module that concern the class.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = methods::functions();
    rows.extend(methods::storage_functions());
    rows.extend(super::index::functions());
    rows.push(method!("_legacy_new", legacy::new_of_dtype));
    rows.push(method!("_swap_tensor_impl", super::object::swap));
    rows
}
