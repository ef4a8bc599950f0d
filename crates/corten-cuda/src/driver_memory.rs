//! The driver as what the caching allocators allocate from.

use crate::caching::{
    DeviceMemory, RawError, RawHostMem, RawMem, RawStreams, StreamId, VirtualMemory,
};
use crate::device::{DeviceGuard, MOST_DEVICES, bound, gpu, mem_get_info};
use crate::driver::{
    AccessDescription, AllocationProperties, DeviceAddress, Driver, Handle, RelaxedCapture, driver,
    error,
};
use corten_core::{Result, err};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The devices of the driver.
#[derive(Default)]
pub(crate) struct DriverMemory {
    /// The handles of memory that is mapped into reserved ranges, by address.
    mapped: Mutex<BTreeMap<u64, u64>>,
}

/// Captures that are under way per device; the allocator must not query events then.
static CAPTURES: [AtomicUsize; MOST_DEVICES] = [const { AtomicUsize::new(0) }; MOST_DEVICES];

/// Says that a capture on a device begins, or with `false` that it has ended.
pub(crate) fn count_capture(device: i8, begins: bool) {
    let count = &CAPTURES[device as usize];
    if begins {
        count.fetch_add(1, Ordering::AcqRel);
    } else {
        count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether a capture on a device is under way.
pub(crate) fn is_capturing(device: i8) -> bool {
    CAPTURES[device as usize].load(Ordering::Acquire) > 0
}

/// CU_EVENT_DISABLE_TIMING.
const DISABLE_TIMING: u32 = 2;

/// Events without times that wait for their next use, per device.
static EVENTS: [Mutex<Vec<Handle>>; MOST_DEVICES] =
    [const { Mutex::new(Vec::new()) }; MOST_DEVICES];

/// A recorded event, which goes back to the pool of its device.
pub(crate) struct PooledEvent {
    device: usize,
    handle: Handle,
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        let mut pool = EVENTS[self.device].lock().unwrap_or_else(PoisonError::into_inner);
        pool.push(self.handle);
    }
}

/// The driver, with the context of a device current.
fn on(device: usize) -> Result<&'static Driver> {
    bound(device as i8)?;
    driver()
}

fn checked(driver: &Driver, status: i32) -> Result<(), RawError> {
    match status {
        error::OUT_OF_MEMORY => Err(RawError::OutOfMemory),
        _ => Ok(error::check(driver, status)?),
    }
}

impl RawStreams for DriverMemory {
    type Event = PooledEvent;

    fn record_event(&self, device: usize, stream: StreamId) -> Result<PooledEvent, RawError> {
        let driver = on(device)?;
        let kept = EVENTS[device].lock().unwrap_or_else(PoisonError::into_inner).pop();
        let handle = match kept {
            Some(handle) => handle,
            None => {
                let mut handle = Handle::NULL;
                // SAFETY: the driver writes one handle.
                checked(driver, unsafe { (driver.cuEventCreate)(&mut handle, DISABLE_TIMING) })?;
                handle
            }
        };
        let event = PooledEvent { device, handle };
        let stream = Handle(stream.0 as *mut c_void);
        // SAFETY: the event exists, and streams of tensors are never destroyed while they are used.
        checked(driver, unsafe { (driver.cuEventRecord)(handle, stream) })?;
        Ok(event)
    }

    fn query_event(&self, event: &PooledEvent) -> Result<bool, RawError> {
        let driver = on(event.device)?;
        // SAFETY: the event exists.
        Ok(error::is_ready(driver, unsafe { (driver.cuEventQuery)(event.handle) })?)
    }

    fn synchronize_event(&self, event: &PooledEvent) -> Result<(), RawError> {
        let driver = on(event.device)?;
        // SAFETY: the event exists.
        checked(driver, unsafe { (driver.cuEventSynchronize)(event.handle) })
    }

    fn is_capturing(&self, device: usize) -> bool {
        CAPTURES[device].load(Ordering::Acquire) > 0
    }
}

