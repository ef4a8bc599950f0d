//! The reporter: tells a profiler about every allocation and free.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use smallvec::SmallVec;

use super::stats;
use crate::{Device, allocator::cpu};

/// One event.
///
/// ```
/// use corten_core::Device;
/// use corten_core::allocator::MemoryReport;
///
/// /// Whether a block was given back.
/// fn is_free(report: &MemoryReport) -> bool {
///     report.nbytes < 0 && report.device == Device::CPU
/// }
/// let _: fn(&MemoryReport) -> bool = is_free;
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

/// Receives the events, on the thread that allocates or frees. It must not allocate tensors, nor wait for a
/// thread that does.
///
/// ```
/// use corten_core::allocator::{MemoryReport, MemoryReporter};
/// use std::sync::atomic::{AtomicI64, Ordering};
///
/// /// Adds up what is taken and given back.
/// struct Total(AtomicI64);
///
/// impl MemoryReporter for Total {
///     fn report(&self, event: &MemoryReport) {
///         self.0.fetch_add(event.nbytes, Ordering::Relaxed);
///     }
/// }
/// let _: &dyn MemoryReporter = &Total(AtomicI64::new(0));
/// ```
pub trait MemoryReporter: Send + Sync {
    /// Takes note of one event.
    fn report(&self, event: &MemoryReport);
}

impl<F: Fn(&MemoryReport) + Send + Sync> MemoryReporter for F {
    fn report(&self, event: &MemoryReport) {
        self(event);
    }
}

static REPORTERS: RwLock<Vec<(u64, Arc<dyn MemoryReporter>)>> = RwLock::new(Vec::new());

/// A reporter that is told of every allocation and free until this is dropped.
///
/// ```
/// use corten_core::allocator::{MemoryReport, install_memory_reporter};
/// use corten_core::{Device, Storage};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicI64, Ordering};
///
/// let taken = Arc::new(AtomicI64::new(0));
/// let total = taken.clone();
/// let installed = install_memory_reporter(Arc::new(move |event: &MemoryReport| {
///     total.fetch_add(event.nbytes, Ordering::Relaxed);
/// }));
/// let storage = Storage::new(1000, Device::CPU)?;
/// drop(installed);
/// assert!(taken.load(Ordering::Relaxed) >= 1000);
/// drop(storage);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[must_use = "the reporter is removed when this is dropped"]
#[derive(Debug)]
pub struct InstalledReporter(u64);

/// Installs a reporter beside those that are there. While there is one, every allocation is slower.
pub fn install_memory_reporter(reporter: Arc<dyn MemoryReporter>) -> InstalledReporter {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut reporters = REPORTERS.write().unwrap_or_else(PoisonError::into_inner);
    reporters.push((number, reporter));
    cpu::set_mode(cpu::REPORTING, true);
    InstalledReporter(number)
}

impl Drop for InstalledReporter {
    fn drop(&mut self) {
        let removed = {
            let mut reporters = REPORTERS.write().unwrap_or_else(PoisonError::into_inner);
            let place = reporters.iter().position(|(number, _)| *number == self.0);
            let removed = place.map(|place| reporters.remove(place));
            cpu::set_mode(cpu::REPORTING, !reporters.is_empty());
            removed
        };
        // Without the lock: it is code of others.
        drop(removed);
    }
}

#[cold]
pub(super) fn report(address: usize, nbytes: i64, requested: usize, out_of_memory: bool) {
    // Handles of its own, so that a reporter may be installed or removed meanwhile.
    let reporters = {
        let installed = REPORTERS.read().unwrap_or_else(PoisonError::into_inner);
        installed.iter().map(|(_, reporter)| Arc::clone(reporter)).collect::<SmallVec<[_; 2]>>()
    };
    if reporters.is_empty() {
        return;
    }
    let (total_allocated, total_reserved) = stats::totals();
    // A block is reported before it is free for others, and counted after.
    let freed = if nbytes < 0 { nbytes.unsigned_abs() } else { 0 };
    let total_allocated = total_allocated.saturating_sub(freed);
    let device = Device::CPU;
    let event = MemoryReport {
        address,
        nbytes,
        requested,
        total_allocated,
        total_reserved,
        device,
        out_of_memory,
    };
    reporters.iter().for_each(|reporter| reporter.report(&event));
}
