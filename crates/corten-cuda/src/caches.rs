//! The caches of device and pinned memory as programs see them: what their memory is used for is asked and
//! limited here; giving a block back is for whoever knows that nobody uses it.

use crate::caching::{
    AllocConfig, CachingAllocator, DeviceStats, HistoryOptions, HostStats, PinnedAllocator, PoolId,
    Snapshot, StreamId,
};
use crate::driver_memory::DriverMemory;
use corten_core::Result;

/// The caching allocator of all devices.
pub struct DeviceCache(pub(crate) CachingAllocator<DriverMemory>);

/// The caching allocator of pinned host memory.
pub struct PinnedCache(pub(crate) PinnedAllocator<DriverMemory>);

/// Functions of the allocators under their own names; their documents are there.
macro_rules! delegated {
    ($cache:ident: $($(#[$doc:meta])+ $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)+) => {
        impl $cache {
            $($(#[$doc])+
            pub fn $name(&self $(, $argument: $type)*) -> $result {
                self.0.$name($($argument),*)
            })+
        }
    };
}

delegated! { DeviceCache:
    /// Allocates `bytes` for work on a stream.
    ///
    /// # Errors
    /// `OutOfMemory` in PyTorch's words; for the functions below those of the driver.
    malloc(device: usize, bytes: u64, stream: StreamId) -> Result<u64>;
    /// Gives cached memory of a pool back to the driver.
    empty_cache(pool: PoolId) -> Result<()>;
    /// What the memory of a device is used for.
    stats(device: usize) -> Result<DeviceStats>;
    /// Counts peaks from now on.
    reset_peak_stats(device: usize) -> Result<()>;
    /// Counts sums from now on.
    reset_accumulated_stats(device: usize) -> Result<()>;
    /// The part of a device's memory that this process may have.
    memory_fraction(device: usize) -> Result<f64>;
    /// Limits it.
    set_memory_fraction(device: usize, fraction: f64) -> Result<()>;
    /// The settings.
    config() -> AllocConfig;
    /// Changes settings that are given as in `PYTORCH_ALLOC_CONF`.
    set_config(text: &str) -> Result<()>;
    /// Segments, blocks and history of a device.
    snapshot(device: usize) -> Result<Snapshot>;
    /// Which history is kept.
    record_history(options: &HistoryOptions) -> Result<()>;
    /// Sends allocations on the streams that the filter accepts to a private pool.
    begin_allocate_to_pool(device: usize, id: PoolId, filter: Box<dyn Fn(StreamId) -> bool + Send>) -> Result<()>;
    /// Ends that.
    end_allocate_to_pool(device: usize, id: PoolId) -> Result<()>;
    /// Counts one user of a pool more.
    retain_pool(device: usize, id: PoolId) -> Result<()>;
    /// Counts one less.
    release_pool(device: usize, id: PoolId) -> Result<()>;
    /// How many there are.
    pool_use_count(device: usize, id: PoolId) -> Result<usize>;
    /// Keeps a block from being reused until a stream has done what it has when the block is freed.
    record_stream(device: usize, address: u64, stream: StreamId) -> Result<()>;
}

delegated! { PinnedCache:
    /// What pinned memory is used for.
    stats() -> HostStats;
    /// Changes what is counted.
    update_stats(update: fn(&mut HostStats)) -> ();
    /// Gives cached memory back to the driver.
    ///
    /// # Errors
    /// Those of the driver.
    empty_cache() -> Result<()>;
}

impl DeviceCache {
    /// Gives a block back.
    ///
    /// # Safety
    /// Nobody may use the block any more, but for work that its stream already has.
    ///
    /// # Errors
    /// `Runtime` for an address that is no block.
    pub unsafe fn free(&self, device: usize, address: u64) -> Result<()> {
        self.0.free(device, address)
    }
}
