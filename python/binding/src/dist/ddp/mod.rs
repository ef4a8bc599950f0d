//! Data-parallel training: the reducer, its hooks and its logger.

mod bucket;
mod group;
mod hooks;
mod logger;
mod reducer;

use crate::args::parser;
use crate::py::class::make;
use crate::py::errors::type_error;
use crate::py::gil::{self, Shared};
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::tensor;
use bucket::PyBucket;
use corten_dist::ddp::{self, BuiltinHook};
use corten_ops::Tensor;
use logger::{PyLogger, PyLoggingData};
use reducer::PyReducer;
use std::sync::Arc;

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_dist_assign_buckets", assign),
        method!("_dist_verify_params", verify),
        method!("_dist_broadcast_coalesced", broadcast_coalesced),
        method!("_dist_register_comm_hook", register_comm_hook),
        method!("_dist_register_builtin_comm_hook", register_builtin_hook),
    ]
}

/// Makes the types.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_DistReducer", &make::<PyReducer>()?)?;
    module.set_attr_str(c"_DistGradBucket", &make::<PyBucket>()?)?;
    module.set_attr_str(c"_DistLogger", &make::<PyLogger>()?)?;
    module.set_attr_str(c"_DistLoggingData", &make::<PyLoggingData>()?)?;
    let first = Obj::int(ddp::DEFAULT_FIRST_BUCKET_BYTES as i64)?;
    module.set_attr_str(c"_DIST_FIRST_BUCKET_BYTES", &first)
}

/// The tensors of a sequence.
fn tensors(object: &Obj) -> Py<Vec<Tensor>> {
    object.items()?.iter().map(|item| tensor::expect(item).cloned()).collect()
}

/// The numbers of a sequence, none of them below 0.
fn numbers(object: &Obj) -> Py<Vec<usize>> {
    let one = |item: &Obj| {
        let number = item.to_i64()?;
        usize::try_from(number).map_err(|_| type_error(format!("{number} is negative")))
    };
    object.items()?.iter().map(one).collect()
}

fn numbers_or_none(object: Option<&Obj>) -> Py<Vec<usize>> {
    object.map_or(Ok(Vec::new()), numbers)
}

fn bools_or_none(object: Option<&Obj>) -> Py<Vec<bool>> {
    let bools = |object: &Obj| object.items()?.iter().map(Obj::is_true).collect();
    object.map_or(Ok(Vec::new()), bools)
}

fn list_of(numbers: &[usize]) -> Py<Obj> {
    Obj::list(numbers.iter().map(|&number| Obj::int(number as i64)))
}

fn assign(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "_compute_bucket_assignment_by_size(any tensors, any bucket_size_limits, any expect_sparse_gradient=None, any tensor_indices=None, any logger=None)"
    );
    let bound = parser.parse(None, args)?;
    let (buckets, limits) = ddp::assign_buckets(
        &tensors(bound.object(0)?)?,
        &numbers(bound.object(1)?)?,
        &bools_or_none(bound.get(2))?,
        &numbers_or_none(bound.get(3))?,
    )?;
    Obj::tuple([Obj::list(buckets.iter().map(|bucket| list_of(bucket))), list_of(&limits)])
}

fn verify(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser =
        parser!("_verify_params_across_processes(any process_group, any params, any logger=None)");
    let bound = parser.parse(None, args)?;
    let (group, params) = (group::from_object(bound.object(0)?)?, tensors(bound.object(1)?)?);
    let outcome = gil::without(|| ddp::verify_params(&*group, &params));
    if let (Err(error), Some(logger)) = (&outcome, bound.get(2)) {
        logger::note_error(logger, error.message());
    }
    outcome?;
    Ok(Obj::none())
}

fn broadcast_coalesced(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser =
        parser!("_broadcast_coalesced(any process_group, any tensors, int buffer_size, int src=0)");
    let bound = parser.parse(None, args)?;
    let (group, tensors) = (group::from_object(bound.object(0)?)?, tensors(bound.object(1)?)?);
    let (bytes, source) = (bound.int(2)?.max(0) as usize, bound.int(3)?.max(0) as usize);
    gil::without(|| ddp::broadcast_coalesced(&*group, &tensors, bytes, source))?;
    Ok(Obj::none())
}

fn register_comm_hook(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_register_comm_hook(any reducer, any state, any comm_hook)");
    let bound = parser.parse(None, args)?;
    let reducer = reducer::expect(bound.object(0)?)?;
    let state = bound.get(1).cloned().unwrap_or_else(Obj::none);
    let hook = hooks::PyHook::new(Shared::new(state), Shared::new(bound.object(2)?.clone()));
    reducer.register_comm_hook(Arc::new(hook))?;
    Ok(Obj::none())
}

fn register_builtin_hook(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_register_builtin_comm_hook(any reducer, any comm_hook_type)");
    let bound = parser.parse(None, args)?;
    let reducer = reducer::expect(bound.object(0)?)?;
    let kind = match bound.object(1)?.attr(name!("value"))?.to_i64()? {
        1 => BuiltinHook::AllReduce,
        2 => BuiltinHook::Fp16Compress,
        other => {
            return Err(type_error(format!("{other} is no number of a BuiltinCommHookType")));
        }
    };
    reducer.register_comm_hook(kind.over(reducer.group()))?;
    Ok(Obj::none())
}
