//! The CUDA runtime for libraries that need it where there is no GPU: every function says so.
//!
//! Libraries with kernels for CPUs and GPUs need the runtime to be loaded at all: their constructors register their
//! kernels with it.

use std::ffi::{c_char, c_int, c_void};

/// `cudaErrorNoDevice`.
const NO_DEVICE: c_int = 100;

extern "C" fn no_device() -> c_int {
    NO_DEVICE
}

/// # Safety
/// The place must be null or valid for a write.
unsafe extern "C" fn no_devices(count: *mut c_int) -> c_int {
    // SAFETY: the caller's.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = 0;
    }
    NO_DEVICE
}

extern "C" fn message(_code: c_int) -> *const c_char {
    c"no CUDA-capable device is detected".as_ptr()
}

/// Registrations succeed: what they are told is never used.
extern "C" fn registered() -> *mut c_void {
    static HANDLE: [usize; 4] = [0; 4];
    (&raw const HANDLE).cast_mut().cast()
}

/// The functions by name.
pub(super) fn functions() -> impl Iterator<Item = (&'static str, u64)> {
    let refusals = REFUSING.iter().map(|name| (*name, no_device as *const () as u64));
    let registrations = REGISTERING.iter().map(|name| (*name, registered as *const () as u64));
    let others = [
        ("cudaGetDeviceCount", no_devices as *const () as u64),
        ("cudaGetErrorString", message as *const () as u64),
        ("cudaGetErrorName", message as *const () as u64),
    ];
    refusals.chain(registrations).chain(others)
}

const REGISTERING: &[&str] = &[
    "__cudaRegisterFatBinary",
    "__cudaRegisterFatBinaryEnd",
    "__cudaRegisterFunction",
    "__cudaRegisterManagedVar",
    "__cudaRegisterVar",
    "__cudaUnregisterFatBinary",
];

const REFUSING: &[&str] = &[
    "__cudaGetKernel",
    "__cudaInitModule",
    "__cudaLaunchKernel",
    "__cudaPopCallConfiguration",
    "__cudaPushCallConfiguration",
    "cudaDeviceCanAccessPeer",
    "cudaDeviceEnablePeerAccess",
    "cudaDeviceGetAttribute",
    "cudaDeviceGetDefaultMemPool",
    "cudaDeviceGetLimit",
    "cudaDeviceReset",
    "cudaDeviceSetLimit",
    "cudaDeviceSynchronize",
    "cudaDriverGetVersion",
    "cudaEventCreate",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaEventElapsedTime",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaEventSynchronize",
    "cudaFree",
    "cudaFreeAsync",
    "cudaFreeHost",
    "cudaFuncGetAttributes",
    "cudaFuncSetAttribute",
    "cudaFuncSetCacheConfig",
    "cudaGetDevice",
    "cudaGetDeviceProperties",
    "cudaGetDeviceProperties_v2",
    "cudaGetDriverEntryPoint",
    "cudaGetDriverEntryPointByVersion",
    "cudaGetLastError",
    "cudaGetSymbolAddress",
    "cudaHostAlloc",
    "cudaHostRegister",
    "cudaHostUnregister",
    "cudaLaunchCooperativeKernel",
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMalloc",
    "cudaMallocAsync",
    "cudaMallocHost",
    "cudaMemGetInfo",
    "cudaMemcpy",
    "cudaMemcpy2DAsync",
    "cudaMemcpyAsync",
    "cudaMemcpyToSymbol",
    "cudaMemcpyToSymbolAsync",
    "cudaMemset",
    "cudaMemsetAsync",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cudaPeekAtLastError",
    "cudaRuntimeGetVersion",
    "cudaSetDevice",
    "cudaStreamCreate",
    "cudaStreamCreateWithFlags",
    "cudaStreamDestroy",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
    "cudaStreamIsCapturing",
];
