//! What ran when: operators, nodes of the graph, and ranges that programs name.
//!
//! While a thread records, a key on top of all others leads every call of an operator through a
//! kernel that notes its start and its end. Without recording nothing is asked.

use crate::boxed::Stack;
use crate::dispatch::{BoxedCall, set_fallback};
use corten_core::allocator::{InstalledReporter, MemoryReport, install_memory_reporter};
use corten_core::tls::IncludeGuard;
use corten_core::{Dims, DispatchKey, KeySet, Result, bail, clock, ensure};
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

const KEY: DispatchKey = DispatchKey::PreDispatch;

/// What an event was.
///
/// ```
/// use corten::ops::profiler::{self, EventKind, Options};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// profiler::start(Options::default())?;
/// op::exp(&tensor![1.0]?)?;
/// let trace = profiler::stop()?;
/// assert!(trace.events.iter().any(|event| event.kind == EventKind::Operator));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A call of an operator.
    Operator,
    /// A node of the graph during a backward pass.
    Node,
    /// A range of the program.
    Range,
    /// Memory that was taken or given back outside of all others.
    Memory,
}

/// One span of time on one thread.
///
/// ```
/// use corten::ops::profiler::{self, Event, Options};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// profiler::start(Options::default())?;
/// op::exp(&tensor![1.0]?)?;
/// let trace = profiler::stop()?;
/// let exp: Option<&Event> = trace.events.iter().find(|event| event.name == "aten::exp");
/// assert!(exp.is_some_and(|exp| exp.end >= exp.start));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Event {
    /// `aten::add`, the node's name, or the range's.
    pub name: String,
    /// What it was.
    pub kind: EventKind,
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
    /// Bytes that were taken, less those given back, in it and not in those inside of it.
    pub memory: i64,
    /// When a device did its work, where that was asked for and there was any.
    pub device: Option<DeviceSpan>,
}

/// The time from the begin to the end of an event's work on a device, which has a clock of its own.
///
/// ```
/// use corten::ops::profiler::DeviceSpan;
///
/// let span = DeviceSpan { device: 0, stream: 7, start: 100, end: 250 };
/// assert_eq!(span.end - span.start, 150);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpan {
    /// The index of the device.
    pub device: i8,
    /// A number of its stream.
    pub stream: u16,
    /// Nanoseconds from the start of recording.
    pub start: u64,
    /// Nanoseconds from the start of recording.
    pub end: u64,
}

/// A mark in the work of a device.
///
/// ```
/// use corten::ops::profiler::DeviceMark;
/// use std::any::Any;
/// use std::time::Instant;
///
/// /// A device that has done its work when it is asked to.
/// struct Clock(Instant);
///
/// impl DeviceMark for Clock {
///     fn stream(&self) -> (i8, u16) {
///         (0, 0)
///     }
///
///     fn nanoseconds_since(&self, earlier: &dyn DeviceMark) -> Option<i64> {
///         let earlier = earlier.as_any().downcast_ref::<Self>()?;
///         i64::try_from(self.0.duration_since(earlier.0).as_nanos()).ok()
///     }
///
///     fn as_any(&self) -> &dyn Any {
///         self
///     }
/// }
///
/// let (begin, end) = (Clock(Instant::now()), Clock(Instant::now()));
/// assert!(end.nanoseconds_since(&begin).is_some_and(|nanoseconds| nanoseconds >= 0));
/// ```
pub trait DeviceMark: Any {
    /// The device and a number of its stream.
    fn stream(&self) -> (i8, u16);

    /// Nanoseconds from another mark of the device to this one, after the device has reached both.
    fn nanoseconds_since(&self, earlier: &dyn DeviceMark) -> Option<i64>;

    /// The mark itself, for whoever made it.
    fn as_any(&self) -> &dyn Any;
}

/// Marks the present place in the current stream of a device, by default the current one; none where no device
/// is in use.
pub type Marker = fn(Option<i8>) -> Option<Box<dyn DeviceMark>>;

static MARKER: OnceLock<Marker> = OnceLock::new();

/// Says who marks the work of devices.
pub fn set_device_marker(marker: Marker) {
    // The first one stays: there is one back end.
    let _ = MARKER.set(marker);
}

fn mark(device: Option<i8>) -> Option<Box<dyn DeviceMark>> {
    MARKER.get().and_then(|marker| marker(device))
}

/// The begin and the end of an event's work.
struct Marked {
    place: usize,
    begin: Box<dyn DeviceMark>,
    end: Box<dyn DeviceMark>,
}

