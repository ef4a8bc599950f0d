//! `Reducer`.

use super::{bools_or_none, bucket, group, hooks, numbers, numbers_or_none, tensors};
use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::convert::{import, imported};
use crate::py::errors::type_error;
use crate::py::gil;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method, name, slot};
use crate::tensor;
use corten_dist::ddp::{DEFAULT_BUCKET_BYTES, DEFAULT_FIRST_BUCKET_BYTES, Options, Reducer};
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;

static TYPE: TypeCell = TypeCell::new();

/// The reducer of a module.
pub(super) struct PyReducer(Arc<Reducer>);

impl Class for PyReducer {
    const NAME: &'static CStr = c"corten._C._distributed_c10d.Reducer";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"Averages gradients over processes while backward passes run.")
            .slot(ffi::Py_tp_new, slot!(call new))
            .methods(passes())
            .methods(communication())
            .methods(settings())
    }
}

fn reducer(object: &Obj) -> &Reducer {
    &this::<PyReducer>(object).0
}

/// The reducer of an object.
pub(super) fn expect(object: &Obj) -> Py<Arc<Reducer>> {
    value::<PyReducer>(object)
        .map(|reducer| reducer.0.clone())
        .ok_or_else(|| type_error(format!("expected Reducer but got {}", object.type_name())))
}

fn new(_class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let parser = parser!(
        "Reducer(any params, any bucket_indices, any per_bucket_size_limits, any process_group, any expect_sparse_gradients=None, int? bucket_bytes_cap=None, bool find_unused_parameters=False, bool gradient_as_bucket_view=False, any param_to_name_mapping=None, int? first_bucket_bytes_cap=None, bool skip_all_reduce_unused_params=False, bool use_python_reducer=False, any bucket_bytes_cap_list=None, bool batched_grad_copy=False, bool lazy_bucket_allocation=False)"
    );
    let bound = parser.parse(None, owned.as_args())?;
    let assignment = bound.object(1)?.items()?.iter().map(numbers).collect::<Py<Vec<_>>>()?;
    let bytes = |index: usize, default: usize| -> Py<usize> {
        Ok(bound.int_opt(index)?.map_or(default, |bytes| bytes.max(0) as usize))
    };
    let options = Options {
        bucket_bytes_cap: bytes(5, DEFAULT_BUCKET_BYTES)?,
        first_bucket_bytes_cap: bytes(9, DEFAULT_FIRST_BUCKET_BYTES)?,
        bucket_bytes_cap_list: numbers_or_none(bound.get(12))?,
        find_unused_parameters: bound.bool(6)?,
        gradient_as_bucket_view: bound.bool(7)?,
        skip_all_reduce_unused_params: bound.bool(10)?,
        lazy_bucket_allocation: bound.bool(14)?,
        batched_grad_copy: bound.bool(13)?,
        names: names(bound.get(8))?,
        names_in_errors: is_debugging()?,
    };
    let reducer = Reducer::new(
        tensors(bound.object(0)?)?,
        &assignment,
        group::from_object(bound.object(3)?)?,
        bools_or_none(bound.get(4))?,
        options,
    )?;
    instance(PyReducer(reducer))
}

/// `{0: "weight", …}`.
fn names(object: Option<&Obj>) -> Py<HashMap<usize, String>> {
    let Some(object) = object else { return Ok(HashMap::new()) };
    let pairs = object.call_method(name!("items"), &[])?;
    let pairs = import(name!("builtins"))?.attr(name!("list"))?.call(&[&pairs])?;
    let mut names = HashMap::new();
    for pair in pairs.items()? {
        if let [index, text] = &pair.items()?[..] {
            names.insert(index.to_i64()?.max(0) as usize, text.as_str()?.to_owned());
        }
    }
    Ok(names)
}

/// Whether `TORCH_DISTRIBUTED_DEBUG` asks for names in errors.
fn is_debugging() -> Py<bool> {
    let Some(module) = imported(name!("corten._C._distributed_c10d"))? else { return Ok(false) };
    let Some(level) = module.attr_opt(name!("get_debug_level"))? else { return Ok(false) };
    let level = level.call(&[])?;
    Ok(level.attr(name!("name"))?.display() != "OFF")
}

/// What is called around passes. Whatever takes the reducer's lock does so without the interpreter's.
fn passes() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("prepare_for_forward", |s: &Obj, _a: Args<'_>| {
            gil::without(|| reducer(s).prepare_for_forward());
            Ok(Obj::none())
        }),
        method!("prepare_for_backward", |s: &Obj, args: Args<'_>| {
            let outputs = match args.positional {
                [outputs] if tensor::is_tensor(outputs) => vec![tensor::expect(outputs)?.clone()],
                [outputs] => tensors(outputs)?,
                _ => return Err(type_error("prepare_for_backward() takes a list of tensors")),
            };
            gil::without(|| reducer(s).prepare_for_backward(&outputs))?;
            Ok(Obj::none())
        }),
        method!("_rebuild_buckets", |s: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(gil::without(|| reducer(s).rebuild_buckets())?))
        }),
        method!("_autograd_hook", |s: &Obj, args: Args<'_>| {
            let [index] = args.positional else { return Err(type_error("an index expected")) };
            let index = index.to_i64()?.max(0) as usize;
            gil::without(|| reducer(s).autograd_hook(index))?;
            Ok(Obj::none())
        }),
        method!("_delay_all_reduce", |s: &Obj, _a: Args<'_>| {
            gil::without(|| reducer(s).delay_all_reduce())?;
            Ok(Obj::none())
        }),
        method!("_finalize_backward_manual", |s: &Obj, _a: Args<'_>| {
            gil::without(|| reducer(s).finalize_backward_manual())?;
            Ok(Obj::none())
        }),
        method!("_should_finalize_after_backward", |s: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(gil::without(|| reducer(s).should_finalize_after_backward())))
        }),
        method!("_check_reducer_finalized", |s: &Obj, _a: Args<'_>| {
            gil::without(|| reducer(s).check_finalized())?;
            Ok(Obj::none())
        }),
    ]
}

