//! A simulated device: memory with a limit, streams whose work is done when the test says so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use corten_cuda::caching::{
    DeviceMemory, RawError, RawHostMem, RawMem, RawStreams, StreamId, VirtualMemory,
};

const MIB: u64 = 1 << 20;
const RESERVATIONS: u64 = 1 << 50;

/// What a stream was given to do and what it has done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
}

#[derive(Default)]
pub(crate) struct State {
    /// Segments, or pinned blocks.
    pub(crate) segments: BTreeMap<u64, u64>,
    /// Address ranges.
    pub(crate) reserved: BTreeMap<u64, u64>,
    /// Granules with memory.
    pub(crate) mapped: BTreeMap<u64, u64>,
    pub(crate) streams: BTreeMap<StreamId, Work>,
}

impl State {
    pub(crate) fn used(&self) -> u64 {
        self.segments.values().sum::<u64>() + self.mapped.values().sum::<u64>()
    }

    /// The driver waits for the device before it takes memory away.
    fn wait(&mut self) {
        self.streams.values_mut().for_each(|work| work.completed = work.submitted);
    }

    /// Whether `[address, address + bytes)` has memory throughout.
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        let mut at = address;
        while at < address + bytes {
            let table = if at >= RESERVATIONS { &self.mapped } else { &self.segments };
            match table.range(..=at).next_back() {
                Some((base, size)) if base + size > at => at = base + size,
                _ => return false,
            }
        }
        true
    }
}

/// What goes wrong on purpose, so that the checks can show that they see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A free never reaches the allocator.
    FreeIsLost,
    /// A block is given back while the program holds it.
    FreedWhileHeld,
    /// A use on another stream is not recorded.
    UseIsNotRecorded,
    /// Events count as complete before their streams get there.
    EventsAreEarly,
    /// Memory goes back to the device while streams still use it.
    ReleaseDoesNotWait,
    /// A new segment begins inside another one.
    SegmentsOverlap,
}

impl Fault {
    pub(crate) const PLANTED: [Self; 6] = [
        Self::FreeIsLost,
        Self::FreedWhileHeld,
        Self::UseIsNotRecorded,
        Self::EventsAreEarly,
        Self::ReleaseDoesNotWait,
        Self::SegmentsOverlap,
    ];
}

/// One device; every method that may not be called during a capture panics then.
pub(crate) struct SimulatedDevice {
    state: Mutex<State>,
    pub(crate) capacity: u64,
    pub(crate) capturing: AtomicBool,
    pub(crate) expandable: bool,
    /// Events that exist.
    pub(crate) events: std::sync::Arc<AtomicUsize>,
    /// Whether events fail to be recorded.
    pub(crate) fail_events: AtomicBool,
    pub(crate) fault: Fault,
}

pub(crate) struct SimulatedEvent {
    stream: StreamId,
    at: u64,
    count: std::sync::Arc<AtomicUsize>,
}

