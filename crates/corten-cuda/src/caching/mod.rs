//! The caching allocators of device memory and of pinned memory, as logic over the traits [`RawMem`] and
//! [`RawHostMem`].
//!
//! Nothing here calls the driver. The README of this folder states the invariants.

mod blocks;
mod config;
mod device;
mod events;
mod expandable;
mod host;
mod oom;
mod raw;
mod release;
mod snapshot;
mod stats;

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use corten_core::{Result, bail, ensure, err};

pub use config::{
    AllocConfig, Backend, MIN_BLOCK, MIN_LARGE_ALLOC, ROUND_LARGE, ReserveSize, SMALL_SEGMENT,
    SMALL_SIZE,
};
pub use host::{HostStats, PinnedAllocator, PinnedBlockInfo, TimeStat};
pub use oom::format_size;
pub use raw::{
    DeviceMemory, PoolId, RawError, RawHostMem, RawMem, RawStreams, StreamId, VirtualMemory,
};
pub use snapshot::{
    AllocationContext, BlockInfo, BlockState, Context, ContextRecorder, HistoryOptions,
    RecordContext, SegmentInfo, Snapshot, TraceAction, TraceEntry,
};
pub use stats::{DeviceStats, Stat, StatArray};

use device::{DeviceState, PoolRoute};

impl From<RawError> for corten_core::Error {
    fn from(error: RawError) -> Self {
        match error {
            RawError::OutOfMemory => err!(OutOfMemory, "CUDA error: out of memory"),
            RawError::Driver(error) => error,
        }
    }
}

/// Frees memory of this allocator when it runs short; true if it freed some.
pub type FreeMemoryCallback = Box<dyn Fn() -> bool + Send + Sync>;

/// Is told of out-of-memory errors: device, bytes of the segment that was asked for, memory of the device.
pub type OutOfMemoryObserver = Box<dyn Fn(usize, u64, DeviceMemory) + Send + Sync>;

