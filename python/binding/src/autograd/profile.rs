//! What the profiler recorded, for Python.

use crate::args::parser;
use crate::py::{Args, Obj, Py, ffi, method};
use corten_ops::profiler::{self, Change, Event, EventKind, Options};

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_profiler_start", |_m: &Obj, args: Args<'_>| {
            let parser = parser!(
                "_profiler_start(bool record_shapes, bool profile_memory, bool devices=False)"
            );
            let bound = parser.parse(None, args)?;
            let (shapes, memory, devices) = (bound.bool(0)?, bound.bool(1)?, bound.bool(2)?);
            profiler::start(Options { shapes, memory, devices })?;
            Ok(Obj::none())
        }),
        method!("_profiler_stop", |_m: &Obj, _a: Args<'_>| {
            let trace = crate::py::gil::detach(profiler::stop)?;
            let events = Obj::list(trace.events.iter().map(describe))?;
            Obj::tuple([Ok(events), Obj::list(trace.changes.iter().map(describe_change))])
        }),
        method!("_profiler_enter", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_profiler_enter(str name)").parse(None, args)?;
            match profiler::enter(EventKind::Range, bound.str(0)?) {
                Some(place) => Obj::int(place as i64),
                None => Ok(Obj::none()),
            }
        }),
        method!("_profiler_exit", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_profiler_exit(int place)").parse(None, args)?;
            profiler::exit(bound.int(0)? as usize);
            Ok(Obj::none())
        }),
    ]
}

/// Name, kind, start and end in nanoseconds, the place of the event around, shapes, thread, bytes; device,
/// stream, start and end of the work there.
fn describe(event: &Event) -> Py<Obj> {
    let kind = match event.kind {
        EventKind::Operator => "operator",
        EventKind::Node => "node",
        EventKind::Range => "range",
        EventKind::Memory => "memory",
    };
    let parent = event.parent.map_or_else(|| Ok(Obj::none()), |place| Obj::int(place as i64));
    let device = match event.device {
        None => Ok(Obj::none()),
        Some(span) => Obj::int_tuple(&[
            span.device.into(),
            span.stream.into(),
            span.start as i64,
            span.end as i64,
        ]),
    };
    Obj::tuple([
        Obj::str_from(&event.name),
        Obj::str_from(kind),
        Obj::int(event.start as i64),
        Obj::int(event.end as i64),
        parent,
        Obj::tuple(event.shapes.iter().map(|sizes| Obj::int_tuple(sizes))),
        Obj::int(event.thread as i64),
        Obj::int(event.memory),
        device,
    ])
}

/// Time in nanoseconds, the place of the event, address, bytes, bytes in use, bytes taken from the system.
fn describe_change(change: &Change) -> Py<Obj> {
    Obj::tuple([
        Obj::int(change.time as i64),
        Obj::int(change.event as i64),
        Obj::int(change.address as i64),
        Obj::int(change.nbytes),
        Obj::int(change.total_allocated as i64),
        Obj::int(change.total_reserved as i64),
    ])
}
