//! Host memory that devices reach: registered memory of others, and pinned memory as tensors of a device.

use crate::device::{bound, current_device, resolve};
use crate::driver::{RelaxedCapture, driver, error};
use crate::memory::use_pinned;
use crate::stream::Stream;
use corten_core::{DataPtr, Device, KeySet, LentMemory, Result, Storage, TensorBase, ensure};
use corten_ops::Tensor;
use std::ffi::c_void;

/// CU_POINTER_ATTRIBUTE_MEMORY_TYPE, and its value for memory of the host.
const MEMORY_TYPE: i32 = 2;
const HOST: u32 = 1;
/// CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: where the driver's allocation begins.
const RANGE_START: i32 = 11;

/// Whether the driver knows an address as pinned host memory.
pub(crate) fn is_registered(address: *const u8) -> bool {
    let Ok(driver) = driver() else { return false };
    if bound(current_device()).is_err() {
        return false;
    }
    let mut found = 0_u32;
    let place = (&raw mut found).cast::<c_void>();
    // SAFETY: the driver writes one number, and refuses addresses that it does not know.
    let status = unsafe { (driver.cuPointerGetAttribute)(place, MEMORY_TYPE, address as u64) };
    status == 0 && found == HOST
}

/// The index of the GPU that an address is on; none for memory that CUDA does not know, or that is the host's.
///
/// # Errors
/// `Runtime` without a driver.
pub fn device_of_address(address: u64) -> Result<Option<i8>> {
    /// CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL.
    const ORDINAL: i32 = 9;
    bound(current_device())?;
    let driver = driver()?;
    let (mut kind, mut index) = (0_u32, 0_i32);
    // SAFETY: the driver writes a number each, and refuses addresses that it does not know.
    let status = unsafe {
        let status =
            (driver.cuPointerGetAttribute)((&raw mut kind).cast::<c_void>(), MEMORY_TYPE, address);
        match status {
            0 => (driver.cuPointerGetAttribute)((&raw mut index).cast(), ORDINAL, address),
            _ => status,
        }
    };
    Ok(if status == 0 && kind != HOST { i8::try_from(index).ok() } else { None })
}

/// Pins memory of others, and gives the driver's status: 0 for success. The flags are those of
/// `cudaHostRegister`, which are the driver's.
///
/// # Errors
/// `Runtime` without a driver.
///
/// # Safety
/// The memory must stay until [`unregister_host`].
pub unsafe fn register_host(address: usize, nbytes: usize, flags: u32) -> Result<i32> {
    bound(current_device())?;
    let driver = driver()?;
    let _relaxed = RelaxedCapture::new(driver);
    // SAFETY: the caller's; the driver refuses memory that is not the program's.
    Ok(unsafe { (driver.cuMemHostRegister_v2)(address as *mut c_void, nbytes, flags) })
}

/// Ends what [`register_host`] began, and gives the driver's status.
///
/// # Errors
/// `Runtime` without a driver.
pub fn unregister_host(address: usize) -> Result<i32> {
    bound(current_device())?;
    let driver = driver()?;
    // SAFETY: the driver refuses addresses that are not registered.
    Ok(unsafe { (driver.cuMemHostUnregister)(address as *mut c_void) })
}

/// A share in pinned memory that a device has used.
struct Mapped {
    memory: LentMemory,
    device: i8,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // The memory is not reused before the device has done what it was given.
        let _ = use_pinned(self.memory.start(), Stream::current(self.device));
    }
}

/// A tensor of a device over the memory of a pinned tensor of the host, without a copy: what one of them
/// writes the other one reads, after a synchronisation. A kernel reads it through the bus each time.
///
/// # Errors
/// `Runtime` for a tensor that is not pinned; those of the driver.
pub fn mapped(host: &Tensor, device: i8) -> Result<Tensor> {
    let device = resolve(device);
    let storage = host.storage()?;
    let start = storage.data_ptr();
    ensure!(
        host.device().is_cpu() && crate::is_pinned(start),
        Runtime,
        "mapped: expected a tensor in pinned memory, but the tensor is on {} and not pinned",
        host.device()
    );
    bound(device)?;
    let driver = driver()?;
    let mut address = 0;
    // SAFETY: the driver writes one address.
    error::check(driver, unsafe {
        (driver.cuMemHostGetDevicePointer_v2)(&mut address, start.cast(), 0)
    })?;
    let place = Device::cuda(device);
    let owner = Box::new(Mapped { memory: storage.lend()?, device });
    let memory = DataPtr::with_owner(address as *mut u8, owner, place);
    let storage = Storage::from_data_ptr(memory, storage.nbytes());
    let keys = KeySet::for_tensor(place.device_type, host.layout(), host.dtype());
    let (sizes, strides, offset) = (host.sizes(), host.strides(), host.storage_offset());
    let made = TensorBase::new_with_storage(storage, host.dtype(), keys, &sizes, &strides, offset)?;
    Ok(made.into())
}

/// A name by which other processes can open the driver's allocation around an address, and where in it the
/// address lies.
///
/// # Errors
/// Those of the driver, for instance for memory of an expandable segment.
pub fn ipc_memory_handle(device: i8, address: u64) -> Result<([u8; 64], u64)> {
    bound(device)?;
    let driver = driver()?;
    let (mut start, mut name) = (0_u64, [0; 64]);
    // SAFETY: the driver writes an address and 64 bytes.
    unsafe {
        let place = (&raw mut start).cast::<c_void>();
        error::check(driver, (driver.cuPointerGetAttribute)(place, RANGE_START, address))?;
        error::check(driver, (driver.cuIpcGetMemHandle)(&mut name, start))?;
    }
    Ok((name, address - start))
}

/// Where the memory of another process, by its name, is in this one.
///
/// # Errors
/// Those of the driver.
pub fn open_ipc_memory(device: i8, name: [u8; 64]) -> Result<u64> {
    /// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.
    const LAZY_PEER_ACCESS: u32 = 1;
    bound(device)?;
    let driver = driver()?;
    let mut address = 0;
    // SAFETY: the driver writes one address, and refuses names that no memory has.
    error::check(driver, unsafe {
        (driver.cuIpcOpenMemHandle_v2)(&mut address, name, LAZY_PEER_ACCESS)
    })?;
    Ok(address)
}

/// Gives memory of another process up, after the current stream has done what it has.
///
/// # Errors
/// Those of the driver.
///
/// # Safety
/// Nothing of this process may use the memory any more.
pub unsafe fn close_ipc_memory(device: i8, address: u64) -> Result<()> {
    bound(device)?;
    let driver = driver()?;
    Stream::current(device).wait()?;
    // SAFETY: the caller's.
    error::check(driver, unsafe { (driver.cuIpcCloseMemHandle)(address) })
}

/// Lets NVIDIA's profilers collect, or with `false` stop to.
///
/// # Errors
/// Those of the driver.
pub fn profiler(collects: bool) -> Result<()> {
    bound(current_device())?;
    let driver = driver()?;
    // SAFETY: the functions take nothing.
    let status =
        unsafe { if collects { (driver.cuProfilerStart)() } else { (driver.cuProfilerStop)() } };
    error::check(driver, status)
}
