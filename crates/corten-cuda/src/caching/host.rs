//! The caching allocator of pinned host memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use corten_core::{Result, err};

use super::config::AllocConfig;
use super::raw::{RawError, RawHostMem, StreamId};
use super::stats::Stat;

/// Durations of calls of the driver, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeStat {
    /// Their sum.
    pub total: i64,
    /// The longest.
    pub max: i64,
    /// The shortest.
    pub min: i64,
    /// How many there were.
    pub count: i64,
}

impl TimeStat {
    fn add(&mut self, since: Instant) {
        let micros = i64::try_from(since.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.min = if self.count == 0 { micros } else { self.min.min(micros) };
        self.max = self.max.max(micros);
        self.total = self.total.saturating_add(micros);
        self.count += 1;
    }
}

/// What is counted for pinned memory, with the names of `torch.cuda.host_memory_stats()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Blocks that the driver has given, cached ones included.
    pub allocations: Stat,
    /// Their bytes.
    pub allocated_bytes: Stat,
    /// Blocks that the program holds or that a stream still uses.
    pub active_requests: Stat,
    /// Their bytes.
    pub active_bytes: Stat,
    /// Allocations of the driver.
    pub num_host_alloc: i64,
    /// Frees of the driver.
    pub num_host_free: i64,
    /// Their durations.
    pub host_alloc_time: TimeStat,
    /// Their durations.
    pub host_free_time: TimeStat,
}

impl HostStats {
    /// The keys and values of `torch.cuda.host_memory_stats()`, sorted by key.
    pub fn flatten(&self) -> Vec<(String, i64)> {
        let mut flat = Vec::new();
        self.active_bytes.flatten("active_bytes", &mut flat);
        self.active_requests.flatten("active_requests", &mut flat);
        self.allocated_bytes.flatten("allocated_bytes", &mut flat);
        self.allocations.flatten("allocations", &mut flat);
        let times =
            [("host_alloc_time", self.host_alloc_time), ("host_free_time", self.host_free_time)];
        for (name, time) in times {
            let average = time.total / time.count.max(1);
            flat.push((format!("{name}.avg"), average));
            flat.push((format!("{name}.count"), time.count));
            flat.push((format!("{name}.max"), time.max));
            flat.push((format!("{name}.min"), time.min));
            flat.push((format!("{name}.total"), time.total));
        }
        flat.push(("num_host_alloc".to_owned(), self.num_host_alloc));
        flat.push(("num_host_free".to_owned(), self.num_host_free));
        flat.sort();
        flat
    }

    /// Forgets sums, counts and durations.
    pub fn reset_accumulated(&mut self) {
        self.each(Stat::reset_accumulated);
        (self.num_host_alloc, self.num_host_free) = (0, 0);
        (self.host_alloc_time, self.host_free_time) = Default::default();
    }

    /// Lowers peaks to current values.
    pub fn reset_peak(&mut self) {
        self.each(Stat::reset_peak);
    }

    fn each(&mut self, f: fn(&mut Stat)) {
        f(&mut self.allocations);
        f(&mut self.allocated_bytes);
        f(&mut self.active_requests);
        f(&mut self.active_bytes);
    }

    fn owned(&mut self, blocks: i64, bytes: u64) {
        self.allocations.change(blocks);
        self.allocated_bytes.change(blocks * bytes as i64);
    }

    fn active(&mut self, blocks: i64, bytes: u64) {
        self.active_requests.change(blocks);
        self.active_bytes.change(blocks * bytes as i64);
    }
}

/// A block of pinned memory, for snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedBlockInfo {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Whether the program holds it.
    pub allocated: bool,
    /// Whether the program or a stream has it.
    pub active: bool,
}

/// A stream of a device.
type DeviceStream = (usize, StreamId);

struct PinnedBlock {
    size: u64,
    allocated: bool,
    event_count: usize,
    /// Streams that used it, until events stand for them.
    uses: Vec<DeviceStream>,
}

impl PinnedBlock {
    fn is_free(&self) -> bool {
        !self.allocated && self.event_count == 0 && self.uses.is_empty()
    }
}

struct HostState<E> {
    config: AllocConfig,
    blocks: BTreeMap<u64, PinnedBlock>,
    /// Free blocks by size and address.
    free: BTreeSet<(u64, u64)>,
    /// Events in the order of each stream: the first of each is asked, so none holds up another stream.
    pending: Vec<(DeviceStream, VecDeque<(E, u64)>)>,
    /// Blocks that were freed during a capture: their events are recorded when it is over.
    deferred: Vec<u64>,
    stats: HostStats,
}