impl RawMem for DriverMemory {
    fn alloc(&self, device: usize, bytes: u64) -> Result<u64, RawError> {
        let driver = on(device)?;
        let _relaxed = RelaxedCapture::new(driver);
        let mut address = 0;
        // SAFETY: the driver writes one address.
        checked(driver, unsafe { (driver.cuMemAlloc_v2)(&mut address, bytes as usize) })?;
        Ok(address)
    }

    fn free(&self, device: usize, address: u64, _bytes: u64) -> Result<(), RawError> {
        let driver = on(device)?;
        // SAFETY: the address came from `alloc`, and the allocator has given up all blocks in it.
        checked(driver, unsafe { (driver.cuMemFree_v2)(address) })
    }

    fn mem_info(&self, device: usize) -> Result<DeviceMemory, RawError> {
        let (free, total) = mem_get_info(device as i8)?;
        Ok(DeviceMemory { free: free as u64, total: total as u64 })
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        Some(self)
    }
}

impl DriverMemory {
    fn mapped(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, u64>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VirtualMemory for DriverMemory {
    fn reserve(&self, device: usize, bytes: u64) -> Result<u64, RawError> {
        let driver = on(device)?;
        let mut address = 0;
        // SAFETY: the driver writes one address.
        let status = unsafe { (driver.cuMemAddressReserve)(&mut address, bytes as usize, 0, 0, 0) };
        checked(driver, status)?;
        Ok(address)
    }

    fn map(&self, device: usize, address: u64, bytes: u64) -> Result<(), RawError> {
        let driver = on(device)?;
        let number = gpu(device as i8)?.handle;
        let _relaxed = RelaxedCapture::new(driver);
        let properties = AllocationProperties::of_device(number);
        let access = AccessDescription::of_device(number);
        let (mut handle, bytes) = (0, bytes as usize);
        // SAFETY: the range is reserved; the driver reads the structures and writes one handle.
        unsafe {
            checked(driver, (driver.cuMemCreate)(&mut handle, bytes, &properties, 0))?;
            if let Err(error) = checked(driver, (driver.cuMemMap)(address, bytes, 0, handle, 0)) {
                (driver.cuMemRelease)(handle);
                return Err(error);
            }
            self.mapped().insert(address, handle);
            checked(driver, (driver.cuMemSetAccess)(address, bytes, &access, 1))
        }
    }

    fn unmap(&self, device: usize, address: u64, bytes: u64) -> Result<(), RawError> {
        let driver = on(device)?;
        let Some(handle) = self.mapped().remove(&address) else {
            return Err(err!(Internal, "memory is unmapped that is not mapped").into());
        };
        // SAFETY: the range was mapped with the handle; nobody uses it, since the device has been waited for.
        unsafe {
            checked(driver, (driver.cuCtxSynchronize)())?;
            checked(driver, (driver.cuMemUnmap)(address, bytes as usize))?;
            checked(driver, (driver.cuMemRelease)(handle))
        }
    }

    fn release(&self, device: usize, address: u64, bytes: u64) -> Result<(), RawError> {
        let driver = on(device)?;
        // SAFETY: the range was reserved with this size, and nothing of it is mapped.
        checked(driver, unsafe { (driver.cuMemAddressFree)(address, bytes as usize) })
    }
}

/// CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP: pinned for all devices, and in their addresses.
const PORTABLE: u32 = 3;

impl RawHostMem for DriverMemory {
    fn alloc_host(&self, bytes: u64) -> Result<u64, RawError> {
        let _guard = DeviceGuard::new(-1)?;
        let driver = on(crate::current_device() as usize)?;
        let _relaxed = RelaxedCapture::new(driver);
        let mut address: *mut c_void = std::ptr::null_mut();
        // SAFETY: the driver writes one address.
        let status = unsafe { (driver.cuMemHostAlloc)(&mut address, bytes as usize, PORTABLE) };
        checked(driver, status)?;
        Ok(address.addr() as DeviceAddress)
    }

    fn free_host(&self, address: u64, _bytes: u64) -> Result<(), RawError> {
        let driver = on(crate::current_device() as usize)?;
        // SAFETY: the address came from `alloc_host`, and its blocks are given up.
        checked(driver, unsafe { (driver.cuMemFreeHost)(address as *mut c_void) })
    }
}
