//! Device memory as the tensors' allocator sees it, and copies between device and host.

use crate::device::{bound, current_device};
use crate::driver::{DeviceAddress, driver, error};
use crate::stream::Stream;
use corten_core::{Allocator, DataPtr, Device, Result};
use std::ffi::c_void;

/// The allocator of CUDA devices.
pub(crate) struct CudaAllocator;

struct Block {
    device: i8,
    address: DeviceAddress,
}

impl Drop for Block {
    fn drop(&mut self) {
        if let (Ok(_), Ok(driver)) = (bound(self.device), driver()) {
            // SAFETY: the block came from `cuMemAlloc` and is used no more by the host; the driver waits
            // for the work that uses it.
            unsafe { (driver.cuMemFree_v2)(self.address) };
        }
    }
}

// SAFETY: `allocate_on` returns memory of the size asked for that its owner frees.
unsafe impl Allocator for CudaAllocator {
    fn allocate(&self, nbytes: usize) -> Result<DataPtr> {
        self.allocate_on(nbytes, current_device())
    }

    fn allocate_on(&self, nbytes: usize, index: i8) -> Result<DataPtr> {
        let index = if index < 0 { current_device() } else { index };
        let device = Device::cuda(index);
        bound(index)?;
        if nbytes == 0 {
            return Ok(DataPtr::null(device));
        }
        let driver = driver()?;
        let mut address = 0;
        // SAFETY: the driver writes one address.
        error::check(driver, unsafe { (driver.cuMemAlloc_v2)(&mut address, nbytes) })?;
        let block = Block { device: index, address };
        Ok(DataPtr::with_owner(address as *mut u8, Box::new(block), device))
    }

    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize) {
        let stream = Stream::current(-1);
        // An error of the driver stays with the context, and the next call that can fail reports it.
        // SAFETY: the caller's: both blocks have so many bytes.
        let _ = unsafe { copy_on_device(stream, destination as u64, source as u64, nbytes) };
    }
}

/// Copies between blocks of one device, in order with the stream's work.
///
/// # Safety
/// Both must have `nbytes` bytes.
pub(crate) unsafe fn copy_on_device(
    stream: Stream,
    to: DeviceAddress,
    from: DeviceAddress,
    nbytes: usize,
) -> Result<()> {
    bound(stream.device())?;
    let driver = driver()?;
    // SAFETY: the caller's.
    error::check(driver, unsafe {
        (driver.cuMemcpyDtoDAsync_v2)(to, from, nbytes, stream.handle())
    })
}

/// Copies from host memory to a device. Pageable memory has been read when this returns; pinned memory
/// is read when the stream gets there.
///
/// # Safety
/// Both must have `nbytes` bytes; pinned memory must stay until then.
pub(crate) unsafe fn copy_to_device(
    stream: Stream,
    to: DeviceAddress,
    from: *const u8,
    nbytes: usize,
) -> Result<()> {
    bound(stream.device())?;
    let driver = driver()?;
    let from = from.cast::<c_void>();
    // SAFETY: the caller's.
    error::check(driver, unsafe {
        (driver.cuMemcpyHtoDAsync_v2)(to, from, nbytes, stream.handle())
    })
}

/// Copies from a device to host memory, which is complete when the stream has got there.
///
/// # Safety
/// As [`copy_to_device`].
pub(crate) unsafe fn copy_to_host(
    stream: Stream,
    to: *mut u8,
    from: DeviceAddress,
    nbytes: usize,
) -> Result<()> {
    bound(stream.device())?;
    let driver = driver()?;
    let to = to.cast::<c_void>();
    // SAFETY: the caller's.
    error::check(driver, unsafe {
        (driver.cuMemcpyDtoHAsync_v2)(to, from, nbytes, stream.handle())
    })
}

/// Copies between blocks of two devices, in order with a stream of the first one.
///
/// # Safety
/// Both must have `nbytes` bytes.
pub(crate) unsafe fn copy_between_devices(
    stream: Stream,
    to: DeviceAddress,
    (from, source): (DeviceAddress, i8),
    nbytes: usize,
) -> Result<()> {
    let source = crate::device::gpu(source)?.context;
    let target = bound(stream.device())?.context;
    let driver = driver()?;
    // SAFETY: the caller's.
    let status =
        unsafe { (driver.cuMemcpyPeerAsync)(to, target, from, source, nbytes, stream.handle()) };
    error::check(driver, status)
}

/// Fills bytes with one value.
///
/// # Safety
/// There must be `nbytes` bytes.
pub(crate) unsafe fn set_bytes(
    stream: Stream,
    to: DeviceAddress,
    value: u8,
    nbytes: usize,
) -> Result<()> {
    bound(stream.device())?;
    let driver = driver()?;
    // SAFETY: the caller's.
    error::check(driver, unsafe { (driver.cuMemsetD8Async)(to, value, nbytes, stream.handle()) })
}
