//! Where storages get their memory: one allocator per device type.

mod classes;
mod cpu;
mod large;
mod local;
#[cfg(all(feature = "numa", target_os = "linux"))]
mod numa;
mod report;
mod stats;
mod system;
mod vectors;

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

pub(crate) use cpu::out_of_memory;
pub use cpu::{ALIGNMENT, CpuAllocator, Fill, empty_cache, set_cache_limit, set_fill};
#[cfg(all(feature = "numa", target_os = "linux"))]
pub use numa::set_numa_enabled;
pub use report::{InstalledReporter, MemoryReport, MemoryReporter, install_memory_reporter};
pub use stats::{MemoryStats, Stat, memory_stats, reset_peak_memory_stats};
pub use vectors::{
    check_memory, try_collect, try_extend, try_push, try_reserve, try_resize, try_to_vec, try_vec,
    try_with_capacity, unwinding,
};

use crate::{DataPtr, Device, DeviceType, Error, Result, Storage, bail, err};

/// A source of memory for one device type.
///
/// # Safety
/// `allocate` must return memory of at least the size asked for, or null for size zero, that stays
/// valid until the `DataPtr` is dropped. Host memory must be aligned to 64 bytes.
pub unsafe trait Allocator: Send + Sync {
    /// Allocates `nbytes` bytes. No bytes give a null pointer that still knows its device.
    fn allocate(&self, nbytes: usize) -> Result<DataPtr>;

    /// As [`allocate`](Self::allocate), on the device of the allocator's type with this index; a negative
    /// one means the current device.
    fn allocate_on(&self, nbytes: usize, _index: i8) -> Result<DataPtr> {
        self.allocate(nbytes)
    }

    /// Copies bytes between two blocks of this allocator's device.
    ///
    /// # Safety
    /// Both blocks must be valid for `nbytes` bytes and must not overlap.
    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize);

    /// A copy of the first `nbytes` bytes of a block in fresh memory.
    ///
    /// # Safety
    /// `source` must be valid for `nbytes` bytes.
    unsafe fn clone_data(&self, source: *const u8, nbytes: usize) -> Result<DataPtr> {
        let copy = self.allocate(nbytes)?;
        if nbytes > 0 {
            // SAFETY: the caller vouches for the source, and the copy is fresh.
            unsafe { self.copy_data(copy.get(), source, nbytes) };
        }
        Ok(copy)
    }
}

/// What is registered for a device type; never freed, since readers take no lock.
#[derive(Clone, Copy)]
struct Entry {
    allocator: &'static dyn Allocator,
    priority: u8,
}

static CPU: Entry = Entry { allocator: &CpuAllocator, priority: 0 };
static META: Entry = Entry { allocator: &MetaAllocator, priority: 0 };

static REGISTRY: [AtomicPtr<Entry>; DeviceType::COUNT] = {
    let mut entries = [const { AtomicPtr::new(std::ptr::null_mut()) }; DeviceType::COUNT];
    entries[DeviceType::Cpu as usize] = AtomicPtr::new((&raw const CPU).cast_mut());
    entries[DeviceType::Meta as usize] = AtomicPtr::new((&raw const META).cast_mut());
    entries
};

/// Makes `allocator` the source of memory of a device type, unless one of higher priority is
/// already set. Returns whether it was taken. Storages keep the allocator they were made with.
pub fn set_allocator(
    device_type: DeviceType,
    allocator: &'static dyn Allocator,
    priority: u8,
) -> bool {
    static SETTING: Mutex<()> = Mutex::new(());
    let _guard = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
    let wins = entry(device_type).is_none_or(|present| priority >= present.priority);
    if wins {
        let new = Box::into_raw(Box::new(Entry { allocator, priority }));
        REGISTRY[device_type as usize].store(new, Ordering::Release);
    }
    wins
}

/// The allocator of a device type.
#[inline]
pub fn get_allocator(device_type: DeviceType) -> Result<&'static dyn Allocator> {
    match entry(device_type) {
        Some(entry) => Ok(entry.allocator),
        None => Err(not_set(device_type)),
    }
}

#[inline]
fn entry(device_type: DeviceType) -> Option<&'static Entry> {
    // SAFETY: entries are never freed.
    unsafe { REGISTRY[device_type as usize].load(Ordering::Acquire).as_ref() }
}

#[cold]
fn not_set(device_type: DeviceType) -> Error {
    match device_type {
        DeviceType::Cuda | DeviceType::Xpu | DeviceType::Mtia => {
            let name = device_type.to_string().to_uppercase();
            err!(
                NoDevice,
                "Torch not compiled with {name} enabled: this build computes on the CPU and cannot use \
                 the device '{device_type}'"
            )
        }
        DeviceType::PrivateUse1 => err!(Runtime, "Allocator for {device_type} is not set."),
        _ => err!(
            NoDevice,
            "PyTorch is not linked with support for {device_type} devices: this build computes on the CPU"
        ),
    }
}

/// What allocates pinned host memory, of the back end of a device that copies from it.
static PINNED: OnceLock<fn(usize) -> Result<Storage>> = OnceLock::new();

/// Says who allocates pinned host memory.
pub fn set_pinned_allocator(allocate: fn(usize) -> Result<Storage>) {
    // The first one stays: there is one back end.
    let _ = PINNED.set(allocate);
}

/// Pinned host memory, arbitrary contents.
///
/// # Errors
/// `Runtime` where no back end has any; those of the back end.
pub fn pinned_storage(nbytes: usize) -> Result<Storage> {
    match PINNED.get() {
        Some(allocate) => allocate(nbytes),
        None => bail!(Runtime, "Need to provide pin_memory allocator to use pin memory."),
    }
}

/// Takes every lock of the CPU allocator.
pub(crate) fn lock_for_fork(guards: &mut Vec<Box<dyn std::any::Any>>) {
    local::lock_for_fork(guards);
    large::lock_for_fork(guards);
    stats::lock_for_fork(guards);
}

/// Gives out null pointers: meta tensors have sizes but no data.
struct MetaAllocator;

// SAFETY: nobody may read or write the data of a meta tensor; null says so.
unsafe impl Allocator for MetaAllocator {
    fn allocate(&self, _: usize) -> Result<DataPtr> {
        Ok(DataPtr::null(Device::META))
    }

    unsafe fn copy_data(&self, _: *mut u8, _: *const u8, _: usize) {}
}
