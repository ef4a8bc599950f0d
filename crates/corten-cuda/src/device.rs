//! Devices: their number, properties and primary contexts, and the current device of a thread.

use crate::driver::{Driver, Handle, attribute, driver, error};
use crate::failure;
use corten_core::{Result, bail, err};
use std::cell::Cell;
use std::ffi::c_char;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most devices that a tensor's device index can name.
pub(crate) const MOST_DEVICES: usize = 64;

/// A device with its primary context, which is retained once and never released.
pub(crate) struct Gpu {
    /// The driver's number of the device.
    pub(crate) handle: i32,
    /// The primary context.
    pub(crate) context: Handle,
    /// What the device is.
    pub(crate) properties: Properties,
}

/// What a device is; sizes in bytes, clock rates in kHz.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names of cudaDeviceProp")]
pub struct Properties {
    pub name: String,
    pub major: i32,
    pub minor: i32,
    pub total_memory: usize,
    pub multi_processor_count: i32,
    pub is_integrated: bool,
    pub is_multi_gpu_board: bool,
    pub max_threads_per_block: i32,
    pub max_threads_per_multi_processor: i32,
    pub warp_size: i32,
    pub regs_per_block: i32,
    pub regs_per_multiprocessor: i32,
    pub shared_memory_per_block: i32,
    pub shared_memory_per_block_optin: i32,
    pub shared_memory_per_multiprocessor: i32,
    pub l2_cache_size: i32,
    pub clock_rate: i32,
    pub memory_clock_rate: i32,
    pub memory_bus_width: i32,
    pub pci_domain_id: i32,
    pub pci_bus_id: i32,
    pub pci_device_id: i32,
    pub uuid: [u8; 16],
}

thread_local! {
    /// The current device of the thread.
    static CURRENT: Cell<i8> = const { Cell::new(0) };
    /// The device whose context is the driver's current one on this thread.
    static BOUND: Cell<i8> = const { Cell::new(-1) };
}

/// Whether a device has been used, by this process or by the one that it was forked from.
static USED: AtomicBool = AtomicBool::new(false);
/// Whether this process was forked from one that had used a device. A flag that is set by the fork: the number
/// of the process would cost a system call at every launch.
static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn after_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Notes that a device is used, and sees to it that a child of this process will know.
fn note_use() {
    if !USED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler stores a flag, which a forked process may do. Where it cannot be registered, the
        // driver itself refuses to work in the child.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    }
}

/// That the driver can be used.
///
/// # Errors
/// `Runtime` in PyTorch's words where it cannot.
pub fn check_driver() -> Result<()> {
    driver().map(drop)
}

/// Makes the context of a device.
///
/// # Errors
/// `Runtime` without a driver or such a device, and in a process that was forked after a device was used.
pub fn initialize(index: i8) -> Result<()> {
    gpu(index).map(drop)
}

/// Whether a device has a context in this process, made by anybody.
///
/// # Errors
/// `Runtime` without a driver or such a device.
pub fn has_primary_context(index: i8) -> Result<bool> {
    let driver = driver()?;
    let handle = handle_of(driver, resolve(index))?;
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the driver writes two numbers.
    let status = unsafe { (driver.cuDevicePrimaryCtxGetState)(handle, &mut flags, &mut active) };
    error::check(driver, status)?;
    Ok(active != 0)
}

/// How many devices there are; 0 without a driver. Makes no context.
pub fn device_count() -> usize {
    count().unwrap_or(0)
}

fn count() -> Result<usize> {
    let driver = driver()?;
    let mut number = 0;
    // SAFETY: the driver writes one number.
    let status = unsafe { (driver.cuDeviceGetCount)(&mut number) };
    error::check(driver, status)?;
    Ok(usize::try_from(number).unwrap_or(0).min(MOST_DEVICES))
}

/// Whether a context exists, that is, whether a device has been used.
pub fn is_initialized() -> bool {
    USED.load(Ordering::Acquire)
}

/// Whether this process was forked from one that had already used a device.
pub fn is_in_bad_fork() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// The current device of this thread.
pub fn current_device() -> i8 {
    CURRENT.get()
}

/// Makes a device the current one of this thread and gives the one that was current. No context is made.
///
/// # Errors
/// `Runtime` for a number that no device has, and without a driver.
pub fn set_device(index: i8) -> Result<i8> {
    check_exists(index)?;
    Ok(CURRENT.replace(index))
}

