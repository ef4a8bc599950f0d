//! Hooks on what is saved for the backward pass.

use crate::py::errors::type_error;
use crate::py::gil::{Shared, call_python};
use crate::py::{Args, Obj, Py, ffi, method};
use crate::tensor;
use corten_autograd::saved_hooks::{self, Packed, SavedTensorHooks};
use corten_ops::Tensor;
use std::sync::Arc;

/// The functions of a pair of hooks.
pub(super) struct Pair {
    pub(super) pack: Shared,
    pub(super) unpack: Shared,
}

/// `_push_saved_tensors_hooks(pack, unpack)`.
fn push(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [pack, unpack] = args.positional else { return Err(type_error("two hooks expected")) };
    let pair =
        Arc::new(Pair { pack: Shared::new(pack.clone()), unpack: Shared::new(unpack.clone()) });
    let (packing, unpacking) = (pair.clone(), pair.clone());
    let hooks = SavedTensorHooks::new(
        move |saved: &Tensor| {
            call_python(|| -> Py<Packed> {
                let packed = packing.pack.get().call(&[&tensor::wrap(saved)?])?;
                Ok(Arc::new(Shared::new(packed)))
            })
        },
        move |packed: &Packed| {
            call_python(|| -> Py<Tensor> {
                let Some(object) = packed.downcast_ref::<Shared>() else {
                    return Err(type_error("a packed tensor of another language"));
                };
                let result = unpacking.unpack.get().call(&[&object.get()])?;
                match tensor::get(&result) {
                    Some(unpacked) => Ok(unpacked.clone()),
                    None => Err(type_error(format!(
                        "Output of saved tensor unpack_hook expected to be a Tensor but got result \
                         of type {}",
                        result.type_name()
                    ))),
                }
            })
        },
    );
    saved_hooks::push(hooks.owning(pair))?;
    Ok(Obj::none())
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = vec![
        method!("_push_saved_tensors_hooks", push),
        method!("_pop_saved_tensors_hooks", |_m: &Obj, _a: Args<'_>| {
            drop(saved_hooks::pop());
            Ok(Obj::none())
        }),
        method!("_set_saved_tensors_hooks_disabled", |_m: &Obj, args: Args<'_>| {
            let parser =
                crate::args::parser!("_set_saved_tensors_hooks_disabled(str? reason=None)");
            let bound = parser.parse(None, args)?;
            let before = saved_hooks::set_disabled(bound.str_opt(0)?.map(str::to_owned))?;
            before.map_or_else(|| Ok(Obj::none()), |reason| Obj::str_from(&reason))
        }),
    ];
    rows.extend(super::node::functions());
    rows
}
