//! Back ends and process groups.

use std::ffi::CStr;
use std::sync::Arc;

use corten_core::DeviceType;
use corten_dist::{Backend, Call, ProcessGroup, ThreadWorld};

use super::calls::call_from;
use super::errors::{detached, raise};
use super::python_engine::{self, PythonEngine};
use super::stores::store_from;
use super::values::{arg, arg_opt, count, counts, seconds, text};
use super::works::work_object;
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::{type_error, value_error};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, name};

static BACKEND: TypeCell = TypeCell::new();
static GROUP: TypeCell = TypeCell::new();

struct PyBackend(Arc<Backend>);

struct PyGroup(Arc<ProcessGroup>);

impl Class for PyBackend {
    const NAME: &'static CStr = c"corten._C._DistBackend";

    fn cell() -> &'static TypeCell {
        &BACKEND
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .doc(c"An engine of collectives, with checks and times.")
            .getset([
                getter!("name", |s: &Obj| Obj::str_from(inner(s).engine().name())),
                getter!("rank", |s: &Obj| Obj::int(inner(s).engine().rank() as i64)),
                getter!("size", |s: &Obj| Obj::int(inner(s).engine().size() as i64)),
                getter!("timeout", |s: &Obj| Obj::float(inner(s).timeout().as_secs_f64())),
                getter!("sequence", |s: &Obj| Obj::uint(inner(s).sequence())),
                getter!("supports_splitting", |s: &Obj| Ok(Obj::bool(
                    inner(s).engine().supports_splitting()
                ))),
                getter!("supports_coalescing", |s: &Obj| Ok(Obj::bool(
                    inner(s).engine().supports_coalescing()
                ))),
            ])
            .methods([
                method!("start", start),
                method!("split", split),
                method!("monitored_barrier", |s: &Obj, args: Args<'_>| {
                    let (backend, timeout) = (inner(s), seconds(&args, 0)?);
                    let wait_all = arg_opt(&args, 1).map_or(Ok(false), Obj::is_true)?;
                    detached(|| backend.monitored_barrier(timeout, wait_all)).map(|()| Obj::none())
                }),
                method!("set_timeout", |s: &Obj, args: Args<'_>| {
                    if let Some(timeout) = seconds(&args, 0)? {
                        inner(s).set_timeout(timeout);
                    }
                    Ok(Obj::none())
                }),
                method!("set_store_rank", |s: &Obj, args: Args<'_>| {
                    inner(s).set_store_rank(count(arg(&args, 0)?)?);
                    Ok(Obj::none())
                }),
                method!("abort", |s: &Obj, args: Args<'_>| {
                    let (backend, reason) = (inner(s), text(&args, 0)?);
                    detached(|| {
                        backend.engine().abort(&reason);
                        Ok(())
                    })
                    .map(|()| Obj::none())
                }),
                method!("shutdown", |s: &Obj, _a: Args<'_>| {
                    let backend = inner(s);
                    detached(|| {
                        backend.engine().shutdown();
                        Ok(())
                    })
                    .map(|()| Obj::none())
                }),
            ])
    }
}

impl Class for PyGroup {
    const NAME: &'static CStr = c"corten._C._DistGroup";

    fn cell() -> &'static TypeCell {
        &GROUP
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        let builder = builder.flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION);
        builder.doc(c"The back ends of a set of ranks.").methods([
            method!("register", register),
            method!("abort", |s: &Obj, args: Args<'_>| {
                let (group, reason) = (&this::<PyGroup>(s).0, text(&args, 0)?);
                detached(|| {
                    group.abort(&reason);
                    Ok(())
                })
                .map(|()| Obj::none())
            }),
        ])
    }
}

fn inner(object: &Obj) -> &Arc<Backend> {
    &this::<PyBackend>(object).0
}

/// `start(calls, timeout, async)`: several calls are one work.
fn start(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let calls = arg(&args, 0)?.items()?.iter().map(call_from).collect::<Py<Vec<_>>>()?;
    let call = match <[Call; 1]>::try_from(calls) {
        Ok([call]) => call,
        Err(calls) => Call::Batch(calls),
    };
    let timeout = seconds(&args, 1)?;
    let is_async = arg_opt(&args, 2).map_or(Ok(true), Obj::is_true)?;
    let backend = inner(object);
    work_object(detached(|| backend.start(call, timeout, is_async))?)
}