/// The caching allocator of pinned host memory.
///
/// Sizes are powers of two. A freed block is reused, by any stream and by the host, when everything is complete
/// that the streams which used it had in front of the free.
pub struct PinnedAllocator<R: RawHostMem> {
    raw: R,
    state: Mutex<HostState<R::Event>>,
}

impl<R: RawHostMem> PinnedAllocator<R> {
    /// An allocator that holds nothing.
    pub fn new(raw: R, config: AllocConfig) -> Self {
        let state = HostState {
            config,
            blocks: BTreeMap::new(),
            free: BTreeSet::new(),
            pending: Vec::new(),
            deferred: Vec::new(),
            stats: HostStats::default(),
        };
        Self { raw, state: Mutex::new(state) }
    }

    /// What it allocates from.
    pub fn raw(&self) -> &R {
        &self.raw
    }

    fn lock(&self) -> MutexGuard<'_, HostState<R::Event>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates `bytes`. No bytes are address 0.
    pub fn malloc(&self, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        let mut state = self.lock();
        let size = state.round_size(bytes);
        if let Some(address) = state.take_cached(size) {
            return Ok(address);
        }
        state.poll(&self.raw)?;
        if let Some(address) = state.take_cached(size) {
            return Ok(address);
        }
        drop(state);
        // The driver takes its time: blocks that are cached are served meanwhile.
        let address = match self.alloc_host(size) {
            Err(RawError::OutOfMemory) => {
                self.empty_cache()?;
                self.alloc_host(size)?
            }
            other => other?,
        };
        let mut state = self.lock();
        let block = PinnedBlock { size, allocated: true, event_count: 0, uses: Vec::new() };
        state.blocks.insert(address, block);
        state.stats.owned(1, size);
        state.stats.active(1, size);
        Ok(address)
    }

    fn alloc_host(&self, size: u64) -> Result<u64, RawError> {
        let start = Instant::now();
        let address = self.raw.alloc_host(size)?;
        let mut state = self.lock();
        state.stats.num_host_alloc += 1;
        state.stats.host_alloc_time.add(start);
        Ok(address)
    }

    /// Says that `stream` uses the block that `address` lies in, as every asynchronous copy does. It returns
    /// whether there is such a block.
    pub fn record_stream(&self, address: u64, device: usize, stream: StreamId) -> bool {
        let mut state = self.lock();
        let Some((_, block)) = state.find(address) else { return false };
        if !block.uses.contains(&(device, stream)) {
            block.uses.push((device, stream));
        }
        true
    }

    /// The block that `address` lies in, as an address and a size: whether this allocator pinned it.
    pub fn block_of(&self, address: u64) -> Option<(u64, u64)> {
        self.lock().find(address).map(|(base, block)| (base, block.size))
    }

    /// Frees what [`PinnedAllocator::malloc`] returned.
    pub fn free(&self, address: u64) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        let mut state = self.lock();
        let block = state.blocks.get_mut(&address).filter(|block| block.allocated);
        let block = block.ok_or_else(|| err!(Runtime, "invalid host pointer: {address:#x}"))?;
        block.allocated = false;
        if block.uses.is_empty() {
            return state.complete(&self.raw, address);
        }
        let uses = block.uses.clone();
        if uses.iter().any(|&(device, _)| self.raw.is_capturing(device)) {
            state.deferred.push(address);
            return Ok(());
        }
        drop(state);
        // Recording takes the driver's time; nobody touches the block while it has streams.
        let events: Vec<_> =
            uses.iter().map(|&(device, stream)| self.raw.record_event(device, stream)).collect();
        let mut state = self.lock();
        let (mut unrecorded, mut count, mut result) = (Vec::new(), 0, Ok(()));
        for (stream, event) in uses.into_iter().zip(events) {
            match event {
                Ok(event) => {
                    state.push_event(stream, event, address);
                    count += 1;
                }
                Err(error) => {
                    unrecorded.push(stream);
                    result = Err(error.into());
                }
            }
        }
        if let Some(block) = state.blocks.get_mut(&address) {
            block.event_count += count;
            block.uses = unrecorded;
        }
        if result.is_err() {
            state.deferred.push(address);
        }
        result
    }

    /// Gives the blocks that nobody uses back to the driver.
    pub fn empty_cache(&self) -> Result<()> {
        let mut state = self.lock();
        state.poll(&self.raw)?;
        let mut result = Ok(());
        while let Some((_, address)) = state.free.pop_first() {
            result = result.and(state.release(&self.raw, address));
        }
        result
    }

    /// The counters.
    pub fn stats(&self) -> HostStats {
        self.lock().stats
    }

    /// Changes the counters, to reset them.
    pub fn update_stats(&self, update: fn(&mut HostStats)) {
        update(&mut self.lock().stats);
    }

    /// Changes the settings; blocks that exist keep their sizes.
    pub fn set_config(&self, config: AllocConfig) {
        self.lock().config = config;
    }

    /// All blocks by address.
    pub fn snapshot(&self) -> Vec<PinnedBlockInfo> {
        let state = self.lock();
        let blocks = state.blocks.iter().map(|(&address, block)| PinnedBlockInfo {
            address,
            size: block.size,
            allocated: block.allocated,
            active: !block.is_free(),
        });
        blocks.collect()
    }
}

