//! Where storages get their memory: one allocator per device type.

mod cpu;

use std::sync::RwLock;

pub use cpu::CpuAllocator;

use crate::{DataPtr, Deleter, DeviceType, Result, err};

/// A source of memory for one device type.
///
/// # Safety
/// `allocate` must return memory of at least the size asked for, or null for size zero, that stays
/// valid until the `DataPtr` is dropped. Host memory must be aligned to 64 bytes.
pub unsafe trait Allocator: Send + Sync {
    /// Allocates `nbytes` bytes. No bytes give a null pointer that still knows its device.
    fn allocate(&self, nbytes: usize) -> Result<DataPtr>;

    /// The deleter of every `DataPtr` of this allocator, if its context is always the data pointer
    /// itself: then memory can travel as a bare pointer.
    fn raw_deleter(&self) -> Option<Deleter> {
        None
    }

    /// Copies bytes between two blocks of this allocator's device.
    ///
    /// # Safety
    /// Both blocks must be valid for `nbytes` bytes and must not overlap.
    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize);
}

struct Entry {
    allocator: Option<&'static dyn Allocator>,
    priority: u8,
}

static REGISTRY: RwLock<[Entry; DeviceType::COUNT]> = RwLock::new({
    let mut entries = [const { Entry { allocator: None, priority: 0 } }; DeviceType::COUNT];
    entries[DeviceType::Cpu as usize].allocator = Some(&CpuAllocator);
    entries[DeviceType::Meta as usize].allocator = Some(&MetaAllocator);
    entries
});

/// Makes `allocator` the source of memory of a device type, unless one of higher priority is
/// already set. Returns whether it was taken.
pub fn set_allocator(
    device_type: DeviceType,
    allocator: &'static dyn Allocator,
    priority: u8,
) -> bool {
    let mut registry = REGISTRY.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let entry = &mut registry[device_type as usize];
    let wins = entry.allocator.is_none() || priority >= entry.priority;
    if wins {
        *entry = Entry { allocator: Some(allocator), priority };
    }
    wins
}

/// The allocator of a device type.
pub fn get_allocator(device_type: DeviceType) -> Result<&'static dyn Allocator> {
    let registry = REGISTRY.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    registry[device_type as usize]
        .allocator
        .ok_or_else(|| err!(Runtime, "Allocator for {device_type} is not set."))
}

/// Gives out null pointers: meta tensors have sizes but no data.
struct MetaAllocator;

// SAFETY: nobody may read or write the data of a meta tensor; null says so.
unsafe impl Allocator for MetaAllocator {
    fn allocate(&self, _: usize) -> Result<DataPtr> {
        Ok(DataPtr::null(crate::Device::META))
    }

    unsafe fn copy_data(&self, _: *mut u8, _: *const u8, _: usize) {}
}
