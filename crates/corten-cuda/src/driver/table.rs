//! The functions of the driver, and how it is started.

use super::{DeviceAddress, Handle, error, function_table, loader};
use corten_core::{Result, err};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// What `cuDeviceGetAttribute` is asked for (CUdevice_attribute).
pub(crate) mod attribute {
    pub(crate) const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK: i32 = 8;
    pub(crate) const WARP_SIZE: i32 = 10;
    pub(crate) const MAX_REGISTERS_PER_BLOCK: i32 = 12;
    pub(crate) const CLOCK_RATE: i32 = 13;
    pub(crate) const MULTIPROCESSOR_COUNT: i32 = 16;
    pub(crate) const INTEGRATED: i32 = 18;
    pub(crate) const PCI_BUS_ID: i32 = 33;
    pub(crate) const PCI_DEVICE_ID: i32 = 34;
    pub(crate) const MEMORY_CLOCK_RATE: i32 = 36;
    pub(crate) const MEMORY_BUS_WIDTH: i32 = 37;
    pub(crate) const L2_CACHE_SIZE: i32 = 38;
    pub(crate) const MAX_THREADS_PER_MULTIPROCESSOR: i32 = 39;
    pub(crate) const PCI_DOMAIN_ID: i32 = 50;
    pub(crate) const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
    pub(crate) const COMPUTE_CAPABILITY_MINOR: i32 = 76;
    pub(crate) const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: i32 = 81;
    pub(crate) const MAX_REGISTERS_PER_MULTIPROCESSOR: i32 = 82;
    pub(crate) const IS_MULTI_GPU_BOARD: i32 = 84;
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: i32 = 97;
}

function_table! {
    /// The functions of `libcuda` that are called here.
    Driver {
        cuInit(c_uint);
        cuDriverGetVersion(*mut c_int);
        cuGetErrorString(c_int, *mut *const c_char);
        cuDeviceGetCount(*mut c_int);
        cuDeviceGet(*mut c_int, c_int);
        cuDeviceGetName(*mut c_char, c_int, c_int);
        cuDeviceGetAttribute(*mut c_int, c_int, c_int);
        cuDeviceGetUuid_v2(*mut [u8; 16], c_int);
        cuDeviceTotalMem_v2(*mut usize, c_int);
        cuDeviceCanAccessPeer(*mut c_int, c_int, c_int);
        cuDevicePrimaryCtxRetain(*mut Handle, c_int);
        cuDevicePrimaryCtxGetState(c_int, *mut c_uint, *mut c_int);
        cuCtxSetCurrent(Handle);
        cuCtxSynchronize();
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemAlloc_v2(*mut DeviceAddress, usize);
        cuMemFree_v2(DeviceAddress);
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        cuMemFreeHost(*mut c_void);
        cuMemHostRegister_v2(*mut c_void, usize, c_uint);
        cuMemHostUnregister(*mut c_void);
        cuPointerGetAttribute(*mut c_void, c_int, DeviceAddress);
        cuMemHostGetDevicePointer_v2(*mut DeviceAddress, *mut c_void, c_uint);
        cuMemcpyHtoDAsync_v2(DeviceAddress, *const c_void, usize, Handle);
        cuMemcpyDtoHAsync_v2(*mut c_void, DeviceAddress, usize, Handle);
        cuMemcpyDtoDAsync_v2(DeviceAddress, DeviceAddress, usize, Handle);
        cuMemcpyPeerAsync(DeviceAddress, Handle, DeviceAddress, Handle, usize, Handle);
        cuMemsetD8Async(DeviceAddress, u8, usize, Handle);
        cuMemAddressReserve(*mut DeviceAddress, usize, usize, DeviceAddress, u64);
        cuMemAddressFree(DeviceAddress, usize);
        cuMemCreate(*mut u64, usize, *const AllocationProperties, u64);
        cuMemRelease(u64);
        cuMemMap(DeviceAddress, usize, usize, u64, u64);
        cuMemUnmap(DeviceAddress, usize);
        cuMemSetAccess(DeviceAddress, usize, *const AccessDescription, usize);
        cuStreamCreateWithPriority(*mut Handle, c_uint, c_int);
        cuStreamSynchronize(Handle);
        cuStreamQuery(Handle);
        cuStreamWaitEvent(Handle, Handle, c_uint);
        cuStreamGetPriority(Handle, *mut c_int);
        cuStreamBeginCapture_v2(Handle, c_int);
        cuStreamEndCapture(Handle, *mut Handle);
        cuStreamIsCapturing(Handle, *mut c_int);
        cuThreadExchangeStreamCaptureMode(*mut c_int);
        cuEventCreate(*mut Handle, c_uint);
        cuEventRecord(Handle, Handle);
        cuEventQuery(Handle);
        cuEventSynchronize(Handle);
        cuEventElapsedTime(*mut f32, Handle, Handle);
        cuEventDestroy_v2(Handle);
        cuIpcGetEventHandle(*mut [u8; 64], Handle);
        cuIpcOpenEventHandle(*mut Handle, [u8; 64]);
        cuIpcGetMemHandle(*mut [u8; 64], DeviceAddress);
        cuIpcOpenMemHandle_v2(*mut DeviceAddress, [u8; 64], c_uint);
        cuIpcCloseMemHandle(DeviceAddress);
        cuProfilerStart();
        cuProfilerStop();
        cuModuleLoadData(*mut Handle, *const c_void);
        cuModuleGetFunction(*mut Handle, Handle, *const c_char);
        cuFuncSetAttribute(Handle, c_int, c_int);
        cuLaunchKernel(
            Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
            *mut *mut c_void,
        );
        cuGraphInstantiateWithFlags(*mut Handle, Handle, u64);
        cuGraphLaunch(Handle, Handle);
        cuGraphDebugDotPrint(Handle, *const c_char, c_uint);
        cuGraphDestroy(Handle);
        cuGraphExecDestroy(Handle);
    }
}

