//! Python functions as hooks.

use crate::py::class::{Class, TypeBuilder, instance, make, this};
use crate::py::errors::type_error;
use crate::py::gil::{Shared, call_python};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method};
use crate::tensor;
use corten_autograd::hooks::{HookOwner, NodePostHook, NodePreHook, TensorHook};
use corten_autograd::{HookHandle, Node};
use corten_ops::Tensor;
use std::ffi::CStr;
use std::sync::Arc;

static TYPE: TypeCell = TypeCell::new();

struct PyHandle(HookHandle);

impl Class for PyHandle {
    const NAME: &'static CStr = c"corten.utils.hooks.HookHandle";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"Removes a hook.")
            .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .getset([getter!("id", |s: &Obj| Obj::int(this::<PyHandle>(s).0.id() as i64))])
            .methods([
                method!("remove", |s: &Obj, _a: Args<'_>| {
                    this::<PyHandle>(s).0.remove();
                    Ok(Obj::none())
                }),
                method!("__enter__", |s: &Obj, _a: Args<'_>| Ok(s.clone())),
                method!("__exit__", |s: &Obj, _a: Args<'_>| {
                    this::<PyHandle>(s).0.remove();
                    Ok(Obj::none())
                }),
            ])
    }
}

/// The object that removes a hook.
fn handle(handle: HookHandle) -> Py<Obj> {
    instance(PyHandle(handle))
}

/// Makes the class.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_HookHandle", &make::<PyHandle>()?)
}

fn callable<'a>(args: Args<'a>) -> Py<&'a Obj> {
    match args.positional {
        [function] if function.is_callable() => Ok(function),
        [other] => Err(type_error(format!("a hook must be callable, not {}", other.type_name()))),
        _ => Err(type_error("one hook expected")),
    }
}

/// The function that a hook calls, for the hook and for its place in the list.
fn function_of(args: Args<'_>) -> Py<(Arc<Shared>, HookOwner)> {
    let function = Arc::new(Shared::new(callable(args)?.clone()));
    Ok((function.clone(), function))
}

/// What a hook returned: a tensor, or nothing.
fn replacement(result: &Obj) -> Py<Option<Tensor>> {
    if result.is_none() {
        return Ok(None);
    }
    match tensor::get(result) {
        Some(grad) => Ok(Some(grad.clone())),
        None => Err(type_error(format!(
            "hook returned an object of type {}, expected Tensor or None",
            result.type_name()
        ))),
    }
}

/// `tensor._register_hook(function)`.
pub(crate) fn register_hook(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let (function, owner) = function_of(args)?;
    let hook: TensorHook = Arc::new(move |grad| {
        call_python(|| {
            let result = function.get().call(&[&tensor::wrap(grad)?])?;
            replacement(&result)
        })
    });
    handle(corten_autograd::register_hook(tensor::expect(object)?, hook, Some(owner))?)
}

/// `tensor._register_post_accumulate_grad_hook(function)`.
pub(crate) fn register_post_accumulate_hook(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let (function, owner) = function_of(args)?;
    let hook = Arc::new(move |leaf: &Tensor| {
        call_python(|| -> Py<()> {
            let result = function.get().call(&[&tensor::wrap(leaf)?])?;
            if result.is_none() {
                return Ok(());
            }
            Err(crate::py::errors::runtime_error(
                "Tensor post accumulate grad hooks should return None.",
            ))
        })
    });
    let leaf = tensor::expect(object)?;
    handle(corten_autograd::register_post_accumulate_grad_hook(leaf, hook, Some(owner))?)
}

/// A tuple of gradients; absent ones are `None`.
pub(super) fn grads_tuple(grads: &[Tensor]) -> Py<Obj> {
    Obj::tuple(grads.iter().map(tensor::wrap))
}

/// The gradients that a hook on a node returned: one, or a tuple as long as what it was given.
fn replaced_grads(result: &Obj, expected: usize) -> Py<Option<Vec<Tensor>>> {
    if result.is_none() {
        return Ok(None);
    }
    let items = if tensor::is_tensor(result) { vec![result.clone()] } else { result.items()? };
    if items.len() != expected {
        return Err(crate::py::errors::runtime_error(format!(
            "hook has returned an incorrect number of values (got {}, but expected {expected})",
            items.len()
        )));
    }
    let one =
        |item: &Obj| -> Py<Tensor> { Ok(replacement(item)?.unwrap_or_else(Tensor::undefined)) };
    items.iter().map(one).collect::<Py<Vec<Tensor>>>().map(Some)
}

/// Registers a Python function as a hook before a node.
pub(super) fn register_pre_hook(node: &Node, args: Args<'_>) -> Py<Obj> {
    let (function, owner) = function_of(args)?;
    let hook: NodePreHook = Arc::new(move |grads| {
        call_python(|| {
            let result = function.get().call(&[&grads_tuple(grads)?])?;
            replaced_grads(&result, grads.len())
        })
    });
    handle(node.register_owning_prehook(hook, owner))
}

/// Registers a Python function as a hook after a node.
pub(super) fn register_post_hook(node: &Node, args: Args<'_>) -> Py<Obj> {
    let (function, owner) = function_of(args)?;
    let hook: NodePostHook = Arc::new(move |outputs, inputs| {
        call_python(|| {
            let result = function.get().call(&[&grads_tuple(outputs)?, &grads_tuple(inputs)?])?;
            replaced_grads(&result, outputs.len())
        })
    });
    handle(node.register_owning_hook(hook, owner))
}
