//! Host memory: what the allocator has done, its cache, and the events of a reporter.

use crate::args::parser;
use crate::py::errors::{not_implemented_error, runtime_error};
use crate::py::{Args, Obj, Py, ffi, method};
use corten::memory::{InstalledReporter, MemoryReport, Stat};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The events since they were last taken, at most so many.
struct Events {
    kept: VecDeque<MemoryReport>,
    limit: usize,
    dropped: u64,
    installed: Option<InstalledReporter>,
}

// Allocations happen on any thread, with and without the interpreter's lock: events are kept here until
// Python takes them.
static EVENTS: Mutex<Events> =
    Mutex::new(Events { kept: VecDeque::new(), limit: 0, dropped: 0, installed: None });

fn note(event: &MemoryReport) {
    let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if events.kept.len() >= events.limit || events.kept.try_reserve(1).is_err() {
        events.kept.pop_front();
        events.dropped += 1;
    }
    if events.limit > 0 {
        events.kept.push_back(*event);
    }
}

/// Begins to keep events, at most `limit` of them, or ends it and drops those that are left.
fn watch(limit: usize) {
    let installed = (limit > 0).then(|| corten::memory::install_reporter(Arc::new(note)));
    let before = {
        let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
        events.limit = limit;
        events.kept = VecDeque::new();
        events.dropped = 0;
        std::mem::replace(&mut events.installed, installed)
    };
    drop(before);
}

/// The events since the last call as tuples, and how many were dropped.
fn take_events() -> Py<Obj> {
    let (events, dropped) = {
        let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut events.kept), std::mem::take(&mut events.dropped))
    };
    let as_int = |value: u64| Obj::int(i64::try_from(value).unwrap_or(i64::MAX));
    let rows = events.iter().map(|event| {
        Obj::tuple([
            as_int(event.address as u64),
            Obj::int(event.nbytes),
            as_int(event.requested as u64),
            as_int(event.total_allocated),
            as_int(event.total_reserved),
            Ok(Obj::bool(event.out_of_memory)),
        ])
    });
    Obj::tuple([Obj::list(rows), as_int(dropped)])
}

fn stats() -> Py<Obj> {
    let stats = corten::memory::stats();
    let result = Obj::dict()?;
    let set = |name: &str, value: u64| {
        let value = Obj::int(i64::try_from(value).unwrap_or(i64::MAX))?;
        result.dict_set(&Obj::str_from(name)?, &value)
    };
    let counts: [(&str, Stat); 4] = [
        ("allocated_bytes", stats.allocated_bytes),
        ("allocation", stats.allocation),
        ("reserved_bytes", stats.reserved_bytes),
        ("segment", stats.segment),
    ];
    for (name, stat) in counts {
        set(&format!("{name}.all.current"), stat.current)?;
        set(&format!("{name}.all.peak"), stat.peak)?;
        set(&format!("{name}.all.allocated"), stat.allocated)?;
        set(&format!("{name}.all.freed"), stat.freed)?;
    }
    set("num_ooms", stats.num_ooms)?;
    Ok(result)
}

fn set_numa_local(args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cpu_setNumaLocal(bool enabled)").parse(None, args)?;
    let enabled = bound.bool(0)?;
    if corten::memory::set_numa_local(enabled).is_err() {
        return Err(not_implemented_error(
            "set_numa_local: this build has no support for NUMA: it is the feature `numa`, for Linux",
        ));
    }
    Ok(Obj::none())
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cpu_memoryStats", |_m: &Obj, _a: Args<'_>| stats()),
        method!("_cpu_resetPeakMemoryStats", |_m: &Obj, _a: Args<'_>| {
            corten::memory::reset_peak_stats();
            Ok(Obj::none())
        }),
        method!("_cpu_emptyCache", |_m: &Obj, _a: Args<'_>| {
            corten::memory::empty_cache();
            Ok(Obj::none())
        }),
        method!("_cpu_setCacheLimit", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cpu_setCacheLimit(int nbytes)").parse(None, args)?;
            let Ok(nbytes) = usize::try_from(bound.int(0)?) else {
                return Err(runtime_error("the cache limit must be a size in bytes"));
            };
            corten::memory::set_cache_limit(nbytes)?;
            Ok(Obj::none())
        }),
        method!("_cpu_watchMemory", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cpu_watchMemory(int limit)").parse(None, args)?;
            watch(usize::try_from(bound.int(0)?).unwrap_or(0));
            Ok(Obj::none())
        }),
        method!("_cpu_takeMemoryEvents", |_m: &Obj, _a: Args<'_>| take_events()),
        method!("_cpu_setNumaLocal", |_m: &Obj, args: Args<'_>| set_numa_local(args)),
    ]
}
