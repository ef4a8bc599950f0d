//! The reporter: tells a profiler about every allocation and free.

use std::sync::{Arc, PoisonError, RwLock};

use super::stats;
use crate::{Device, allocator::cpu};

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// The block.
    pub address: usize,
    /// The size of the block; negative when it is freed.
    pub nbytes: i64,
    /// The bytes that were asked for; 0 when the block is freed.
    pub requested: usize,
    /// Bytes in use, this event included.
    pub total_allocated: u64,
    /// Bytes taken from the system.
    pub total_reserved: u64,
    /// The device.
    pub device: Device,
    /// Whether the allocation failed.
    pub out_of_memory: bool,
}

/// Receives the events, on the thread that allocates or frees. It must not allocate tensors, nor wait for a
/// thread that does.
pub trait MemoryReporter: Send + Sync {
    /// Takes note of one event.
    fn report(&self, event: &MemoryReport);
}

impl<F: Fn(&MemoryReport) + Send + Sync> MemoryReporter for F {
    fn report(&self, event: &MemoryReport) {
        self(event);
    }
}

static REPORTER: RwLock<Option<Arc<dyn MemoryReporter>>> = RwLock::new(None);

/// Installs or removes the reporter, and gives the one that was. While one is installed every allocation is
/// slower.
pub fn set_memory_reporter(
    reporter: Option<Arc<dyn MemoryReporter>>,
) -> Option<Arc<dyn MemoryReporter>> {
    let installed = reporter.is_some();
    let mut present = REPORTER.write().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *present, reporter);
    cpu::set_mode(cpu::REPORTING, installed);
    before
}

#[cold]
pub(super) fn report(address: usize, nbytes: i64, requested: usize, out_of_memory: bool) {
    // A handle of its own: the reporter may be exchanged meanwhile.
    let reporter = REPORTER.read().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(reporter) = reporter else { return };
    let (total_allocated, total_reserved) = stats::totals();
    reporter.report(&MemoryReport {
        address,
        nbytes,
        requested,
        total_allocated,
        total_reserved,
        device: Device::CPU,
        out_of_memory,
    });
}