/// `split(ranks, timeout, store)`: the back end of some ranks, or `None`.
fn split(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let (backend, ranks) = (inner(object), counts(arg(&args, 0)?)?);
    let timeout = seconds(&args, 1)?.unwrap_or_else(|| backend.timeout());
    let store = arg_opt(&args, 2).map(store_from).transpose()?;
    match detached(|| backend.engine().split(&ranks, timeout))? {
        Some(engine) => {
            let part = Backend::new(engine, store);
            part.set_timeout(timeout);
            backend_object(part)
        }
        None => Ok(Obj::none()),
    }
}

/// `register(device_type, backend)`: a handle, or an object of a class of Python's.
fn register(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let (name, backend) = (text(&args, 0)?, arg(&args, 1)?);
    let device = DeviceType::ALL.iter().find(|device| device.name() == name);
    let Some(device) = device else {
        return Err(value_error(format!("there is no device type {name}")));
    };
    let group = &this::<PyGroup>(object).0;
    let backend = match backend_from(backend)? {
        Some(backend) => backend,
        None => Backend::new(python_engine::of(backend, group.rank(), group.size()), None),
    };
    group.register(*device, backend);
    Ok(Obj::none())
}

/// The object of a back end: what `ProcessGroupGloo` and the like hold as `_handle`.
pub(crate) fn backend_object(backend: Arc<Backend>) -> Py<Obj> {
    instance(PyBackend(backend))
}

/// The back end of a handle, or of an object that has one as `_handle`; nothing for other objects.
pub(crate) fn backend_from(object: &Obj) -> Py<Option<Arc<Backend>>> {
    if let Some(handle) = value::<PyBackend>(object) {
        return Ok(Some(handle.0.clone()));
    }
    let handle = object.attr_opt(name!("_handle"))?;
    Ok(handle.and_then(|handle| value::<PyBackend>(&handle).map(|handle| handle.0.clone())))
}

/// The group of an object: that of a `ProcessGroup`, or what stands for the methods of a subclass.
pub(crate) fn group_from(object: &Obj) -> Py<Arc<ProcessGroup>> {
    if let Some(group) = value::<PyGroup>(object) {
        return Ok(group.0.clone());
    }
    let overrides = object.attr_opt(name!("_overrides_collectives"))?;
    let overrides = overrides.map_or(Ok(true), |found| found.is_true())?;
    if !overrides {
        let handle = object.attr(name!("_group"))?;
        if let Some(group) = value::<PyGroup>(&handle) {
            return Ok(group.0.clone());
        }
    }
    if object.attr_opt(name!("allreduce"))?.is_none() {
        return Err(type_error(format!("a ProcessGroup is expected, not {}", object.type_name())));
    }
    let rank = count(&object.call_method(name!("rank"), &[])?)?;
    let size = count(&object.call_method(name!("size"), &[])?)?;
    let group = ProcessGroup::new(rank, size, None);
    let backend = Backend::new(Arc::new(PythonEngine::new(object.clone(), rank, size)?), None);
    DeviceType::ALL.iter().for_each(|device| group.register(*device, backend.clone()));
    Ok(group)
}

/// Makes the types.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_DistBackend", &crate::py::class::make::<PyBackend>()?)?;
    module.set_attr_str(c"_DistGroup", &crate::py::class::make::<PyGroup>()?)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_dist_group", |_m: &Obj, args: Args<'_>| {
            let (rank, size) = (count(arg(&args, 0)?)?, count(arg(&args, 1)?)?);
            let store = arg_opt(&args, 2).map(store_from).transpose()?;
            instance(PyGroup(ProcessGroup::new(rank, size, store)))
        }),
        method!("_dist_thread_backend", |_m: &Obj, args: Args<'_>| {
            let store = store_from(arg(&args, 0)?)?;
            let (rank, size) = (count(arg(&args, 1)?)?, count(arg(&args, 2)?)?);
            let world = detached(|| ThreadWorld::on_store(&*store, size))?;
            let engine = world.engine(rank).map_err(|error| raise(&error))?;
            backend_object(Backend::new(engine, Some(store)))
        }),
    ]
}
