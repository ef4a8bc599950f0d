//! Memory of devices from outside.

use crate::status::{CortenStatus, check_callback, guard};
use corten::Result;
use corten::core::{Allocator, DataPtr, Device, DeviceType, bail, err, set_allocator};
use std::ffi::c_void;
use std::ptr;

/// Where the memory of a device comes from. Any thread may call its functions, for as long as the program runs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CortenAllocator {
    /// What the functions are called with.
    pub data: *mut c_void,
    /// Allocates `nbytes` bytes, at least one, on the device of a number, -1 for the current one, aligned for
    /// elements of every dtype.
    pub allocate: Option<
        unsafe extern "C" fn(
            data: *mut c_void,
            nbytes: usize,
            index: i32,
            memory: *mut *mut c_void,
        ) -> CortenStatus,
    >,
    /// Frees what `allocate` gave.
    pub free: Option<unsafe extern "C" fn(data: *mut c_void, memory: *mut c_void, nbytes: usize)>,
    /// Copies bytes from one block of the device to another.
    pub copy: Option<
        unsafe extern "C" fn(
            data: *mut c_void,
            destination: *mut c_void,
            source: *const c_void,
            nbytes: usize,
        ),
    >,
}

type Free = unsafe extern "C" fn(data: *mut c_void, memory: *mut c_void, nbytes: usize);

struct Foreign {
    device_type: DeviceType,
    functions: CortenAllocator,
}

// SAFETY: `corten_set_allocator` demands functions that any thread may call.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// A block of memory, freed with the storage that owns it.
struct DeviceBlock {
    data: *mut c_void,
    memory: *mut c_void,
    nbytes: usize,
    free: Free,
}

// SAFETY: as of the allocator that gave it.
unsafe impl Send for DeviceBlock {}
// SAFETY: as above.
unsafe impl Sync for DeviceBlock {}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        // SAFETY: the allocator gave this block, and it is freed once.
        unsafe { (self.free)(self.data, self.memory, self.nbytes) };
    }
}

// SAFETY: `corten_set_allocator` demands that blocks have the size that is asked for until they are freed, which
// their owner in the `DataPtr` does.
unsafe impl Allocator for Foreign {
    fn allocate(&self, nbytes: usize) -> Result<DataPtr> {
        self.allocate_on(nbytes, -1)
    }

    fn allocate_on(&self, nbytes: usize, index: i8) -> Result<DataPtr> {
        let device = Device { device_type: self.device_type, index: index.max(0) };
        if nbytes == 0 {
            return Ok(DataPtr::null(device));
        }
        let CortenAllocator { data, allocate: Some(allocate), free: Some(free), .. } =
            self.functions
        else {
            bail!(Value, "an allocator lacks a function");
        };
        let mut memory = ptr::null_mut();
        // SAFETY: the allocator's author promised that it can be called so.
        let status = unsafe { allocate(data, nbytes, i32::from(index), &raw mut memory) };
        check_callback("an allocator", status)?;
        if memory.is_null() {
            bail!(OutOfMemory, "the allocator of {device} gave no block of {nbytes} bytes");
        }
        let block = DeviceBlock { data, memory, nbytes, free };
        Ok(DataPtr::with_owner(memory.cast(), Box::new(block), device))
    }

    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize) {
        if let Some(copy) = self.functions.copy {
            // SAFETY: the caller's: both blocks are valid for that many bytes and do not overlap.
            unsafe { copy(self.functions.data, destination.cast(), source.cast(), nbytes) };
        }
    }
}

/// Makes an allocator the source of memory of a device type, unless one of higher priority is set. `taken`, unless
/// it is null, says whether it was.
///
/// # Safety
/// `allocator` must be alive and its functions do what they say; `taken` must be null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_set_allocator(
    device_type: i32,
    allocator: *const CortenAllocator,
    priority: u8,
    taken: *mut bool,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let given = unsafe { allocator.as_ref() };
        let functions = *given.ok_or_else(|| err!(Value, "an allocator is null"))?;
        if functions.allocate.is_none() || functions.free.is_none() || functions.copy.is_none() {
            bail!(Value, "an allocator lacks a function");
        }
        let number = i8::try_from(device_type).ok().and_then(DeviceType::from_number);
        let Some(device_type) = number else {
            bail!(Value, "there is no device of type {device_type}");
        };
        // Storages keep their allocator, so it lives as long as the program.
        let made: &'static Foreign = Box::leak(Box::new(Foreign { device_type, functions }));
        let was_taken = set_allocator(device_type, made, priority);
        if !taken.is_null() {
            // SAFETY: the caller's.
            unsafe { taken.write(was_taken) };
        }
        Ok(())
    })
}
