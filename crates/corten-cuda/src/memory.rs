//! Device memory and pinned memory as tensors have them, and copies between device and host.

use crate::caches::{DeviceCache, PinnedCache};
use crate::caching::{AllocConfig, CachingAllocator, PinnedAllocator, StreamId};
use crate::device::{MOST_DEVICES, bound, current_device};
use crate::driver::{DeviceAddress, RelaxedCapture, driver, error};
use crate::driver_memory::DriverMemory;
use crate::host_memory::is_registered;
use crate::stream::Stream;
use corten_core::{Allocator, DataPtr, Device, FreeContext, Result, Storage, config, ensure};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The allocator of CUDA devices.
pub(crate) struct CudaAllocator;

/// The settings in `PYTORCH_ALLOC_CONF`, or in `PYTORCH_CUDA_ALLOC_CONF`.
fn settings() -> Result<AllocConfig> {
    let text = config::var("PYTORCH_ALLOC_CONF").or_else(|| config::var("PYTORCH_CUDA_ALLOC_CONF"));
    AllocConfig::default().parse_over(&text.unwrap_or_default())
}

/// The caching allocator of all devices.
///
/// # Errors
/// `Value` for settings in the environment that are none.
pub fn device_memory() -> Result<&'static DeviceCache> {
    static CACHE: OnceLock<DeviceCache> = OnceLock::new();
    if let Some(cache) = CACHE.get() {
        return Ok(cache);
    }
    let settings = settings()?;
    let made = || CachingAllocator::new(DriverMemory::default(), MOST_DEVICES, settings);
    Ok(CACHE.get_or_init(|| DeviceCache(made())))
}

/// The caching allocator of pinned host memory.
///
/// # Errors
/// As [`device_memory`].
pub fn pinned_memory() -> Result<&'static PinnedCache> {
    static CACHE: OnceLock<PinnedCache> = OnceLock::new();
    if let Some(cache) = CACHE.get() {
        return Ok(cache);
    }
    let settings = settings()?;
    let made = || PinnedAllocator::new(DriverMemory::default(), settings);
    Ok(CACHE.get_or_init(|| PinnedCache(made())))
}

/// Addresses of blocks are multiples of 512: the device's number fits below.
const DEVICE_BITS: usize = 511;

static GIVE_BACK: FreeContext = FreeContext::new(give_back);

unsafe fn give_back(context: *mut c_void) {
    let (address, device) = (context.addr() & !DEVICE_BITS, context.addr() & DEVICE_BITS);
    if let Ok(cache) = device_memory() {
        // A context that has failed cannot free; its memory is gone with it.
        let _ = cache.0.free(device, address as u64);
    }
}

/// Whether freed blocks are kept: 1 and 2 are yes and no, 0 that nobody has asked.
static CACHING: AtomicU8 = AtomicU8::new(0);

/// Whether freed blocks are kept for later ones: unless `PYTORCH_NO_CUDA_MEMORY_CACHING` is set or
/// [`set_caching`] says otherwise.
pub fn is_caching() -> bool {
    match CACHING.load(Ordering::Relaxed) {
        0 => {
            let kept = config::var("PYTORCH_NO_CUDA_MEMORY_CACHING").is_none();
            set_caching(kept);
            kept
        }
        kept => kept == 1,
    }
}

/// Whether freed blocks of later tensors are kept, or else given to the driver at once.
pub fn set_caching(kept: bool) {
    CACHING.store(if kept { 1 } else { 2 }, Ordering::Relaxed);
}

static GIVE_TO_DRIVER: FreeContext = FreeContext::new(give_to_driver);

unsafe fn give_to_driver(context: *mut c_void) {
    let (address, device) = (context.addr() & !DEVICE_BITS, context.addr() & DEVICE_BITS);
    if let (Ok(_), Ok(driver)) = (bound(device as i8), driver()) {
        // SAFETY: the address came from `uncached`; the driver waits for the device.
        unsafe { (driver.cuMemFree_v2)(address as DeviceAddress) };
    }
}