impl<E> HostState<E> {
    /// Blocks above the limit of the cache go back to the driver, so rounding would only waste memory.
    fn round_size(&self, bytes: u64) -> u64 {
        let most = self.config.pinned_max_round_threshold.min(self.config.pinned_max_cached_size);
        if bytes > most { bytes } else { bytes.checked_next_power_of_two().unwrap_or(bytes) }
    }

    fn take_cached(&mut self, size: u64) -> Option<u64> {
        let end = size.checked_next_power_of_two().unwrap_or(size);
        let key = *self.free.range((size, 0)..=(end, u64::MAX)).next()?;
        self.free.remove(&key);
        if let Some(block) = self.blocks.get_mut(&key.1) {
            block.allocated = true;
        }
        self.stats.active(1, key.0);
        Some(key.1)
    }

    /// The block that the program holds and that `address` lies in.
    fn find(&mut self, address: u64) -> Option<(u64, &mut PinnedBlock)> {
        let (base, block) = self.blocks.range_mut(..=address).next_back()?;
        (address - base < block.size && block.allocated).then_some((*base, block))
    }

    fn push_event(&mut self, stream: DeviceStream, event: E, address: u64) {
        match self.pending.iter_mut().find(|queue| queue.0 == stream) {
            Some((_, queue)) => queue.push_back((event, address)),
            None => self.pending.push((stream, VecDeque::from([(event, address)]))),
        }
    }

    /// Frees the blocks whose events have completed, of devices on which nothing is captured.
    fn poll<R: RawHostMem<Event = E>>(&mut self, raw: &R) -> Result<()> {
        self.record_deferred(raw)?;
        let mut index = 0;
        while let Some(((device, _), queue)) = self.pending.get_mut(index) {
            let Some((event, address)) = queue.front() else {
                self.pending.swap_remove(index);
                continue;
            };
            if raw.is_capturing(*device) || !raw.query_event(event)? {
                index += 1;
                continue;
            }
            let address = *address;
            queue.pop_front();
            if let Some(block) = self.blocks.get_mut(&address) {
                block.event_count = block.event_count.saturating_sub(1);
            }
            self.complete(raw, address)?;
        }
        Ok(())
    }

    fn record_deferred<R: RawHostMem<Event = E>>(&mut self, raw: &R) -> Result<()> {
        for address in std::mem::take(&mut self.deferred) {
            let Some(block) = self.blocks.get_mut(&address) else { continue };
            let uses = std::mem::take(&mut block.uses);
            let mut result = Ok(());
            for (device, stream) in uses {
                let recorded = if raw.is_capturing(device) || result.is_err() {
                    None
                } else {
                    raw.record_event(device, stream).map_err(|error| result = Err(error)).ok()
                };
                let Some(block) = self.blocks.get_mut(&address) else { continue };
                match recorded {
                    Some(event) => {
                        block.event_count += 1;
                        self.push_event((device, stream), event, address);
                    }
                    None => block.uses.push((device, stream)),
                }
            }
            if self.blocks.get(&address).is_some_and(|block| !block.uses.is_empty()) {
                self.deferred.push(address);
            }
            result?;
        }
        Ok(())
    }

    /// Caches a block if nobody uses it, or gives it back if it is too large to be cached.
    fn complete<R: RawHostMem<Event = E>>(&mut self, raw: &R, address: u64) -> Result<()> {
        let block = self.blocks.get(&address).filter(|block| block.is_free());
        let Some(size) = block.map(|block| block.size) else { return Ok(()) };
        self.stats.active(-1, size);
        if size > self.config.pinned_max_cached_size {
            return self.release(raw, address);
        }
        self.free.insert((size, address));
        Ok(())
    }

    fn release<R: RawHostMem<Event = E>>(&mut self, raw: &R, address: u64) -> Result<()> {
        let Some(block) = self.blocks.remove(&address) else { return Ok(()) };
        let start = Instant::now();
        let result = raw.free_host(address, block.size);
        self.stats.num_host_free += 1;
        self.stats.host_free_time.add(start);
        self.stats.owned(-1, block.size);
        if self.config.pinned_free_catch_all { Ok(()) } else { Ok(result?) }
    }
}
