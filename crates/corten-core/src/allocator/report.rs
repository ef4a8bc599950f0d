//! The reporting hook: tells a profiler about every allocation and free.

use std::sync::RwLock;

use super::stats;
use crate::{Device, allocator::cpu};

/// One event.
///
/// ```
/// use corten_core::allocator::{MemoryReport, set_memory_reporter};
/// use corten_core::{Device, Storage};
/// use std::sync::atomic::{AtomicI64, Ordering};
///
/// static TAKEN: AtomicI64 = AtomicI64::new(0);
///
/// /// Adds up what is taken and given back.
/// fn add(report: &MemoryReport) {
///     TAKEN.fetch_add(report.nbytes, Ordering::Relaxed);
/// }
///
/// set_memory_reporter(Some(add));
/// let storage = Storage::new(1000, Device::CPU)?;
/// set_memory_reporter(None);
/// assert!(TAKEN.load(Ordering::Relaxed) >= 1000);
/// drop(storage);
/// # Ok::<(), corten_core::Error>(())
/// ```
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

/// Receives the events. Must not allocate tensors.
pub type MemoryReporter = fn(&MemoryReport);

static REPORTER: RwLock<Option<MemoryReporter>> = RwLock::new(None);

/// Installs or removes the hook. While one is installed every allocation is slower.
pub fn set_memory_reporter(reporter: Option<MemoryReporter>) {
    *REPORTER.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = reporter;
    cpu::set_mode(cpu::REPORTING, reporter.is_some());
}

#[cold]
pub(super) fn report(address: usize, nbytes: i64, requested: usize, out_of_memory: bool) {
    let reporter = *REPORTER.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(reporter) = reporter {
        let (total_allocated, total_reserved) = stats::totals();
        let device = Device::CPU;
        reporter(&MemoryReport {
            address,
            nbytes,
            requested,
            total_allocated,
            total_reserved,
            device,
            out_of_memory,
        });
    }
}
