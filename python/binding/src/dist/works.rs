//! Works.

use std::ffi::CStr;
use std::sync::Arc;

use corten_dist::Work;

use super::errors::{at_exit, detached, exception, may_call_python, raise};
use super::values::{arg, seconds, tensor_list, tensors};
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::gil::{self, Shared};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method};

static TYPE: TypeCell = TypeCell::new();

struct PyWork(Arc<Work>);

impl Class for PyWork {
    const NAME: &'static CStr = c"corten._C._DistWork";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .doc(c"A call that an engine has started.")
            .getset([
                getter!("name", |s: &Obj| Obj::str_from(inner(s).name())),
                getter!("sequence", |s: &Obj| Obj::uint(inner(s).sequence())),
                getter!("age", |s: &Obj| Obj::float(inner(s).age().as_secs_f64())),
                getter!("timeout", |s: &Obj| match inner(s).timeout() {
                    Some(timeout) => Obj::float(timeout.as_secs_f64()),
                    None => Ok(Obj::none()),
                }),
            ])
            .methods([
                method!("wait", |s: &Obj, args: Args<'_>| {
                    let (work, timeout) = (inner(s), seconds(&args, 0)?);
                    detached(|| work.wait(timeout)).map(|()| Obj::none())
                }),
                method!("block_current_stream", |s: &Obj, _a: Args<'_>| {
                    let work = inner(s);
                    detached(|| work.block_current_stream()).map(|()| Obj::none())
                }),
                method!("is_completed", |s: &Obj, _a: Args<'_>| Ok(Obj::bool(
                    inner(s).is_completed()
                ))),
                method!("is_success", |s: &Obj, _a: Args<'_>| {
                    let work = inner(s);
                    detached(|| Ok(work.is_success())).map(Obj::bool)
                }),
                method!("exception", |s: &Obj, _a: Args<'_>| {
                    let work = inner(s);
                    match detached(|| Ok(work.exception()))? {
                        Some(error) => exception(&error),
                        None => Ok(Obj::none()),
                    }
                }),
                method!("outputs", |s: &Obj, _a: Args<'_>| tensor_list(inner(s).outputs())),
                method!("source_rank", |s: &Obj, _a: Args<'_>| {
                    let rank = inner(s).source_rank().map_err(|error| raise(&error))?;
                    Obj::int(rank as i64)
                }),
                method!("on_end", on_end),
            ])
    }
}

fn inner(object: &Obj) -> &Arc<Work> {
    &this::<PyWork>(object).0
}

/// Calls a function when the work has ended, on the thread that ends it: with `None`, or the exception.
fn on_end(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let work = inner(object);
    let callback = Shared::new(arg(&args, 0)?.clone());
    let registering = work.clone();
    detached(move || {
        registering.on_end(move |work| {
            if !may_call_python() {
                // Without the lock the function cannot be given up.
                std::mem::forget(callback);
                return;
            }
            let error = work.raw_error();
            gil::attach(|| {
                let callback = callback.get();
                let result = match error {
                    Some(error) => exception(&error),
                    None => Ok(Obj::none()),
                };
                if let Err(raised) = result.and_then(|error| callback.call(&[&error])) {
                    raised.report(&callback);
                }
            });
        });
        Ok(())
    })?;
    Ok(Obj::none())
}

/// The object of a work.
pub(crate) fn work_object(work: Arc<Work>) -> Py<Obj> {
    instance(PyWork(work))
}

/// The work of a handle.
pub(super) fn work_of(object: &Obj) -> Option<Arc<Work>> {
    value::<PyWork>(object).map(|handle| handle.0.clone())
}

/// Makes the type.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_DistWork", &crate::py::class::make::<PyWork>()?)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_dist_at_exit", at_exit),
        method!("_dist_done_work", |_m: &Obj, args: Args<'_>| {
            work_object(Work::done("done", tensors(arg(&args, 0)?)?))
        }),
    ]
}
