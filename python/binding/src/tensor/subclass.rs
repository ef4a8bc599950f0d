//! Objects of subclasses of `Tensor`.

use super::memory::set_requires_grad;
use super::object::{TENSOR, expect, this, wrap, wrap_as};
use crate::args::parser;
use crate::functions::op1;
use crate::py::errors::type_error;
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::types;
use corten_core::{Device, DispatchKey, KeySet, Layout, TensorBase};
use corten_ops::Tensor;
use corten_ops::sparse::Coo;

/// The rows of the method table.
pub(crate) fn rows() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_make_subclass", make_subclass, ffi::METH_STATIC),
        method!("as_subclass", as_subclass),
        method!("_make_shell", make_shell, ffi::METH_STATIC),
        method!("_make_sparse", make_sparse, ffi::METH_STATIC),
        method!("_sparse_parts", sparse_parts),
        method!("_set_sparse_parts", set_sparse_parts),
        method!("_make_wrapper_subclass", make_wrapper, ffi::METH_STATIC),
    ]
}

pub(super) fn subclass_type(class: &Obj) -> Py<*mut ffi::PyTypeObject> {
    let ty = class.as_ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: both are types.
    if class.is_type() && unsafe { ffi::PyType_IsSubtype(ty, TENSOR.get()) } != 0 {
        return Ok(ty);
    }
    Err(type_error(format!("cls must be a subclass of Tensor, not {}", class.display())))
}

/// Whether a class has a `__torch_dispatch__` of its own, and does not opt out by
/// `_disabled_torch_dispatch_impl`.
fn has_dispatch(class: &Obj) -> Py<bool> {
    let base = TENSOR.obj();
    let name = name!("__torch_dispatch__");
    Ok(class.as_ptr() != base.as_ptr() && class.attr(name)?.as_ptr() != base.attr(name)?.as_ptr())
}

/// Marks a tensor of a class with a `__torch_dispatch__`, so that operators ask it below autograd.
pub(super) fn mark_dispatch(class: &Obj, tensor: &Tensor) -> Py<()> {
    if has_dispatch(class)? {
        // The module says what happens at the key.
        crate::py::convert::import(name!("corten.utils._python_dispatch"))?;
        tensor.set_key_set(tensor.key_set().with(DispatchKey::Python));
    }
    Ok(())
}

/// `_make_wrapper_subclass(cls, size, …)`: a tensor without elements, whose operators are those of the
/// `__torch_dispatch__` of its class.
fn make_wrapper(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "_make_wrapper_subclass(any cls, int[] size, *, int[]? strides=None, int? storage_offset=None, MemoryFormat? memory_format=None, ScalarType? dtype=None, any layout=None, Device? device=None, bool pin_memory=False, bool requires_grad=False, any dispatch_sizes_strides_policy=None, bool dispatch_device=False, bool dispatch_layout=False, any _extra_dispatch_keys=None, any storage_size=None)"
    );
    let bound = parser.parse(None, args)?;
    let class = subclass_type(bound.object(0)?)?;
    if !has_dispatch(bound.object(0)?)? {
        return Err(type_error(format!(
            "{} must define __torch_dispatch__",
            bound.object(0)?.display()
        )));
    }
    let layout = match bound.has(6) {
        true => types::layout::layout_from(bound.object(6)?)?,
        false => Layout::Strided,
    };
    let dtype = bound.dtype_opt(5)?.unwrap_or_else(corten_core::default_dtype);
    let device = bound.device_opt(7)?.unwrap_or(Device::CPU);
    let keys = KeySet::for_tensor(device.device_type, layout, dtype);
    let sizes = bound.ints(1)?;
    let made: Tensor = TensorBase::new_without_storage(dtype, device, keys, &sizes)?.into();
    if bound.has(2) {
        let strides = bound.ints(2)?;
        made.set_sizes_and_strides(&sizes, &strides, bound.int_opt(3)?)?;
    }
    mark_dispatch(bound.object(0)?, &made)?;
    if bound.bool(9)? {
        set_requires_grad(&made, true)?;
    }
    wrap_as(class, made)
}

/// `_make_subclass(cls, data, require_grad=False)`: the data under another class, as a leaf.
fn make_subclass(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "_make_subclass(any cls, Tensor data, bool require_grad=False, *, any dispatch_sizes_strides_policy=None, bool dispatch_device=False, bool dispatch_layout=False, any device_for_backend_keys=None)"
    );
    let bound = parser.parse(None, args)?;
    let class = subclass_type(bound.object(0)?)?;
    let source = expect(bound.object(1)?)?;
    let wanted = bound.bool(2)?;
    let counter = corten_core::VersionCounter::Own;
    let made = source.base().shallow_copy_and_detach(counter, true)?.into();
    mark_dispatch(bound.object(0)?, &made)?;
    set_requires_grad(&made, wanted)?;
    wrap_as(class, made)
}

/// `tensor.as_subclass(cls)`: an alias under another class, with its history.
fn as_subclass(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("as_subclass(any cls)").parse(None, args)?;
    let class = subclass_type(bound.object(0)?)?;
    let tensor = this(object);
    let made = op1!("aten::alias", tensor)?;
    mark_dispatch(bound.object(0)?, &made)?;
    wrap_as(class, made)
}

/// `_make_shell(cls, size, *, dtype, layout, device)`: a tensor without memory of its own, of a
/// class that keeps its data in parts. Operators of its layout find the kernels of that class.
fn make_shell(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_make_shell(any cls, int[] size, *, any dtype, any layout, any device)");
    let bound = parser.parse(None, args)?;
    let class = subclass_type(bound.object(0)?)?;
    let dtype = types::dtype::from_object(bound.object(2)?)?;
    let device = types::device::from_object(bound.object(4)?)?;
    let layout = types::layout::layout_from(bound.object(3)?)?;
    let keys = KeySet::for_tensor(device.device_type, layout, dtype);
    let made = TensorBase::new_without_storage(dtype, device, keys, &bound.ints(1)?)?;
    wrap_as(class, made.into())
}

/// `_make_sparse(cls, indices, values, size, coalesced)`: a tensor in coordinate format of parts that fit
/// together.
fn make_sparse(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser =
        parser!("_make_sparse(any cls, Tensor indices, Tensor values, int[] size, bool coalesced)");
    let bound = parser.parse(None, args)?;
    let class = subclass_type(bound.object(0)?)?;
    let (indices, values) = (expect(bound.object(1)?)?.clone(), expect(bound.object(2)?)?.clone());
    let parts = Coo { indices, values, coalesced: bound.bool(4)? };
    wrap_as(class, parts.tensor(&bound.ints(3)?)?)
}

/// `tensor._sparse_parts()`: indices, values, and whether the places differ.
fn sparse_parts(object: &Obj, _args: Args<'_>) -> Py<Obj> {
    let parts = Coo::expect(this(object), "_sparse_parts")?;
    Obj::tuple([wrap(&parts.indices), wrap(&parts.values), Ok(Obj::bool(parts.coalesced))])
}

/// `tensor._set_sparse_parts(indices, values, size, coalesced)`: other parts that fit together.
fn set_sparse_parts(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser =
        parser!("_set_sparse_parts(Tensor indices, Tensor values, int[] size, bool coalesced)");
    let bound = parser.parse(None, args)?;
    let (indices, values) = (expect(bound.object(0)?)?.clone(), expect(bound.object(1)?)?.clone());
    let parts = Coo { indices, values, coalesced: bound.bool(3)? };
    parts.put(this(object), &bound.ints(2)?)?;
    Ok(Obj::none())
}