/// Hooks that communicate, and what they are given.
fn communication() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_run_comm_hook", |s: &Obj, args: Args<'_>| {
            let [seen] = args.positional else { return Err(type_error("a bucket expected")) };
            let seen = bucket::expect(seen)?;
            let pending = gil::without(|| reducer(s).run_comm_hook(seen))?;
            hooks::future_of(pending)
        }),
        method!("_run_allreduce_hook", |s: &Obj, args: Args<'_>| {
            let [seen] = args.positional else { return Err(type_error("a bucket expected")) };
            let seen = bucket::expect(seen)?;
            hooks::future_of(gil::without(|| reducer(s).group().all_reduce(&seen.buffer()))?)
        }),
        method!("_get_zeros_like_grad_buckets", |s: &Obj, _a: Args<'_>| {
            let zeros = gil::without(|| reducer(s).zeros_like_grad_buckets())?;
            Obj::list(zeros.into_iter().map(bucket::wrap))
        }),
        method!("_push_all_rebuilt_params", |s: &Obj, _a: Args<'_>| {
            gil::without(|| reducer(s).push_all_rebuilt_params());
            Ok(Obj::none())
        }),
        method!("_install_post_backward_futures", |s: &Obj, args: Args<'_>| {
            let [futures] = args.positional else { return Err(type_error("futures expected")) };
            let waited = futures.items()?;
            let none = corten_ops::Tensor::undefined;
            let waited =
                waited.iter().map(|one| Arc::new(hooks::Awaited::new(one, none())) as _).collect();
            gil::without(|| reducer(s).install_post_backward(waited));
            Ok(Obj::none())
        }),
    ]
}

/// What changes how it works.
fn settings() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("get_backward_stats", |s: &Obj, _a: Args<'_>| {
            let stats = reducer(s).backward_stats();
            Obj::list(stats.iter().map(|&time| Obj::int(time as i64)))
        }),
        method!("_get_local_used_map", |s: &Obj, _a: Args<'_>| {
            tensor::wrap(&gil::without(|| reducer(s).local_used_map())?)
        }),
        method!("_set_static_graph", |s: &Obj, _a: Args<'_>| {
            gil::without(|| reducer(s).set_static_graph())?;
            Ok(Obj::none())
        }),
        method!("_set_forward_pass_work_handle", set_forward_pass_work),
        method!("_remove_autograd_hooks", |s: &Obj, _a: Args<'_>| {
            reducer(s).remove_autograd_hooks();
            Ok(Obj::none())
        }),
        method!("_reset_state", |s: &Obj, _a: Args<'_>| {
            gil::without(|| reducer(s).reset_state())?;
            Ok(Obj::none())
        }),
        method!("_update_process_group", |s: &Obj, args: Args<'_>| {
            let [group] = args.positional else { return Err(type_error("a group expected")) };
            reducer(s).update_group(group::from_object(group)?);
            Ok(Obj::none())
        }),
        method!("_set_manual_finalization_required", |s: &Obj, args: Args<'_>| {
            let [required] = args.positional else { return Err(type_error("a bool expected")) };
            let required = required.is_true()?;
            gil::without(|| reducer(s).set_manual_finalization(required));
            Ok(Obj::none())
        }),
        method!("_set_optimizer_in_backward", |s: &Obj, _a: Args<'_>| {
            reducer(s).set_optimizer_in_backward();
            Ok(Obj::none())
        }),
        method!("_set_ddp_runtime_logging_sample_rate", |_s: &Obj, args: Args<'_>| {
            // Times are taken of every pass: the reading of a clock costs nothing.
            match args.positional {
                [rate] if rate.to_i64()? > 0 => Ok(Obj::none()),
                _ => Err(crate::py::errors::runtime_error(
                    "DDP runtime logging sample rate should be equal or greater than 1",
                )),
            }
        }),
        method!("set_logger", |_s: &Obj, _a: Args<'_>| Ok(Obj::none())),
    ]
}

fn set_forward_pass_work(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_set_forward_pass_work_handle(any work, bool use_static_world_size)");
    let bound = parser.parse(None, args)?;
    let work = bound.object(0)?;
    let results = work.call_method(name!("result"), &[])?.items()?;
    let Some(first) = results.first() else {
        return Err(type_error("the work has no result"));
    };
    let pending = hooks::Awaited::new(work, tensor::expect(first)?.clone());
    let use_static = bound.bool(1)?;
    gil::without(|| reducer(object).set_forward_pass_work(Arc::new(pending), use_static));
    Ok(Obj::none())
}
