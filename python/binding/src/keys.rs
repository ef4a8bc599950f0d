//! Dispatch keys from Python: the sets of tensors and threads, fallbacks, tensors that wrap others, and
//! calls below keys. Sets are numbers of 64 bits, as signed ones.

use crate::args::parser;
use crate::functions::call_overload_at;
use crate::library::{Lead, key, run_led};
use crate::py::errors::{runtime_error, type_error};
use crate::py::gil::{Shared, call_python};
use crate::py::{Args, Obj, Py, ffi, method};
use crate::tensor;
use crate::types::layout::layout_from;
use corten_core::{
    BackendMeta, Device, Dims, DispatchKey, KeySet, Layout, ShapePolicy, TensorBase, tls,
};
use corten_ops::dispatch::{remove_fallback, set_fallback, set_fallthrough_fallback};
use corten_ops::{AnyOp, Tensor, registry};
use std::any::Any;
use std::sync::Arc;

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut all = sets();
    all.extend(tensors());
    all.extend(fallbacks());
    all
}

fn number(keys: KeySet) -> Py<Obj> {
    Obj::int(keys.0 as i64)
}

fn keys_from(number: i64) -> KeySet {
    KeySet(number as u64)
}

fn find(name: &str) -> Py<&'static dyn AnyOp> {
    registry::find(name).ok_or_else(|| runtime_error(format!("operator {name} does not exist")))
}

fn sets() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_keyset_of", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_keyset_of(str key)").parse(None, args)?;
            number(KeySet::from_key(key(bound.str(0)?)?))
        }),
        method!("_keyset_highest", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_keyset_highest(int keys)").parse(None, args)?;
            Obj::str_from(keys_from(bound.int(0)?).highest_key().name())
        }),
        method!("_keyset_names", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_keyset_names(int keys)").parse(None, args)?;
            let found: Vec<DispatchKey> = keys_from(bound.int(0)?).iter().collect();
            Obj::list(found.into_iter().map(|key| Obj::str_from(key.name())))
        }),
        method!("_keyset_after", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_keyset_after(str key)").parse(None, args)?;
            number(KeySet::below(key(bound.str(0)?)?))
        }),
        method!("_keyset_above", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_keyset_above(str key)").parse(None, args)?;
            number(KeySet::after(key(bound.str(0)?)?))
        }),
        method!("_keyset_full", |_m: &Obj, _a: Args<'_>| number(KeySet::FULL)),
        method!("_tls_key_sets", |_m: &Obj, _a: Args<'_>| {
            Obj::tuple([number(tls::local_include()), number(tls::local_exclude())])
        }),
        method!("_set_tls_key_sets", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_set_tls_key_sets(int include, int exclude)").parse(None, args)?;
            let (include, exclude) = (keys_from(bound.int(0)?), keys_from(bound.int(1)?));
            let (include, exclude) = tls::replace_key_sets(include, exclude);
            Obj::tuple([number(include), number(exclude)])
        }),
    ]
}

fn tensors() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_key_set", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_key_set(Tensor tensor)").parse(None, args)?;
            number(tensor::expect(bound.object(0)?)?.key_set())
        }),
        method!("_set_key_set", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_set_key_set(Tensor tensor, int keys)").parse(None, args)?;
            tensor::expect(bound.object(0)?)?.set_key_set(keys_from(bound.int(1)?));
            Ok(Obj::none())
        }),
        method!("_make_keyed", make_keyed),
        method!("_set_geometry", |_m: &Obj, args: Args<'_>| {
            let parser = parser!(
                "_set_geometry(Tensor tensor, int[] size, int[] stride, int storage_offset)"
            );
            let bound = parser.parse(None, args)?;
            let target = tensor::expect(bound.object(0)?)?;
            target.set_geometry(&bound.ints(1)?, &bound.ints(2)?, bound.int(3)?)?;
            Ok(Obj::none())
        }),
        method!("_set_shape_policy", set_shape_policy),
        method!("_held_object", |_m: &Obj, args: Args<'_>| {
            let [object] = args.positional else { return Err(type_error("one tensor expected")) };
            let held = tensor::get(object).and_then(held_by);
            Ok(held.unwrap_or_else(Obj::none))
        }),
        method!("_hold_object", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_hold_object(Tensor tensor, any object)").parse(None, args)?;
            let held: Arc<dyn BackendMeta> = Arc::new(Held(Shared::new(bound.object(1)?.clone())));
            tensor::expect(bound.object(0)?)?.update_extra_meta(|extra| extra.backend = Some(held));
            Ok(Obj::none())
        }),
        method!("_op_call_at", |_m: &Obj, args: Args<'_>| {
            let [wanted, keys, rest @ ..] = args.positional else {
                return Err(type_error("the name of an operator and keys expected"));
            };
            let keys = keys_from(keys.to_i64()?);
            call_overload_at(find(wanted.as_str()?)?, keys, Args { positional: rest, ..args })
        }),
        method!("_op_serves", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_op_serves(str name, str key)").parse(None, args)?;
            let keys = KeySet::from_key(key(bound.str(1)?)?);
            Ok(Obj::bool(find(bound.str(0)?)?.has_kernel_for(keys)))
        }),
        method!("_op_kernels", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_op_kernels(str name)").parse(None, args)?;
            let kernels = find(bound.str(0)?)?.kernels();
            Obj::list(kernels.into_iter().map(|(target, kind)| {
                Obj::tuple([Obj::str_from(target.name()), Obj::str_from(kind)])
            }))
        }),
    ]
}

