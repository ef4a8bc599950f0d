//! What the caching allocators ask of a device: the driver in programs, a simulation in tests.

use corten_core::Error;

/// A stream as the driver names it: the value of its handle, 0 for the default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A memory pool: `(0, 0)` is the default one, others belong to CUDA graphs and `MemPool`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The pool of everything that is not redirected.
    pub const DEFAULT: Self = Self(0, 0);
}

/// Why the device refused.
#[derive(Debug)]
pub enum RawError {
    /// The device, or the host, has no memory left; the allocator releases what it caches and tries again.
    OutOfMemory,
    /// Anything else: a sticky error of the context, a device that is gone. It travels to the caller.
    Driver(Error),
}

impl From<Error> for RawError {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

/// Free and total bytes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes that nobody has, other processes included.
    pub free: u64,
    /// Bytes of the device.
    pub total: u64,
}

/// Events and captures of streams.
///
/// Every method may be called from any thread, with a lock of the allocator held: none may call back into it.
pub trait RawStreams: Send + Sync {
    /// A recorded event. Dropping it returns it to the pool of events.
    type Event: Send;

    /// Records an event behind everything that was launched on `stream` of `device`.
    fn record_event(&self, device: usize, stream: StreamId) -> Result<Self::Event, RawError>;

    /// Whether the work in front of `event` has completed.
    fn query_event(&self, event: &Self::Event) -> Result<bool, RawError>;

    /// Waits for the work in front of `event`.
    fn synchronize_event(&self, event: &Self::Event) -> Result<(), RawError>;

    /// Whether a stream of `device` is being captured into a graph. Events are neither recorded nor queried
    /// while it is, and no cached memory is released.
    fn is_capturing(&self, device: usize) -> bool;
}

/// Device memory as the driver gives it.
pub trait RawMem: RawStreams {
    /// Allocates `bytes` (a multiple of 2 MiB or so) on `device`; addresses are multiples of 512.
    fn alloc(&self, device: usize, bytes: u64) -> Result<u64, RawError>;

    /// Frees what [`RawMem::alloc`] returned. The driver waits for the device first.
    fn free(&self, device: usize, address: u64, bytes: u64) -> Result<(), RawError>;

    /// Free and total memory of `device`.
    fn mem_info(&self, device: usize) -> Result<DeviceMemory, RawError>;

    /// What other processes hold, a sentence for the out-of-memory message that ends in a space, or nothing:
    /// `"Including non-PyTorch memory, this process has 23.33 GiB memory in use. "`.
    fn process_report(&self, _device: usize) -> String {
        String::new()
    }

    /// Virtual memory management, for `expandable_segments:True`; without it segments do not grow.
    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        None
    }
}

/// Address ranges that are reserved first and backed by memory later, granule by granule.
pub trait VirtualMemory {
    /// Reserves `bytes` of addresses on `device`.
    fn reserve(&self, device: usize, bytes: u64) -> Result<u64, RawError>;

    /// Backs one granule of a reserved range with memory.
    fn map(&self, device: usize, address: u64, bytes: u64) -> Result<(), RawError>;

    /// Takes the memory of a granule that was mapped with the same arguments. The allocator has not waited for
    /// the device: the implementation must.
    fn unmap(&self, device: usize, address: u64, bytes: u64) -> Result<(), RawError>;

    /// Gives a range back of which nothing is mapped.
    fn release(&self, device: usize, address: u64, bytes: u64) -> Result<(), RawError>;
}

/// Pinned host memory as the driver gives it.
pub trait RawHostMem: RawStreams {
    /// Allocates `bytes` of page-locked memory that all devices can use.
    fn alloc_host(&self, bytes: u64) -> Result<u64, RawError>;

    /// Frees what [`RawHostMem::alloc_host`] returned.
    fn free_host(&self, address: u64, bytes: u64) -> Result<(), RawError>;
}