/// That there is a device with this number.
///
/// # Errors
/// `Runtime` otherwise, and without a driver.
pub(crate) fn check_exists(index: i8) -> Result<()> {
    let number = count()?;
    if usize::try_from(index).is_ok_and(|index| index < number) {
        return Ok(());
    }
    let details = format!("Device {index} was asked for, and there are {number}\n");
    Err(error::report(error::INVALID_DEVICE, "invalid device ordinal", &details))
}

/// The driver's number of a device.
fn handle_of(driver: &Driver, index: i8) -> Result<i32> {
    let mut handle = 0;
    // SAFETY: the driver writes one number.
    error::check(driver, unsafe { (driver.cuDeviceGet)(&mut handle, i32::from(index)) })?;
    Ok(handle)
}

/// The current device, or the one that is named.
pub(crate) fn resolve(index: i8) -> i8 {
    if index < 0 { CURRENT.get() } else { index }
}

/// Makes another device current until it is dropped.
///
/// ```
/// # fn main() -> corten_core::Result<()> {
/// if corten_cuda::device_count() > 1 {
///     let before = corten_cuda::current_device();
///     {
///         let _guard = corten_cuda::DeviceGuard::new(1)?;
///         assert_eq!(corten_cuda::current_device(), 1);
///     }
///     assert_eq!(corten_cuda::current_device(), before);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DeviceGuard {
    previous: i8,
}

impl DeviceGuard {
    /// Makes `index` the current device; a negative one means the current device itself.
    ///
    /// # Errors
    /// As [`set_device`].
    pub fn new(index: i8) -> Result<Self> {
        let previous = CURRENT.get();
        if index >= 0 && index != previous {
            set_device(index)?;
        }
        Ok(Self { previous })
    }
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}

/// A device, initialised at its first use.
///
/// # Errors
/// `Runtime` without a driver or such a device, in a process that was forked after a device was used,
/// and when the context cannot be made.
pub(crate) fn gpu(index: i8) -> Result<&'static Gpu> {
    static GPUS: [OnceLock<Gpu>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];
    let number = resolve(index);
    if is_in_bad_fork() {
        bail!(
            Runtime,
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use \
             the 'spawn' start method"
        );
    }
    let Some(place) = usize::try_from(number).ok().and_then(|number| GPUS.get(number)) else {
        return Err(error::report(error::INVALID_DEVICE, "invalid device ordinal", ""));
    };
    if let Some(gpu) = place.get() {
        return Ok(gpu);
    }
    let made = initialise(number)?;
    Ok(place.get_or_init(|| made))
}

/// A device whose context is the driver's current one of this thread.
///
/// # Errors
/// As [`gpu`].
pub(crate) fn bound(index: i8) -> Result<&'static Gpu> {
    let number = resolve(index);
    let gpu = gpu(number)?;
    if BOUND.get() != number {
        let driver = driver()?;
        // SAFETY: the context is retained for the whole run of the program.
        error::check(driver, unsafe { (driver.cuCtxSetCurrent)(gpu.context) })?;
        BOUND.set(number);
    }
    Ok(gpu)
}

/// Makes a device's context the driver's current one of this thread, for libraries that look there.
///
/// # Errors
/// As [`initialize`].
pub fn bind(index: i8) -> Result<()> {
    bound(index).map(drop)
}

fn initialise(index: i8) -> Result<Gpu> {
    let driver = driver()?;
    check_exists(index)?;
    let handle = handle_of(driver, index)?;
    let properties = read_properties(driver, handle)?;
    let mut context = Handle::NULL;
    // SAFETY: the driver writes one handle.
    error::check(driver, unsafe { (driver.cuDevicePrimaryCtxRetain)(&mut context, handle) })?;
    note_use();
    Ok(Gpu { handle, context, properties })
}

/// What a device is. Makes no context.
///
/// # Errors
/// `Runtime` without a driver or such a device.
pub fn device_properties(index: i8) -> Result<Properties> {
    let driver = driver()?;
    let number = count()?;
    let index = resolve(index);
    if usize::try_from(index).map_or(true, |index| index >= number) {
        return Err(err!(Runtime, "Invalid device id"));
    }
    read_properties(driver, handle_of(driver, index)?)
}