/// A block of memory that was taken or given back.
///
/// ```
/// use corten::ops::profiler::{self, Change, Options};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// profiler::start(Options { memory: true, ..Default::default() })?;
/// let x = Tensor::zeros([1000])?;
/// let trace = profiler::stop()?;
/// assert!(trace.changes.iter().any(|change: &Change| change.nbytes >= 4000));
/// drop(x);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Nanoseconds from the start of recording.
    pub time: u64,
    /// The event that it happened in: its place among the events.
    pub event: usize,
    /// The block.
    pub address: usize,
    /// The bytes that were asked for; negative when they are given back.
    pub nbytes: i64,
    /// Bytes in use by all threads, this change included.
    pub total_allocated: u64,
    /// Bytes taken from the system.
    pub total_reserved: u64,
}

/// What is recorded besides names and times.
///
/// ```
/// use corten::ops::profiler::{self, Options};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// profiler::start(Options { shapes: true, ..Default::default() })?;
/// op::exp(&tensor![1.0, 2.0]?)?;
/// let trace = profiler::stop()?;
/// assert!(trace.events.iter().any(|event| event.shapes.iter().any(|shape| shape[..] == [2])));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The sizes of the arguments that are tensors.
    pub shapes: bool,
    /// The memory that is taken and given back.
    pub memory: bool,
    /// When devices did the work of operators.
    pub devices: bool,
}

/// What [`stop`] gives.
///
/// ```
/// use corten::ops::profiler::{self, Options, Trace};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// profiler::start(Options::default())?;
/// let trace: Trace = profiler::stop()?;
/// assert!(trace.events.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The events, in the order of their starts.
    pub events: Vec<Event>,
    /// The changes of memory, in their order.
    pub changes: Vec<Change>,
}

struct Recording {
    begin: Duration,
    options: Options,
    changes: Vec<Change>,
    /// How many bytes were asked for, of the blocks that were taken meanwhile.
    requested: HashMap<usize, i64>,
    thread: u64,
    events: Vec<Event>,
    /// The places of the events that have not ended.
    open: Vec<usize>,
    marks: Vec<Marked>,
    /// The first mark of each device, and when it was set.
    bases: Vec<(u64, Box<dyn DeviceMark>)>,
    _included: IncludeGuard,
}

impl Recording {
    fn now(&self) -> u64 {
        u64::try_from(clock::elapsed().saturating_sub(self.begin).as_nanos()).unwrap_or(u64::MAX)
    }

