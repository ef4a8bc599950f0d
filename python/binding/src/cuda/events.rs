//! Events as objects, so that the driver's go when Python's do.

use super::device_index;
use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::{type_error, value_error};
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, slot};
use corten::cuda::{Event, Stream};
use std::ffi::CStr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static TYPE: TypeCell = TypeCell::new();

/// A mark in a stream. Threads that wait for it share the lock; they need the interpreter's only after
/// they have given it back.
struct PyEvent(RwLock<Event>);

impl Class for PyEvent {
    const NAME: &'static CStr = c"corten._C._CudaEvent";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"_CudaEvent(timing, blocking, interprocess)\n--\n\nA mark in a stream.")
            .slot(ffi::Py_tp_new, slot!(call new))
            .getset([
                getter!("device", |s: &Obj| match read(s).device() {
                    Some(device) => Obj::int(device.into()),
                    None => Ok(Obj::none()),
                }),
                getter!("handle", |s: &Obj| Obj::uint(read(s).raw() as u64)),
            ])
            .methods([
                method!("record", record),
                method!("query", |s: &Obj, _a: Args<'_>| Ok(Obj::bool(read(s).query()?))),
                method!("synchronize", |s: &Obj, _a: Args<'_>| {
                    let event: &PyEvent = this(s);
                    detach(|| shared(event).synchronize())?;
                    Ok(Obj::none())
                }),
                method!("elapsed_time", elapsed_time),
                method!("ipc_handle", ipc_handle),
            ])
    }
}

fn shared(event: &PyEvent) -> RwLockReadGuard<'_, Event> {
    event.0.read().unwrap_or_else(PoisonError::into_inner)
}

fn read(object: &Obj) -> RwLockReadGuard<'_, Event> {
    shared(this::<PyEvent>(object))
}

fn write(object: &Obj) -> RwLockWriteGuard<'_, Event> {
    this::<PyEvent>(object).0.write().unwrap_or_else(PoisonError::into_inner)
}

fn expect(object: &Obj) -> Py<&PyEvent> {
    value::<PyEvent>(object)
        .ok_or_else(|| type_error(format!("expected an event, but got {}", object.type_name())))
}

fn new(_class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let parser = parser!(
        "_CudaEvent(bool timing=False, bool blocking=False, bool interprocess=False)",
        "_CudaEvent(int device, any ipc_handle)"
    );
    let bound = parser.parse(None, owned.as_args())?;
    if bound.index == 0 {
        let event = Event::new(bound.bool(0)?).blocking(bound.bool(1)?);
        return instance(PyEvent(RwLock::new(event.interprocess(bound.bool(2)?))));
    }
    let name: [u8; 64] = bound
        .object(1)?
        .as_bytes()?
        .try_into()
        .map_err(|_| value_error("cudaIpcEventHandle_t expects byte-like object of size 64"))?;
    let event = Event::from_ipc_handle(device_index(bound.int(0)?)?, name)?;
    instance(PyEvent(RwLock::new(event)))
}

fn record(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("record(int device, int stream)").parse(None, args)?;
    let stream = Stream::from_id(device_index(bound.int(0)?)?, bound.int(1)?)?;
    write(object).record(stream)?;
    Ok(Obj::none())
}

fn elapsed_time(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("elapsed_time(any end)").parse(None, args)?;
    let end = expect(bound.object(0)?)?;
    Obj::float(read(object).elapsed_time(&shared(end))?.into())
}

fn ipc_handle(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("ipc_handle(int device)").parse(None, args)?;
    let index = device_index(bound.int(0)?)?;
    Obj::bytes(&write(object).ipc_handle(index)?)
}

/// Lets the work of a stream from now on wait for an event.
pub(super) fn wait(stream: Stream, event: &Obj) -> Py<()> {
    Ok(stream.wait_event(&shared(expect(event)?))?)
}

/// Makes the type.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_CudaEvent", &crate::py::class::make::<PyEvent>()?)
}