fn read_properties(driver: &Driver, handle: i32) -> Result<Properties> {
    let get = |which: i32| -> Result<i32> {
        let mut value = 0;
        // SAFETY: the driver writes one number.
        error::check(driver, unsafe { (driver.cuDeviceGetAttribute)(&mut value, which, handle) })?;
        Ok(value)
    };
    let mut name = [0_u8; 256];
    let (mut total_memory, mut uuid) = (0, [0; 16]);
    // SAFETY: the driver writes a text that ends with a zero into the 256 bytes, a size and 16 bytes.
    unsafe {
        let text = name.as_mut_ptr().cast::<c_char>();
        error::check(driver, (driver.cuDeviceGetName)(text, 256, handle))?;
        error::check(driver, (driver.cuDeviceTotalMem_v2)(&mut total_memory, handle))?;
        error::check(driver, (driver.cuDeviceGetUuid_v2)(&mut uuid, handle))?;
    }
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Ok(Properties {
        name: String::from_utf8_lossy(&name[..length]).into_owned(),
        major: get(attribute::COMPUTE_CAPABILITY_MAJOR)?,
        minor: get(attribute::COMPUTE_CAPABILITY_MINOR)?,
        total_memory,
        multi_processor_count: get(attribute::MULTIPROCESSOR_COUNT)?,
        is_integrated: get(attribute::INTEGRATED)? != 0,
        is_multi_gpu_board: get(attribute::IS_MULTI_GPU_BOARD)? != 0,
        max_threads_per_block: get(attribute::MAX_THREADS_PER_BLOCK)?,
        max_threads_per_multi_processor: get(attribute::MAX_THREADS_PER_MULTIPROCESSOR)?,
        warp_size: get(attribute::WARP_SIZE)?,
        regs_per_block: get(attribute::MAX_REGISTERS_PER_BLOCK)?,
        regs_per_multiprocessor: get(attribute::MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        shared_memory_per_block: get(attribute::MAX_SHARED_MEMORY_PER_BLOCK)?,
        shared_memory_per_block_optin: get(attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_memory_per_multiprocessor: get(attribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        l2_cache_size: get(attribute::L2_CACHE_SIZE)?,
        clock_rate: get(attribute::CLOCK_RATE)?,
        memory_clock_rate: get(attribute::MEMORY_CLOCK_RATE)?,
        memory_bus_width: get(attribute::MEMORY_BUS_WIDTH)?,
        pci_domain_id: get(attribute::PCI_DOMAIN_ID)?,
        pci_bus_id: get(attribute::PCI_BUS_ID)?,
        pci_device_id: get(attribute::PCI_DEVICE_ID)?,
        uuid,
    })
}

/// The free and the total memory of a device in bytes.
///
/// # Errors
/// `Runtime` without a driver or such a device.
pub fn mem_get_info(index: i8) -> Result<(usize, usize)> {
    bound(index)?;
    let driver = driver()?;
    let (mut free, mut total) = (0, 0);
    // SAFETY: the driver writes two sizes.
    error::check(driver, unsafe { (driver.cuMemGetInfo_v2)(&mut free, &mut total) })?;
    Ok((free, total))
}

/// Whether a device can read the memory of another one directly.
///
/// # Errors
/// `Runtime` without a driver or such devices.
pub fn can_device_access_peer(index: i8, peer: i8) -> Result<bool> {
    let driver = driver()?;
    let (device, peer) = (gpu(index)?.handle, gpu(peer)?.handle);
    let mut can = 0;
    // SAFETY: the driver writes one number.
    error::check(driver, unsafe { (driver.cuDeviceCanAccessPeer)(&mut can, device, peer) })?;
    Ok(can != 0)
}

/// Waits for all work of a device.
///
/// # Errors
/// Those of the work, as `CUDA error: …`.
pub fn synchronize(index: i8) -> Result<()> {
    corten_core::flush_deferred()?;
    crate::joint::flush()?;
    let _guard = DeviceGuard::new(index)?;
    bound(-1)?;
    let driver = driver()?;
    // SAFETY: the context is current.
    error::check(driver, unsafe { (driver.cuCtxSynchronize)() })?;
    failure::check(current_device())
}

/// The version of CUDA that the driver offers, as 1000 * major + 10 * minor.
///
/// # Errors
/// `Runtime` without a driver.
pub fn driver_version() -> Result<i32> {
    crate::driver::version()
}