    fn enter(&mut self, name: String, kind: EventKind, shapes: Vec<Dims>) -> usize {
        let (place, parent) = (self.events.len(), self.open.last().copied());
        let start = self.now();
        let thread = self.thread;
        let (memory, device) = (0, None);
        let event = Event { name, kind, start, end: start, parent, shapes, thread, memory, device };
        self.events.push(event);
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

    /// Marks the begin of work on a device; the first mark of each ties its clock to the host's.
    fn begin(&mut self, device: Option<i8>) -> Option<Box<dyn DeviceMark>> {
        let made = mark(device)?;
        let index = made.stream().0;
        if self.bases.iter().all(|(_, base)| base.stream().0 != index) {
            self.bases.push((self.now(), mark(Some(index))?));
        }
        Some(made)
    }

    /// Reads the times of all marks.
    fn read_marks(&mut self) {
        for Marked { place, begin, end } in std::mem::take(&mut self.marks) {
            let (device, stream) = begin.stream();
            let base = self.bases.iter().find(|(_, base)| base.stream().0 == device);
            let since = |mark: &dyn DeviceMark| {
                let (host, base) = base?;
                Some(host.saturating_add_signed(mark.nanoseconds_since(base.as_ref())?))
            };
            if let (Some(start), Some(end)) = (since(begin.as_ref()), since(end.as_ref())) {
                self.events[place].device = Some(DeviceSpan { device, stream, start, end });
            }
        }
    }

    fn change(&mut self, report: &MemoryReport) {
        let nbytes = if report.nbytes < 0 {
            // As in PyTorch, a block that is older than the recording is not seen to go.
            match self.requested.remove(&report.address) {
                Some(nbytes) => -nbytes,
                None => return,
            }
        } else {
            let nbytes = i64::try_from(report.requested).unwrap_or(i64::MAX);
            self.requested.insert(report.address, nbytes);
            nbytes
        };
        let event = match self.open.last() {
            Some(place) => *place,
            None => {
                let place = self.enter("[memory]".to_owned(), EventKind::Memory, Vec::new());
                self.exit(place);
                place
            }
        };
        self.events[event].memory += nbytes;
        self.changes.push(Change {
            time: self.now(),
            event,
            address: report.address,
            nbytes,
            total_allocated: report.total_allocated,
            total_reserved: report.total_reserved,
        });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.options.memory {
            watch_memory(-1);
        }
    }
}

/// Counts the recordings that want to know of memory.
fn watch_memory(change: isize) {
    static WATCHING: Mutex<(isize, Option<InstalledReporter>)> = Mutex::new((0, None));
    let mut watching = WATCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let (count, installed) = &mut *watching;
    *count += change;
    if *count <= 0 {
        *installed = None;
    } else if installed.is_none() {
        *installed = Some(install_memory_reporter(Arc::new(remember)));
    }
}

/// Notes a change of memory by this thread, if it is recorded.
fn remember(report: &MemoryReport) {
    // A thread that ends frees memory after its recording is gone.
    let _ = RECORDING.try_with(|recording| {
        if let Ok(mut recording) = recording.try_borrow_mut() {
            let wanted = recording.as_mut().filter(|recording| recording.options.memory);
            if let (Some(recording), false) = (wanted, report.out_of_memory) {
                recording.change(report);
            }
        }
    });
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
pub fn start(options: Options) -> Result<()> {
    ensure!(!is_recording(), Runtime, "the profiler is recording this thread already");
    if options.memory {
        watch_memory(1);
    }
    RECORDING.set(Some(Recording {
        begin: clock::elapsed(),
        options,
        changes: Vec::new(),
        requested: HashMap::new(),
        thread: THREADS.fetch_add(1, Ordering::Relaxed) + 1,
        events: Vec::new(),
        open: Vec::new(),
        marks: Vec::new(),
        bases: Vec::new(),
        _included: IncludeGuard::new(KeySet::from_key(KEY)),
    }));
    Ok(())
}

/// Ends recording and gives what was recorded.
///
/// # Errors
/// `Runtime` when nothing is recorded.
pub fn stop() -> Result<Trace> {
    match RECORDING.take() {
        Some(mut recording) => {
            recording.exit(0);
            recording.read_marks();
            let events = std::mem::take(&mut recording.events);
            let changes = std::mem::take(&mut recording.changes);
            Ok(Trace { events, changes })
        }
        None => bail!(Runtime, "the profiler is not recording this thread"),
    }
}

/// Whether this thread's events are recorded.
pub fn is_recording() -> bool {
    RECORDING.with_borrow(Option::is_some)
}

/// A range that ends when it is dropped.
///
/// ```
/// use corten::ops::profiler::{self, EventKind, Options, Range};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// profiler::start(Options::default())?;
/// let range: Range = profiler::range(EventKind::Range, || "loading".to_owned());
/// drop(range);
/// assert_eq!(profiler::stop()?.events[0].name, "loading");
/// # Ok(())
/// # }
/// ```
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
pub fn range(kind: EventKind, name: impl FnOnce() -> String) -> Range {
    Range(if is_recording() { enter(kind, &name()) } else { None })
}

/// Opens a range; gives what [`exit`] takes, `None` where the thread is not recorded.
pub fn enter(kind: EventKind, name: &str) -> Option<usize> {
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

/// The device of the first tensor that is not on the host.
fn device_of(stack: &Stack) -> Option<i8> {
    let mut found = None;
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| {
            if tensor.defined() && tensor.device().is_cuda() {
                found.get_or_insert(tensor.device().index);
            }
        });
    }
    found
}

fn observe(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let def = call.op().def();
    let begun = RECORDING.with_borrow_mut(|recording| {
        let recording = recording.as_mut()?;
        let name = format!("{}::{}", def.namespace, def.name);
        // A wrapper that records a node or bumps a version calls the same operator again.
        let inside = recording.open.last().map(|place| &recording.events[*place]);
        if inside.is_some_and(|inside| inside.kind == EventKind::Operator && inside.name == name) {
            return None;
        }
        let mut shapes = Vec::new();
        if recording.options.shapes {
            for value in stack.iter() {
                value.for_each_tensor(&mut |tensor| shapes.push(tensor.sizes()));
            }
        }
        let place = recording.enter(name, EventKind::Operator, shapes);
        let device = if recording.options.devices { device_of(stack) } else { None };
        let begin = recording.options.devices.then(|| recording.begin(device)).flatten();
        Some((place, device.is_some(), begin))
    });
    let result = call.redispatch(stack);
    if let Some((place, on_device, begin)) = begun {
        exit(place);
        if let Some(begin) = begin.filter(|_| on_device || device_of(stack).is_some()) {
            let end = mark(Some(begin.stream().0));
            RECORDING.with_borrow_mut(|recording| {
                if let (Some(recording), Some(end)) = (recording.as_mut(), end) {
                    recording.marks.push(Marked { place, begin, end });
                }
            });
        }
    }
    result
}