impl Drop for SimulatedEvent {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SimulatedDevice {
    pub(crate) fn new(capacity: u64, expandable: bool) -> Self {
        Self {
            state: Mutex::default(),
            capacity,
            capturing: AtomicBool::new(false),
            expandable,
            events: Default::default(),
            fail_events: AtomicBool::new(false),
            fault: Fault::None,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Gives a stream something to do and returns when it will be done.
    pub(crate) fn launch(&self, stream: StreamId) -> u64 {
        let mut state = self.state();
        let work = state.streams.entry(stream).or_default();
        work.submitted += 1;
        work.submitted
    }

    /// Lets a stream do some of its work.
    pub(crate) fn advance(&self, stream: StreamId, steps: u64) {
        let mut state = self.state();
        let work = state.streams.entry(stream).or_default();
        work.completed = (work.completed + steps).min(work.submitted);
    }

    pub(crate) fn is_done(&self, stream: StreamId, at: u64) -> bool {
        self.state().streams.get(&stream).is_none_or(|work| work.completed >= at)
    }

    fn first_gap(segments: &BTreeMap<u64, u64>, bytes: u64) -> u64 {
        let mut at = 2 * MIB;
        for (base, size) in segments {
            if base - at >= bytes {
                break;
            }
            at = (base + size).next_multiple_of(512);
        }
        at
    }

    fn take(&self, bytes: u64) -> Result<u64, RawError> {
        let mut state = self.state();
        if state.used() + bytes > self.capacity {
            return Err(RawError::OutOfMemory);
        }
        let mut address = Self::first_gap(&state.segments, bytes);
        if self.fault == Fault::SegmentsOverlap
            && let Some((base, _)) = state.segments.last_key_value()
        {
            address = base + 1024;
        }
        state.segments.insert(address, bytes);
        Ok(address)
    }

    fn give(&self, address: u64, bytes: u64) {
        assert!(!self.capturing.load(Ordering::Relaxed), "memory is freed during a capture");
        let mut state = self.state();
        assert_eq!(state.segments.remove(&address), Some(bytes), "freed as it was allocated");
        if self.fault != Fault::ReleaseDoesNotWait {
            state.wait();
        }
    }
}

impl RawStreams for SimulatedDevice {
    type Event = SimulatedEvent;

    fn record_event(&self, _: usize, stream: StreamId) -> Result<SimulatedEvent, RawError> {
        assert!(!self.capturing.load(Ordering::Relaxed), "an event is recorded during a capture");
        if self.fail_events.load(Ordering::Relaxed) {
            return Err(corten_core::err!(Runtime, "CUDA error: unspecified launch failure").into());
        }
        self.events.fetch_add(1, Ordering::Relaxed);
        let at = self.state().streams.entry(stream).or_default().submitted;
        Ok(SimulatedEvent { stream, at, count: self.events.clone() })
    }

    fn query_event(&self, event: &SimulatedEvent) -> Result<bool, RawError> {
        assert!(!self.capturing.load(Ordering::Relaxed), "an event is queried during a capture");
        Ok(self.fault == Fault::EventsAreEarly || self.is_done(event.stream, event.at))
    }

    fn synchronize_event(&self, event: &SimulatedEvent) -> Result<(), RawError> {
        let mut state = self.state();
        let work = state.streams.entry(event.stream).or_default();
        work.completed = work.completed.max(event.at);
        Ok(())
    }

    fn is_capturing(&self, _: usize) -> bool {
        self.capturing.load(Ordering::Relaxed)
    }
}

impl RawMem for SimulatedDevice {
    fn alloc(&self, _: usize, bytes: u64) -> Result<u64, RawError> {
        self.take(bytes)
    }

    fn free(&self, _: usize, address: u64, bytes: u64) -> Result<(), RawError> {
        self.give(address, bytes);
        Ok(())
    }

    fn mem_info(&self, _: usize) -> Result<DeviceMemory, RawError> {
        Ok(DeviceMemory { free: self.capacity - self.state().used(), total: self.capacity })
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        self.expandable.then_some(self)
    }
}

impl VirtualMemory for SimulatedDevice {
    fn reserve(&self, _: usize, bytes: u64) -> Result<u64, RawError> {
        let mut state = self.state();
        let end = state.reserved.last_key_value().map(|(base, size)| base + size);
        let address = end.unwrap_or(RESERVATIONS);
        state.reserved.insert(address, bytes);
        Ok(address)
    }

    fn map(&self, _: usize, address: u64, bytes: u64) -> Result<(), RawError> {
        let mut state = self.state();
        let (base, size) = state.reserved.range(..=address).next_back().expect("reserved first");
        assert!(address + bytes <= base + size, "mapped inside a range");
        if state.used() + bytes > self.capacity {
            return Err(RawError::OutOfMemory);
        }
        assert_eq!(state.mapped.insert(address, bytes), None, "mapped once");
        Ok(())
    }

    fn unmap(&self, _: usize, address: u64, bytes: u64) -> Result<(), RawError> {
        let mut state = self.state();
        assert_eq!(state.mapped.remove(&address), Some(bytes), "unmapped as it was mapped");
        state.wait();
        Ok(())
    }

    fn release(&self, _: usize, address: u64, bytes: u64) -> Result<(), RawError> {
        let mut state = self.state();
        assert_eq!(state.mapped.range(address..address + bytes).count(), 0, "nothing is mapped");
        assert_eq!(state.reserved.remove(&address), Some(bytes), "released as it was reserved");
        Ok(())
    }
}

impl RawHostMem for SimulatedDevice {
    fn alloc_host(&self, bytes: u64) -> Result<u64, RawError> {
        self.take(bytes)
    }

    fn free_host(&self, address: u64, bytes: u64) -> Result<(), RawError> {
        self.give(address, bytes);
        Ok(())
    }
}