thread_local! {
    /// Whether this thread runs free-memory callbacks, which may allocate but not start them again.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The caching allocator of all devices, with the rules of PyTorch's.
///
/// Freed blocks stay with the stream that they were allocated on: on it they are reused at once, because its work
/// is ordered. Every method may be called from any thread. Addresses are multiples of 512.
pub struct CachingAllocator<R: RawMem> {
    raw: R,
    devices: Box<[Mutex<DeviceState<R::Event>>]>,
    callbacks: RwLock<Vec<FreeMemoryCallback>>,
    observers: RwLock<Vec<OutOfMemoryObserver>>,
}

impl<R: RawMem> CachingAllocator<R> {
    /// An allocator for `devices` devices, which touches none of them before the first allocation.
    pub fn new(raw: R, devices: usize, config: AllocConfig) -> Self {
        let config = Arc::new(config);
        let states =
            (0..devices).map(|device| Mutex::new(DeviceState::new(device, config.clone())));
        Self {
            raw,
            devices: states.collect(),
            callbacks: RwLock::default(),
            observers: RwLock::default(),
        }
    }

    /// What it allocates from.
    pub fn raw(&self) -> &R {
        &self.raw
    }

    /// The number of devices.
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    fn lock(&self, device: usize) -> Result<MutexGuard<'_, DeviceState<R::Event>>> {
        let state = self.devices.get(device).ok_or_else(|| {
            err!(Runtime, "Allocator not initialized for device {device}: did you call init?")
        })?;
        Ok(state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The context of the caller, if the history wants it for `when`.
    fn context(&self, device: usize, when: RecordContext) -> Result<Option<Context>> {
        let recorder = self.lock(device)?.history.recorder(when).cloned();
        Ok(recorder.and_then(|recorder| recorder()))
    }

    /// Allocates `bytes` for work on `stream`. No bytes are address 0.
    ///
    /// An out-of-memory error has PyTorch's words, and explains where the memory is.
    pub fn malloc(&self, device: usize, bytes: u64, stream: StreamId) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        if bytes >= oom::EXBIBYTE {
            self.lock(device)?.stats.num_ooms += 1;
            return Err(oom::absurd_size());
        }
        let mut state = self.lock(device)?;
        let mut context = None;
        if state.history.recorder(RecordContext::State).is_some() {
            drop(state);
            context = self.context(device, RecordContext::State)?;
            state = self.lock(device)?;
        }
        state.poll(&self.raw)?;
        let mut request = state.request(bytes, stream, context);
        if let Some(id) = state.take_cached(&request) {
            return Ok(state.hand_out(id, &request));
        }
        if self.has_callbacks() {
            drop(state);
            let freed = self.run_callbacks();
            state = self.lock(device)?;
            request = state.request(bytes, stream, request.context);
            if freed && let Some(id) = state.take_cached(&request) {
                return Ok(state.hand_out(id, &request));
            }
        }
        match state.allocate(&self.raw, &request)? {
            Some(id) => Ok(state.hand_out(id, &request)),
            None => {
                let (error, memory) = state.out_of_memory(&self.raw, &request);
                drop(state);
                self.notify_observers(device, request.segment_size, memory);
                Err(error)
            }
        }
    }

    /// Frees what [`CachingAllocator::malloc`] returned. The block is reused on its stream at once, elsewhere
    /// never; streams that [`CachingAllocator::record_stream`] named are waited for by events.
    pub fn free(&self, device: usize, address: u64) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        let mut state = self.lock(device)?;
        let mut context = None;
        if state.history.recorder(RecordContext::All).is_some() {
            drop(state);
            context = self.context(device, RecordContext::All)?;
            state = self.lock(device)?;
        }
        let (id, streams) = state.begin_free(address, context)?;
        if streams.is_empty() {
            state.finish_free(id);
            return Ok(());
        }
        if self.raw.is_capturing(device) {
            state.pending.defer(id);
            return Ok(());
        }
        drop(state);
        // Recording takes the driver's time; nobody touches the block while it has streams.
        let events: Vec<_> =
            streams.iter().map(|&stream| self.raw.record_event(device, stream)).collect();
        let mut state = self.lock(device)?;
        state.blocks[id].stream_uses.clear();
        let mut result = Ok(());
        for (stream, event) in streams.into_iter().zip(events) {
            match event {
                Ok(event) => {
                    state.blocks[id].event_count += 1;
                    state.pending.push(stream, event, id);
                }
                Err(error) => {
                    state.blocks[id].stream_uses.push(stream);
                    result = Err(error.into());
                }
            }
        }
        if result.is_err() {
            state.pending.defer(id);
        }
        result
    }

    /// Says that `stream` uses the block at `address`, so that after a free it is not reused before the work that
    /// the stream has then is done. Its own stream needs none of this.
    pub fn record_stream(&self, device: usize, address: u64, stream: StreamId) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        let mut state = self.lock(device)?;
        let id = state.blocks.live(address);
        let id =
            id.ok_or_else(|| err!(Runtime, "No allocated block can be found at {address:#x}"))?;
        let block = &mut state.blocks[id];
        if stream != block.stream && !block.stream_uses.contains(&stream) {
            block.stream_uses.push(stream);
        }
        Ok(())
    }

    /// Whether the program holds a block at `address`.
    pub fn is_block(&self, device: usize, address: u64) -> Result<bool> {
        Ok(self.lock(device)?.blocks.live(address).is_some())
    }

    /// Gives everything that is cached on all devices back to them, or what `pool` caches if that is a private
    /// pool that nobody uses any more.
    pub fn empty_cache(&self, pool: PoolId) -> Result<()> {
        for device in 0..self.devices.len() {
            self.empty_device_cache(device, pool)?;
        }
        Ok(())
    }

    /// As [`CachingAllocator::empty_cache`], of one device.
    pub fn empty_device_cache(&self, device: usize, pool: PoolId) -> Result<()> {
        let mut state = self.lock(device)?;
        // A device that has not been touched stays so.
        if state.blocks.is_empty() { Ok(()) } else { state.release_cached(&self.raw, pool) }
    }

    /// The segment that `address` lies in, as an address and a size: what another process has to open to reach a
    /// block.
    pub fn base_allocation(&self, device: usize, address: u64) -> Result<(u64, u64)> {
        let state = self.lock(device)?;
        let Some(mut first) = state.blocks.live(address) else {
            bail!(Runtime, "invalid device pointer: {address:#x}")
        };
        ensure!(
            state.blocks[first].expandable.is_none(),
            Runtime,
            "Tensors allocated with expandable_segments:True cannot be shared between processes. Consider using \
             expandable_segments:False in data loading workers via \
             torch.cuda.memory._set_allocator_settings('expandable_segments:False')"
        );
        while let Some(previous) = state.blocks[first].previous {
            first = previous;
        }
        let size = state.blocks.chain(first).map(|id| state.blocks[id].size).sum();
        Ok((state.blocks[first].address, size))
    }

    /// Limits the memory of this process on `device` to a fraction of all there is.
    pub fn set_memory_fraction(&self, device: usize, fraction: f64) -> Result<()> {
        ensure!(
            (0.0..=1.0).contains(&fraction),
            Runtime,
            "invalid fraction:{fraction}. Please set within [0, 1]."
        );
        self.lock(device)?.fraction = Some(fraction);
        Ok(())
    }

    /// The fraction that was set, else 1.
    pub fn memory_fraction(&self, device: usize) -> Result<f64> {
        Ok(self.lock(device)?.fraction.unwrap_or(1.0))
    }

    /// The settings in force.
    pub fn config(&self) -> AllocConfig {
        let state = self.lock(0);
        state.map_or_else(|_| AllocConfig::default(), |state| (*state.config).clone())
    }

    /// Changes settings by a text as `PYTORCH_ALLOC_CONF` has it. Blocks that exist keep their sizes. With an
    /// error nothing is changed.
    pub fn set_config(&self, text: &str) -> Result<()> {
        let config = Arc::new(self.config().parse_over(text)?);
        ensure!(
            config.backend == self.config().backend,
            Runtime,
            "Allocator backend parsed at runtime != allocator backend parsed at load time, {} != {}",
            config.backend.name(),
            self.config().backend.name()
        );
        for device in 0..self.devices.len() {
            self.lock(device)?.configure(config.clone());
        }
        Ok(())
    }

    /// The counters of `device`.
    pub fn stats(&self, device: usize) -> Result<DeviceStats> {
        Ok(self.lock(device)?.stats.clone())
    }

    /// Forgets sums and event counters.
    pub fn reset_accumulated_stats(&self, device: usize) -> Result<()> {
        self.lock(device)?.stats.reset_accumulated();
        Ok(())
    }

    /// Lowers peaks to current values.
    pub fn reset_peak_stats(&self, device: usize) -> Result<()> {
        self.lock(device)?.stats.reset_peak();
        Ok(())
    }

    /// Segments, blocks and recorded events of `device`.
    pub fn snapshot(&self, device: usize) -> Result<Snapshot> {
        let mut state = self.lock(device)?;
        state.trace(TraceAction::Snapshot, 0, 0, StreamId(0), PoolId::DEFAULT, None);
        let segments = snapshot::segments(device, &state.blocks);
        Ok(Snapshot { segments, trace: state.history.entries() })
    }

    /// Starts or stops the history of all devices.
    pub fn record_history(&self, options: &HistoryOptions) -> Result<()> {
        for device in 0..self.devices.len() {
            self.lock(device)?.history.configure(options.clone());
        }
        Ok(())
    }

    /// Adds a callback that is asked for memory before the device is.
    pub fn add_free_memory_callback(&self, callback: FreeMemoryCallback) {
        self.callbacks.write().unwrap_or_else(PoisonError::into_inner).push(callback);
    }

    /// Adds an observer of out-of-memory errors.
    pub fn add_oom_observer(&self, observer: OutOfMemoryObserver) {
        self.observers.write().unwrap_or_else(PoisonError::into_inner).push(observer);
    }

    fn has_callbacks(&self) -> bool {
        let callbacks = self.callbacks.read().unwrap_or_else(PoisonError::into_inner);
        !callbacks.is_empty() && !IN_CALLBACK.get()
    }

    /// Runs all callbacks, whether or not an earlier one freed something.
    fn run_callbacks(&self) -> bool {
        IN_CALLBACK.set(true);
        let callbacks = self.callbacks.read().unwrap_or_else(PoisonError::into_inner);
        let mut freed = false;
        for callback in callbacks.iter() {
            freed |= callback();
        }
        IN_CALLBACK.set(false);
        freed
    }

    fn notify_observers(&self, device: usize, bytes: u64, memory: DeviceMemory) {
        let observers = self.observers.read().unwrap_or_else(PoisonError::into_inner);
        observers.iter().for_each(|observer| observer(device, bytes, memory));
    }
}