/// Memory that comes from the driver and goes back to it.
fn uncached(nbytes: usize, index: i8) -> Result<DataPtr> {
    let driver = driver()?;
    let _relaxed = RelaxedCapture::new(driver);
    let mut address = 0;
    // SAFETY: the driver writes one address.
    error::check(driver, unsafe { (driver.cuMemAlloc_v2)(&mut address, nbytes) })?;
    let context = (address as usize | index as usize) as *mut c_void;
    // SAFETY: the deleter takes such contexts, once, from any thread.
    Ok(unsafe { DataPtr::new(address as *mut u8, context, &GIVE_TO_DRIVER, Device::cuda(index)) })
}

// SAFETY: `allocate_on` returns memory of the size asked for, which stays until the deleter has run and the
// streams that use it have got there.
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
        if !is_caching() {
            return uncached(nbytes, index);
        }
        let stream = StreamId(Stream::current(index).raw() as u64);
        let address = device_memory()?.malloc(index as usize, nbytes as u64, stream)?;
        let context = (address | index as u64) as *mut c_void;
        // SAFETY: the deleter takes such contexts, once, from any thread.
        Ok(unsafe { DataPtr::new(address as *mut u8, context, &GIVE_BACK, device) })
    }

    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize) {
        let stream = Stream::current(-1);
        // An error of the driver stays with the context, and the next call that can fail reports it.
        // SAFETY: the caller's: both blocks have so many bytes.
        let _ = unsafe { copy_on_device(stream, destination as u64, source as u64, nbytes) };
    }
}

static GIVE_BACK_PINNED: FreeContext = FreeContext::new(give_back_pinned);

unsafe fn give_back_pinned(context: *mut c_void) {
    if let Ok(cache) = pinned_memory() {
        let _ = cache.0.free(context.addr() as u64);
    }
}

/// Pinned host memory, arbitrary contents.
///
/// # Errors
/// Those of the driver: also where there is none.
pub fn pinned_storage(nbytes: usize) -> Result<Storage> {
    let address = match nbytes {
        0 => 0,
        _ => {
            bound(current_device())?;
            pinned_memory()?.0.malloc(nbytes as u64)? as usize
        }
    };
    let address = address as *mut u8;
    // SAFETY: the deleter takes such addresses, once, from any thread.
    let data = unsafe { DataPtr::new(address, address.cast(), &GIVE_BACK_PINNED, Device::CPU) };
    Ok(Storage::from_data_ptr(data, nbytes))
}

/// Whether an address lies in pinned host memory: of [`pinned_storage`], registered, or of another library.
pub fn is_pinned(address: *const u8) -> bool {
    if !crate::is_initialized() || crate::is_in_bad_fork() || address.is_null() {
        return false;
    }
    pinned_memory().is_ok_and(|cache| cache.0.block_of(address as u64).is_some())
        || is_registered(address)
}

/// Keeps pinned memory from being reused until a stream has done what it has been given until now. Whether
/// the memory is pinned at all.
pub(crate) fn use_pinned(address: *const u8, stream: Stream) -> bool {
    if !crate::is_initialized() || address.is_null() {
        return false;
    }
    let (device, id) = (stream.device() as usize, StreamId(stream.raw() as u64));
    pinned_memory().is_ok_and(|cache| cache.0.record_stream(address as u64, device, id))
        || is_registered(address)
}

/// Keeps the memory of a tensor from being reused until a stream has done what it has been given when the
/// tensor is freed.
///
/// # Errors
/// `Runtime` for a tensor of another device.
pub fn record_stream(tensor: &corten_ops::Tensor, stream: Stream) -> Result<()> {
    ensure!(
        tensor.device().is_cuda(),
        Runtime,
        "record_stream: the tensor is not on a CUDA device"
    );
    let storage = tensor.storage()?;
    storage.flush()?;
    let data = storage.data_ptr();
    let (device, id) = (tensor.device().index as usize, StreamId(stream.raw() as u64));
    let cache = device_memory()?;
    // As in PyTorch, memory of others is left alone.
    match cache.0.is_block(device, data as u64)? {
        true => cache.record_stream(device, data as u64, id),
        false => Ok(()),
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
    crate::joint::flush()?;
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
    crate::joint::flush()?;
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
    crate::joint::flush()?;
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
    crate::joint::flush()?;
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
    crate::joint::flush()?;
    bound(stream.device())?;
    let driver = driver()?;
    // SAFETY: the caller's.
    error::check(driver, unsafe { (driver.cuMemsetD8Async)(to, value, nbytes, stream.handle()) })
}