fn fallbacks() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_library_fallback", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_library_fallback(str key, any function, bool with_keys=False)");
            let bound = parser.parse(None, args)?;
            let wanted = key(bound.str(0)?)?;
            if bound.object(1)?.is_none() {
                set_fallthrough_fallback(wanted);
                return Ok(Obj::none());
            }
            let function = Shared::new(bound.object(1)?.clone());
            let lead = if bound.bool(2)? { Lead::NameAndKeys } else { Lead::Name };
            let kernel =
                move |call: &_, stack: &mut _| run_led(call, || Some(function.get()), stack, lead);
            set_fallback(wanted, Arc::new(kernel));
            Ok(Obj::none())
        }),
        method!("_rename_privateuse1_backend", crate::types::device::rename),
        method!("_get_privateuse1_backend_name", crate::types::device::private_name),
        method!("_library_remove_fallback", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_library_remove_fallback(str key)").parse(None, args)?;
            remove_fallback(key(bound.str(0)?)?);
            Ok(Obj::none())
        }),
    ]
}

/// `_make_keyed(like, size, stride, storage_offset, key, viewed)`: a tensor without memory of its own, of the dtype
/// and device of another one, whose calls arrive at a key. It counts versions with `viewed`, where one is given.
fn make_keyed(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "_make_keyed(Tensor like, int[] size, int[] stride, int storage_offset, str key, Tensor? viewed=None)"
    );
    let bound = parser.parse(None, args)?;
    let like = tensor::expect(bound.object(0)?)?;
    let device = like.device();
    let keys = KeySet::for_tensor(device.device_type, like.layout(), like.dtype())
        .with(key(bound.str(4)?)?);
    let sizes = bound.ints(1)?;
    let viewed = bound.get(5).filter(|object| !object.is_none()).map(tensor::expect).transpose()?;
    let made: Tensor = match viewed {
        Some(viewed) => viewed.base().view_without_storage(like.dtype(), keys, &sizes)?.into(),
        None => TensorBase::new_without_storage(like.dtype(), device, keys, &sizes)?.into(),
    };
    made.set_geometry(&sizes, &bound.ints(2)?, bound.int(3)?)?;
    tensor::wrap(&made)
}

/// An object of Python that a tensor and its shallow copies hold.
struct Held(Shared);

impl BackendMeta for Held {
    fn for_copy(self: Arc<Self>) -> Arc<dyn BackendMeta> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn held_by(tensor: &Tensor) -> Option<Obj> {
    let backend = tensor.extra_meta()?.backend?;
    backend.as_any().downcast_ref::<Held>().map(|held| held.0.get())
}

/// Answers of a Python function about one tensor.
struct Asked {
    /// A weak reference: the tensor owns what answers for it.
    tensor: Shared,
    function: Shared,
    geometry: bool,
    device: bool,
    layout: bool,
}

impl Asked {
    fn ask<R>(&self, question: &str, read: impl FnOnce(&Obj) -> Py<R>) -> Option<R> {
        let answer = || {
            let tensor = self.tensor.get().call(&[])?;
            if tensor.is_none() {
                return Ok(None);
            }
            let answer = self.function.get().call(&[&Obj::str_from(question)?, &tensor])?;
            if answer.is_none() { Ok(None) } else { read(&answer).map(Some) }
        };
        // Sizes are asked for where there is no error to give: the tensor's own hold until the call that asked ends,
        // which raises the exception then. Further questions of the call are not asked.
        let held = call_python(|| {
            if crate::warnings::is_raised() {
                return Ok(None);
            }
            Ok(answer().unwrap_or_else(|raised| {
                crate::warnings::hold(raised.into_error());
                None
            }))
        });
        held.unwrap_or_default()
    }
}

fn dims(answer: &Obj) -> Py<Dims> {
    answer.items()?.iter().map(Obj::to_i64).collect()
}

impl ShapePolicy for Asked {
    fn sizes(&self) -> Option<Dims> {
        self.geometry.then(|| self.ask("sizes", dims)).flatten()
    }

    fn strides(&self) -> Option<Dims> {
        self.geometry.then(|| self.ask("strides", dims)).flatten()
    }

    fn device(&self) -> Option<Device> {
        self.device.then(|| self.ask("device", crate::types::device::from_object)).flatten()
    }

    fn layout(&self) -> Option<Layout> {
        self.layout.then(|| self.ask("layout", layout_from)).flatten()
    }
}

/// `_set_shape_policy(tensor, reference, function, geometry, device, layout)`: a function that is asked in
/// place of the tensor, which a weak reference names.
fn set_shape_policy(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "_set_shape_policy(Tensor tensor, any reference, any function, bool geometry, bool device, bool layout)"
    );
    let bound = parser.parse(None, args)?;
    let policy = Asked {
        tensor: Shared::new(bound.object(1)?.clone()),
        function: Shared::new(bound.object(2)?.clone()),
        geometry: bound.bool(3)?,
        device: bound.bool(4)?,
        layout: bound.bool(5)?,
    };
    tensor::expect(bound.object(0)?)?.set_shape_policy(Some(Arc::new(policy)))?;
    Ok(Obj::none())
}