/// Private pools, for CUDA graphs and `MemPool`s.
impl<R: RawMem> CachingAllocator<R> {
    /// Sends allocations on the streams that `filter` accepts to the pool `id`, and counts one use of it more.
    pub fn begin_allocate_to_pool(
        &self,
        device: usize,
        id: PoolId,
        filter: Box<dyn Fn(StreamId) -> bool + Send>,
    ) -> Result<()> {
        let mut state = self.lock(device)?;
        ensure!(
            state.routes.iter().all(|route| route.id != id),
            Runtime,
            "beginAllocateToPool: already recording to mempool_id"
        );
        ensure!(id != PoolId::DEFAULT, Runtime, "the default pool is not a private pool");
        state.pools.owner(id).use_count += 1;
        state.routes.push(PoolRoute { id, filter });
        Ok(())
    }

    /// Ends the redirection. The pool keeps its memory until it is released.
    pub fn end_allocate_to_pool(&self, device: usize, id: PoolId) -> Result<()> {
        let mut state = self.lock(device)?;
        let Some(index) = state.routes.iter().position(|route| route.id == id) else {
            bail!(Runtime, "endAllocatePool: not currently recording to mempool_id")
        };
        state.routes.remove(index);
        Ok(())
    }

    /// Counts one use of the pool more, without a redirection.
    pub fn retain_pool(&self, device: usize, id: PoolId) -> Result<()> {
        ensure!(id != PoolId::DEFAULT, Runtime, "the default pool is not a private pool");
        self.lock(device)?.pools.owner(id).use_count += 1;
        Ok(())
    }

    /// Counts one use less. Without any its cached memory may go back to the device.
    pub fn release_pool(&self, device: usize, id: PoolId) -> Result<()> {
        let mut state = self.lock(device)?;
        let pool = state.pools.private.get_mut(&id).filter(|pool| pool.use_count > 0);
        let pool =
            pool.ok_or_else(|| err!(Runtime, "Could not find pool of id ({}, {})", id.0, id.1))?;
        pool.use_count -= 1;
        state.pools.prune();
        Ok(())
    }

    /// How many graphs and `MemPool`s use the pool.
    pub fn pool_use_count(&self, device: usize, id: PoolId) -> Result<usize> {
        Ok(self.lock(device)?.pools.private.get(&id).map_or(0, |pool| pool.use_count))
    }
}
