//! Host memory: what the allocator has done, its cache, reporters, NUMA nodes.
//!
//! Freed blocks are kept for the next tensors. [`stats`] counts what is in use and what is kept,
//! [`empty_cache`] gives what is kept back to the system, and a [`MemoryReporter`] is told of every block.
//! Memory of GPUs is in `corten::cuda`.
//!
//! ```
//! use corten::memory;
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let before = memory::stats();
//! let x = Tensor::zeros([1 << 20])?;
//! let grown = memory::stats().allocated_bytes.current - before.allocated_bytes.current;
//! assert!(grown >= 4 << 20);
//! drop(x);
//! memory::empty_cache();
//! # Ok(())
//! # }
//! ```

pub use corten_core::allocator::{
    Fill, InstalledReporter, MemoryReport, MemoryReporter, MemoryStats, Stat, empty_cache,
    set_cache_limit, set_fill,
};

use corten_core::{Result, allocator};
use std::sync::Arc;

/// What the allocator of host memory has done so far.
pub fn stats() -> MemoryStats {
    allocator::memory_stats()
}

/// Makes the present values the peaks.
pub fn reset_peak_stats() {
    allocator::reset_peak_memory_stats();
}

/// Tells a reporter of every block that is taken or given back, until the result is dropped. The reporter runs
/// on the thread that does so; it must not make tensors. A closure over `&MemoryReport` is one.
///
/// ```
/// use corten::memory::{self, MemoryReport};
/// use corten::prelude::*;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicI64, Ordering};
///
/// # fn main() -> Result<()> {
/// let in_use = Arc::new(AtomicI64::new(0));
/// let counter = Arc::clone(&in_use);
/// let watching = memory::install_reporter(Arc::new(move |event: &MemoryReport| {
///     counter.fetch_add(event.nbytes, Ordering::Relaxed);
/// }));
/// let x = Tensor::zeros([1000])?;
/// assert!(in_use.load(Ordering::Relaxed) >= 4000);
/// drop((x, watching));
/// # Ok(())
/// # }
/// ```
pub fn install_reporter(reporter: Arc<dyn MemoryReporter>) -> InstalledReporter {
    allocator::install_memory_reporter(reporter)
}

/// Whether fresh memory is moved to the NUMA node of the thread that allocates it; off at first.
///
/// ```
/// # #[cfg(all(feature = "numa", target_os = "linux"))]
/// corten::memory::set_numa_local(true)?;
/// # Ok::<(), corten::Error>(())
/// ```
///
/// # Errors
/// `NotImplemented` without the feature `numa`, and on other systems than Linux.
pub fn set_numa_local(enabled: bool) -> Result<()> {
    #[cfg(all(feature = "numa", target_os = "linux"))]
    {
        allocator::set_numa_enabled(enabled);
        Ok(())
    }
    #[cfg(not(all(feature = "numa", target_os = "linux")))]
    {
        let _ = enabled;
        corten_core::bail!(NotImplemented, "set_numa_local: this build has no support for NUMA")
    }
}
