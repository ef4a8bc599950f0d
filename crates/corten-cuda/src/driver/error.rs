//! Status codes of the driver as errors in PyTorch's words.

use super::Driver;
use crate::launch::launches_block;
use corten_core::{Error, Result};
use std::ffi::{CStr, c_char};

/// CUDA_ERROR_OUT_OF_MEMORY.
pub(crate) const OUT_OF_MEMORY: i32 = 2;
/// CUDA_ERROR_NO_DEVICE.
pub(crate) const NO_DEVICE: i32 = 100;
/// CUDA_ERROR_INVALID_DEVICE.
pub(crate) const INVALID_DEVICE: i32 = 101;
/// CUDA_ERROR_ASSERT.
pub(crate) const ASSERT: i32 = 710;
/// CUDA_ERROR_NOT_READY.
pub(crate) const NOT_READY: i32 = 600;

/// What the driver calls a status, or its number.
pub(crate) fn describe(driver: &Driver, status: i32) -> String {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the driver writes the address of a static text, or null for an unknown status.
    let found = unsafe { (driver.cuGetErrorString)(status, &mut text) };
    if found != 0 || text.is_null() {
        return format!("unknown error {status}");
    }
    // SAFETY: the text is static and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The names of the runtime library for the driver's errors, which have its numbers.
const NAMES: &[(i32, &str)] = &[
    (1, "InvalidValue"),
    (2, "MemoryAllocation"),
    (3, "InitializationError"),
    (4, "CudartUnloading"),
    (34, "StubLibrary"),
    (46, "DevicesUnavailable"),
    (100, "NoDevice"),
    (101, "InvalidDevice"),
    (200, "InvalidKernelImage"),
    (201, "DeviceUninitialized"),
    (205, "MapBufferObjectFailed"),
    (206, "UnmapBufferObjectFailed"),
    (209, "NoKernelImageForDevice"),
    (214, "ECCUncorrectable"),
    (217, "PeerAccessUnsupported"),
    (218, "InvalidPtx"),
    (222, "UnsupportedPtxVersion"),
    (304, "OperatingSystem"),
    (400, "InvalidResourceHandle"),
    (401, "IllegalState"),
    (500, "SymbolNotFound"),
    (600, "NotReady"),
    (700, "IllegalAddress"),
    (701, "LaunchOutOfResources"),
    (702, "LaunchTimeout"),
    (704, "PeerAccessAlreadyEnabled"),
    (705, "PeerAccessNotEnabled"),
    (709, "ContextIsDestroyed"),
    (710, "Assert"),
    (711, "TooManyPeers"),
    (712, "HostMemoryAlreadyRegistered"),
    (713, "HostMemoryNotRegistered"),
    (714, "HardwareStackError"),
    (715, "IllegalInstruction"),
    (716, "MisalignedAddress"),
    (717, "InvalidAddressSpace"),
    (718, "InvalidPc"),
    (719, "LaunchFailure"),
    (720, "CooperativeLaunchTooLarge"),
    (800, "NotPermitted"),
    (801, "NotSupported"),
    (802, "SystemNotReady"),
    (803, "SystemDriverMismatch"),
    (900, "StreamCaptureUnsupported"),
    (901, "StreamCaptureInvalidated"),
    (902, "StreamCaptureMerge"),
    (903, "StreamCaptureUnmatched"),
    (904, "StreamCaptureUnjoined"),
    (905, "StreamCaptureIsolation"),
    (906, "StreamCaptureImplicit"),
    (907, "CapturedEvent"),
    (908, "StreamCaptureWrongThread"),
    (999, "Unknown"),
];

/// `Ok` for success, and PyTorch's error otherwise.
///
/// # Errors
/// `Accelerator` that begins with `CUDA error:`.
pub(crate) fn check(driver: &Driver, status: i32) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(report(status, &describe(driver, status), "")),
    }
}

/// The error for a status, in PyTorch's words, with what more is known of it.
#[cold]
pub(crate) fn report(status: i32, what: &str, details: &str) -> Error {
    let name = NAMES.iter().find(|(number, _)| *number == status).map_or("Unknown", |row| row.1);
    let help = match status {
        INVALID_DEVICE => "GPU device may be out of range, do you have enough GPUs?".to_owned(),
        _ => format!(
            "Search for `cudaError{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/\
             group__CUDART__TYPES.html for more information."
        ),
    };
    let asynchronous = match launches_block() {
        true => "",
        false => {
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace \
             below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        }
    };
    Error::accelerator(status, format!("CUDA error: {what}\n{help}\n{asynchronous}{details}"))
}

/// Whether a query has found the work done; `false` while it is under way.
///
/// # Errors
/// As [`check`] for any other status.
pub(crate) fn is_ready(driver: &Driver, status: i32) -> Result<bool> {
    match status {
        NOT_READY => Ok(false),
        _ => check(driver, status).map(|()| true),
    }
}
