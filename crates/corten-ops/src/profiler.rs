//! What ran when: operators, nodes of the graph, and ranges that programs name.
//!
//! While a thread records, a key on top of all others leads every call of an operator through a
//! kernel that notes its start and its end. Without recording nothing is asked.

use crate::boxed::Stack;
use crate::dispatch::{BoxedCall, set_fallback};
use corten_core::tls::IncludeGuard;
use corten_core::{Dims, DispatchKey, KeySet, Result, bail, ensure};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const KEY: DispatchKey = DispatchKey::PreDispatch;

/// What an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call of an operator.
    Operator,
    /// A node of the graph during a backward pass.
    Node,
    /// A range of the program.
    Range,
}

/// One span of time on one thread.
#[derive(Clone, Debug)]
pub struct Event {
    /// `aten::add`, the node's name, or the range's.
    pub name: String,
    /// What it was.
    pub kind: Kind,
    /// Nanoseconds from the start of recording.
    pub start: u64,
    /// Nanoseconds from the start of recording.
    pub end: u64,
    /// The event that this one is part of: its place among the events.
    pub parent: Option<usize>,
    /// The sizes of the arguments that are tensors, where they were asked for.
    pub shapes: Vec<Dims>,
    /// The thread that recorded it, from 1.
    pub thread: u64,
}

struct Recording {
    begin: Instant,
    shapes: bool,
    thread: u64,
    events: Vec<Event>,
    /// The places of the events that have not ended.
    open: Vec<usize>,
    _included: IncludeGuard,
}

impl Recording {
    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn enter(&mut self, name: String, kind: Kind, shapes: Vec<Dims>) -> usize {
        let (place, parent) = (self.events.len(), self.open.last().copied());
        let start = self.now();
        let thread = self.thread;
        self.events.push(Event { name, kind, start, end: start, parent, shapes, thread });
        self.open.push(place);
        place
    }

    /// Ends an event and those inside of it that were left open.
    fn exit(&mut self, place: usize) {
        let now = self.now();
        while let Some(open) = self.open.pop_if(|open| *open >= place) {
            self.events[open].end = now;
        }
    }
}

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Registers the kernel that records.
pub(crate) fn register() {
    set_fallback(KEY, Arc::new(observe));
}

/// Begins to record this thread's events.
///
/// # Errors
/// `Runtime` when it is recorded already.
pub fn start(shapes: bool) -> Result<()> {
    ensure!(!is_recording(), Runtime, "the profiler is recording this thread already");
    RECORDING.set(Some(Recording {
        begin: Instant::now(),
        shapes,
        thread: THREADS.fetch_add(1, Ordering::Relaxed) + 1,
        events: Vec::new(),
        open: Vec::new(),
        _included: IncludeGuard::new(KeySet::from_key(KEY)),
    }));
    Ok(())
}

/// Ends recording and gives what was recorded, in the order of the starts.
///
/// # Errors
/// `Runtime` when nothing is recorded.
pub fn stop() -> Result<Vec<Event>> {
    match RECORDING.take() {
        Some(mut recording) => {
            recording.exit(0);
            Ok(recording.events)
        }
        None => bail!(Runtime, "the profiler is not recording this thread"),
    }
}

/// Whether this thread's events are recorded.
pub fn is_recording() -> bool {
    RECORDING.with_borrow(Option::is_some)
}

/// A range that ends when it is dropped.
#[must_use]
pub struct Range(Option<usize>);

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            exit(place);
        }
    }
}

/// A range until the end of the scope, where the thread is recorded. `name` is asked for only then.
pub fn range(kind: Kind, name: impl FnOnce() -> String) -> Range {
    Range(if is_recording() { enter(kind, &name()) } else { None })
}

/// Opens a range; gives what [`exit`] takes, `None` where the thread is not recorded.
pub fn enter(kind: Kind, name: &str) -> Option<usize> {
    RECORDING.with_borrow_mut(|recording| {
        recording.as_mut().map(|recording| recording.enter(name.to_owned(), kind, Vec::new()))
    })
}

/// Ends a range, and those inside of it that were left open.
pub fn exit(place: usize) {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording.as_mut() {
            recording.exit(place);
        }
    });
}

fn observe(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let def = call.op().def();
    let begun = RECORDING.with_borrow_mut(|recording| {
        let recording = recording.as_mut()?;
        let name = format!("{}::{}", def.namespace, def.name);
        // A wrapper that records a node or bumps a version calls the same operator again.
        let inside = recording.open.last().map(|place| &recording.events[*place]);
        if inside.is_some_and(|inside| inside.kind == Kind::Operator && inside.name == name) {
            return None;
        }
        let mut shapes = Vec::new();
        if recording.shapes {
            for value in stack.iter() {
                value.for_each_tensor(&mut |tensor| shapes.push(tensor.sizes()));
            }
        }
        Some(recording.enter(name, Kind::Operator, shapes))
    });
    let result = call.redispatch(stack);
    if let Some(place) = begun {
        exit(place);
    }
    result
}
