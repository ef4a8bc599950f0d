//! Counting what is allocated and kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One number over time.
///
/// ```
/// let stats = corten_core::memory_stats();
/// assert!(stats.allocated_bytes.peak >= stats.allocated_bytes.current);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Now.
    pub current: u64,
    /// The highest value since the start or the last reset.
    pub peak: u64,
    /// The sum of all increases.
    pub allocated: u64,
    /// The sum of all decreases.
    pub freed: u64,
}

/// What the CPU allocator has done so far.
///
/// ```
/// use corten_core::{Device, Storage, memory_stats};
///
/// let before = memory_stats().allocated_bytes.current;
/// let storage = Storage::new(1 << 20, Device::CPU)?;
/// assert!(memory_stats().allocated_bytes.current >= before + (1 << 20));
/// drop(storage);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes in use.
    pub allocated_bytes: Stat,
    /// Blocks in use.
    pub allocation: Stat,
    /// Bytes taken from the system: in use or kept for reuse.
    pub reserved_bytes: Stat,
    /// Blocks taken from the system.
    pub segment: Stat,
    /// Allocations that failed.
    pub num_ooms: u64,
}

/// Counters of one thread; only the sums over all threads have a meaning.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) allocated_bytes: AtomicU64,
    pub(super) freed_bytes: AtomicU64,
    pub(super) allocations: AtomicU64,
    pub(super) frees: AtomicU64,
}

/// Adds to a counter that only this thread writes.
#[inline(always)]
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl Counters {
    pub(super) const fn new() -> Self {
        Self {
            allocated_bytes: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn count_allocation(&self, nbytes: usize) {
        add(&self.allocated_bytes, nbytes as u64);
        add(&self.allocations, 1);
    }

    #[inline(always)]
    pub(super) fn count_free(&self, nbytes: usize) {
        add(&self.freed_bytes, nbytes as u64);
        add(&self.frees, 1);
    }
}

/// The shared part. `shared` counts what threads without counters do.
struct Ledger {
    threads: Vec<&'static Counters>,
    idle: Vec<&'static Counters>,
    reserved: Stat,
    segments: Stat,
    peak_bytes: u64,
    peak_blocks: u64,
    ooms: u64,
}

static SHARED: Counters = Counters::new();
static LEDGER: Mutex<Ledger> = Mutex::new(Ledger {
    threads: Vec::new(),
    idle: Vec::new(),
    reserved: Stat { current: 0, peak: 0, allocated: 0, freed: 0 },
    segments: Stat { current: 0, peak: 0, allocated: 0, freed: 0 },
    peak_bytes: 0,
    peak_blocks: 0,
    ooms: 0,
});

fn ledger() -> MutexGuard<'static, Ledger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of the ledger.
pub(super) fn lock_for_fork(guards: &mut Vec<Box<dyn std::any::Any>>) {
    guards.push(Box::new(ledger()));
}

/// Counters for a new thread: those of one that has ended, or new ones.
pub(super) fn enlist() -> &'static Counters {
    crate::fork::prepare_for_forks();
    let mut ledger = ledger();
    if let Some(counters) = ledger.idle.pop() {
        return counters;
    }
    let counters: &'static Counters = Box::leak(Box::new(Counters::new()));
    ledger.threads.push(counters);
    counters
}

/// Gives the counters of an ending thread to a later one.
pub(super) fn delist(counters: &'static Counters) {
    ledger().idle.push(counters);
}

/// Counts an allocation by a thread that has no counters any more.
pub(super) fn count_shared_allocation(nbytes: usize) {
    SHARED.allocated_bytes.fetch_add(nbytes as u64, Ordering::Relaxed);
    SHARED.allocations.fetch_add(1, Ordering::Relaxed);
}

/// Counts a free by a thread that has no counters any more.
pub(super) fn count_shared_free(nbytes: usize) {
    SHARED.freed_bytes.fetch_add(nbytes as u64, Ordering::Relaxed);
    SHARED.frees.fetch_add(1, Ordering::Relaxed);
}

/// Counts a block taken from the system.
pub(super) fn count_segment(nbytes: usize) {
    let mut ledger = ledger();
    ledger.reserved.grow(nbytes as u64);
    ledger.segments.grow(1);
    ledger.refresh_peaks();
}

/// Counts a block given back to the system.
pub(super) fn uncount_segment(nbytes: usize) {
    let mut ledger = ledger();
    ledger.reserved.shrink(nbytes as u64);
    ledger.segments.shrink(1);
}

/// Counts a failed allocation.
pub(super) fn count_oom() {
    ledger().ooms += 1;
}

/// Looks at the peaks; called by slow paths.
pub(super) fn refresh_peaks() {
    ledger().refresh_peaks();
}

/// Bytes in use and bytes taken from the system, as of now.
pub(super) fn totals() -> (u64, u64) {
    let ledger = ledger();
    let (bytes, _) = ledger.in_use();
    (bytes.current, ledger.reserved.current)
}

impl Stat {
    fn grow(&mut self, amount: u64) {
        self.current += amount;
        self.allocated += amount;
        self.peak = self.peak.max(self.current);
    }

    fn shrink(&mut self, amount: u64) {
        self.current = self.current.saturating_sub(amount);
        self.freed += amount;
    }

    fn between(allocated: u64, freed: u64, peak: u64) -> Self {
        let current = allocated.saturating_sub(freed);
        Self { current, peak: peak.max(current), allocated, freed }
    }
}

impl Ledger {
    fn in_use(&self) -> (Stat, Stat) {
        let all = || self.threads.iter().copied().chain([&SHARED]);
        let sum = |pick: fn(&Counters) -> &AtomicU64| -> u64 {
            all().map(|counters| pick(counters).load(Ordering::Relaxed)).sum()
        };
        // Freed sums are read first: a block counted there is already counted as allocated.
        let (freed, frees) = (sum(|c| &c.freed_bytes), sum(|c| &c.frees));
        let (allocated, allocations) = (sum(|c| &c.allocated_bytes), sum(|c| &c.allocations));
        (
            Stat::between(allocated, freed, self.peak_bytes),
            Stat::between(allocations, frees, self.peak_blocks),
        )
    }

    fn refresh_peaks(&mut self) {
        let (bytes, blocks) = self.in_use();
        self.peak_bytes = bytes.peak;
        self.peak_blocks = blocks.peak;
    }
}

/// What the CPU allocator has done so far.
pub fn memory_stats() -> MemoryStats {
    let mut ledger = ledger();
    ledger.refresh_peaks();
    let (allocated_bytes, allocation) = ledger.in_use();
    MemoryStats {
        allocated_bytes,
        allocation,
        reserved_bytes: ledger.reserved,
        segment: ledger.segments,
        num_ooms: ledger.ooms,
    }
}

/// Makes the present values the peaks.
pub fn reset_peak_memory_stats() {
    let mut ledger = ledger();
    let (bytes, blocks) = ledger.in_use();
    ledger.peak_bytes = bytes.current;
    ledger.peak_blocks = blocks.current;
    ledger.reserved.peak = ledger.reserved.current;
    ledger.segments.peak = ledger.segments.current;
}