/// CUmemAllocationProp of a device's own memory.
#[repr(C)]
pub(crate) struct AllocationProperties {
    kind: c_int,
    requested_handle_types: c_int,
    pub(crate) location: Location,
    win32_metadata: *mut c_void,
    flags: [u8; 8],
}

/// CUmemLocation.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    kind: c_int,
    id: c_int,
}

/// CUmemAccessDesc.
#[repr(C)]
pub(crate) struct AccessDescription {
    location: Location,
    flags: c_int,
}

impl AllocationProperties {
    /// Pinned memory of a device (CU_MEM_ALLOCATION_TYPE_PINNED at CU_MEM_LOCATION_TYPE_DEVICE).
    pub(crate) fn of_device(device: i32) -> Self {
        Self {
            kind: 1,
            requested_handle_types: 0,
            location: Location { kind: 1, id: device },
            win32_metadata: std::ptr::null_mut(),
            flags: [0; 8],
        }
    }
}

impl AccessDescription {
    /// Reading and writing by a device (CU_MEM_ACCESS_FLAGS_PROT_READWRITE).
    pub(crate) fn of_device(device: i32) -> Self {
        Self { location: Location { kind: 1, id: device }, flags: 3 }
    }
}

static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();

/// Whether the driver was asked for: from then on it does not look at `CUDA_VISIBLE_DEVICES` any more.
pub fn is_driver_started() -> bool {
    DRIVER.get().is_some()
}

/// The driver, opened and initialised at the first call.
///
/// # Errors
/// `Runtime` in PyTorch's words where there is no driver, or where it cannot be used; the reason is kept
/// and given again.
pub(crate) fn driver() -> Result<&'static Driver> {
    let started = DRIVER.get_or_init(|| start().map_err(|error| error.message().to_owned()));
    started.as_ref().map_err(|message| err!(Runtime, "{message}"))
}

const NO_DRIVER: &str = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and \
    installed a driver from http://www.nvidia.com/Download/index.aspx";

/// The first driver that has all that is called here: of CUDA 12.0.
const OLDEST: i32 = 12_000;

/// The version of CUDA that the driver offers, as 1000 * major + 10 * minor.
///
/// # Errors
/// As [`driver`].
pub(crate) fn version() -> Result<i32> {
    Ok(version_of(driver()?))
}

fn version_of(driver: &Driver) -> i32 {
    let mut version = 0;
    // SAFETY: the driver writes one number, before it is initialised too.
    unsafe { (driver.cuDriverGetVersion)(&mut version) };
    version
}

fn start() -> Result<Driver> {
    let library =
        loader::open(&loader::DRIVER).map_err(|error| err!(Runtime, "{NO_DRIVER} ({error})"))?;
    let driver = Driver::of(&library)?;
    let found = version_of(&driver);
    if found < OLDEST {
        return Err(err!(
            Runtime,
            "The NVIDIA driver on your system is too old (found version {found}). Please update your GPU driver by \
             downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
        ));
    }
    // SAFETY: the flags must be 0.
    let status = unsafe { (driver.cuInit)(0) };
    match status {
        0 => Ok(driver),
        error::NO_DEVICE => Err(err!(Runtime, "No CUDA GPUs are available")),
        _ => {
            Err(err!(Runtime, "Unexpected error from cuInit: {}", error::describe(&driver, status)))
        }
    }
}
