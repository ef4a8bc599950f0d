//! Launching kernels.

use crate::compile::Function;
use crate::device::bound;
use crate::driver::{driver, error};
use crate::driver_memory::is_capturing;
use crate::stream::Stream;
use corten_core::{Result, config, ensure};
use std::ffi::c_void;
use std::sync::OnceLock;

/// Threads per block of kernels that do not need another number.
pub(crate) const THREADS: u32 = 256;

/// The bytes of shared memory that a block has without being asked for.
const SHARED_BY_DEFAULT: u32 = 48 << 10;
/// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
const MAX_DYNAMIC_SHARED_SIZE: i32 = 8;

/// Grid and block of a launch, and the bytes of dynamic shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

impl Shape {
    /// Blocks of [`THREADS`] threads, so many that each of `steps` steps has a thread.
    pub(crate) fn over(steps: i64) -> Self {
        let blocks = (steps.max(1) as u64).div_ceil(u64::from(THREADS));
        Self { grid: [blocks.min(i32::MAX as u64) as u32, 1, 1], block: [THREADS, 1, 1], shared: 0 }
    }
}

/// Puts a kernel into a stream with the addresses of its parameters.
///
/// # Safety
/// The parameters must be those of the kernel, and the memory that it reads and writes must stay until
/// the stream has done it.
///
/// # Errors
/// Those of the driver; with `CUDA_LAUNCH_BLOCKING=1` also those of the kernel.
pub(crate) unsafe fn launch(
    function: Function,
    shape: Shape,
    stream: Stream,
    parameters: &mut [*mut c_void],
) -> Result<()> {
    ensure!(shape.grid.iter().all(|&size| size > 0), Internal, "a kernel needs a grid");
    crate::joint::flush()?;
    bound(stream.device())?;
    let driver = driver()?;
    if shape.shared > SHARED_BY_DEFAULT {
        // SAFETY: the function is loaded.
        let status = unsafe {
            (driver.cuFuncSetAttribute)(function.0, MAX_DYNAMIC_SHARED_SIZE, shape.shared as i32)
        };
        error::check(driver, status)?;
    }
    let [(x, y, z), (u, v, w)] = [shape.grid, shape.block].map(|size| (size[0], size[1], size[2]));
    // SAFETY: the caller's; the parameters are copied before the call returns.
    let status = unsafe {
        (driver.cuLaunchKernel)(
            function.0,
            x,
            y,
            z,
            u,
            v,
            w,
            shape.shared,
            stream.handle(),
            parameters.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    error::check(driver, status)?;
    launched(stream)
}

/// Waits for what a stream has just been given, where `CUDA_LAUNCH_BLOCKING` says so.
///
/// # Errors
/// Those of the work.
#[inline]
pub(crate) fn launched(stream: Stream) -> Result<()> {
    if launches_block() && !is_capturing(stream.device()) { stream.wait() } else { Ok(()) }
}

/// Whether the host waits for each kernel: `CUDA_LAUNCH_BLOCKING=1`.
pub(crate) fn launches_block() -> bool {
    static BLOCKING: OnceLock<bool> = OnceLock::new();
    *BLOCKING.get_or_init(|| config::flag("CUDA_LAUNCH_BLOCKING"))
}
