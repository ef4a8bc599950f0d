//! One device: how requests are served from free blocks, and how blocks become free again.

use std::sync::Arc;

use smallvec::SmallVec;

use corten_core::{Result, err};

use super::blocks::{BlockId, BlockTable, MemoryBlock, PoolKey, PoolSet};
use super::config::{AllocConfig, MIN_BLOCK, SMALL_SIZE};
use super::events::PendingEvents;
use super::expandable::ExpandableSegment;
use super::raw::{PoolId, StreamId};
use super::snapshot::{Context, History, TraceAction, TraceEntry};
use super::stats::DeviceStats;

/// Which streams allocate from a private pool.
pub(super) struct PoolRoute {
    pub(super) id: PoolId,
    pub(super) filter: Box<dyn Fn(StreamId) -> bool + Send>,
}

/// An allocation that the program asks for.
#[derive(Clone)]
pub(super) struct Request {
    /// What was asked for.
    pub(super) bytes: u64,
    /// The size of its block.
    pub(super) size: u64,
    /// The size of the segment that is allocated if no block fits.
    pub(super) segment_size: u64,
    pub(super) stream: StreamId,
    pub(super) pool: PoolKey,
    pub(super) context: Option<Context>,
}

/// The state of a device's allocator, behind its lock.
pub(super) struct DeviceState<E> {
    pub(super) device: usize,
    pub(super) config: Arc<AllocConfig>,
    pub(super) blocks: BlockTable,
    pub(super) pools: PoolSet,
    /// The newest comes last and is asked first.
    pub(super) routes: Vec<PoolRoute>,
    pub(super) pending: PendingEvents<E>,
    pub(super) stats: DeviceStats,
    pub(super) history: History,
    /// Bytes that the device has given.
    pub(super) reserved: u64,
    /// The share of the device's memory that this process may have, if it was set.
    pub(super) fraction: Option<f64>,
    /// Bytes of the device, once they have been asked for.
    pub(super) total: Option<u64>,
    pub(super) segments: Vec<Option<ExpandableSegment>>,
}

impl<E> DeviceState<E> {
    pub(super) fn new(device: usize, config: Arc<AllocConfig>) -> Self {
        let mut state = Self {
            device,
            config: Arc::default(),
            blocks: BlockTable::default(),
            pools: PoolSet::default(),
            routes: Vec::new(),
            pending: PendingEvents::default(),
            stats: DeviceStats::default(),
            history: History::default(),
            reserved: 0,
            fraction: None,
            total: None,
            segments: Vec::new(),
        };
        state.configure(config);
        state
    }

    pub(super) fn configure(&mut self, config: Arc<AllocConfig>) {
        // An unlimited size is -1 there, as in PyTorch.
        self.stats.max_split_size = config.max_split_size as i64;
        if config.per_process_memory_fraction != self.config.per_process_memory_fraction {
            self.fraction = Some(config.per_process_memory_fraction);
        }
        self.config = config;
    }

    /// The block and the pool for `bytes` on `stream`.
    pub(super) fn request(
        &self,
        bytes: u64,
        stream: StreamId,
        context: Option<Context>,
    ) -> Request {
        let size = self.config.round_size(bytes);
        let route = self.routes.iter().rev().find(|route| (route.filter)(stream));
        let id = route.map_or(PoolId::DEFAULT, |route| route.id);
        let pool = PoolKey { id, small: size <= SMALL_SIZE };
        let segment_size = self.config.segment_size(size);
        Request { bytes, size, segment_size, stream, pool, context }
    }

    /// Takes the best fitting free block.
    pub(super) fn take_cached(&mut self, request: &Request) -> Option<BlockId> {
        self.pools.get(request.pool).searches += 1;
        let (size, id) = self.best_fit(request)?;
        let (oversize, split) = (size >= self.config.max_split_size, self.config.max_split_size);
        let excess = size - request.size;
        if oversize && (request.size < split || excess >= self.config.max_non_split_rounding) {
            return None;
        }
        self.take_free(id);
        Some(id)
    }

    fn best_fit(&mut self, request: &Request) -> Option<(u64, BlockId)> {
        let (config, blocks) = (&self.config, &self.blocks);
        let pool = self.pools.get(request.pool);
        let mut fits = pool.fits(request.stream, request.size);
        let mut best = *fits.next()?;
        if blocks[best.3].expandable.is_some() {
            if config.expandable_segments {
                // A block that can grow is as large as it can become, so that large ones are kept.
                let grown = |id| expandable_size(blocks, id);
                best = fits
                    .take_while(|key| grown(key.3) < grown(best.3))
                    .min_by_key(|key| grown(key.3))
                    .map_or(best, |key| *key);
            } else {
                best = *fits.find(|key| blocks[key.3].expandable.is_none())?;
            }
        }
        Some((best.1, best.3))
    }

    /// Gives a free block that is in no set to the program, without what it does not need.
    pub(super) fn hand_out(&mut self, id: BlockId, request: &Request) -> u64 {
        let (was_split, whole) = (self.blocks[id].is_split(), self.blocks[id].size);
        let mut inactive = Inactive::default();
        if was_split {
            inactive.subtract(whole);
        }
        if self.should_split(id, request.size) {
            let address = self.blocks[id].address + request.size;
            let rest = self.blocks.insert_behind(id, address, whole - request.size);
            self.blocks[id].size = request.size;
            inactive.add(whole - request.size);
            self.insert_free(rest);
        }
        self.apply(id, inactive);
        let block = &mut self.blocks[id];
        block.allocated = true;
        block.requested = request.bytes;
        block.context.clone_from(&request.context);
        let (address, size, small) = (block.address, block.size, block.pool.small);
        self.blocks.set_live(id);
        let (size, requested) = (size as i64, request.bytes as i64);
        self.stats.allocation.change(small, 1);
        self.stats.allocated_bytes.change(small, size);
        self.stats.active.change(small, 1);
        self.stats.active_bytes.change(small, size);
        self.stats.requested_bytes.change(small, requested);
        if size as u64 >= self.config.max_split_size {
            self.stats.oversize_allocations.change(1);
        }
        self.trace_block(TraceAction::Alloc, id, request.bytes, request.context.clone());
        address
    }

    fn should_split(&self, id: BlockId, size: u64) -> bool {
        let block = &self.blocks[id];
        let rest = block.size.saturating_sub(size);
        if block.pool.small || self.config.expandable_segments {
            rest >= MIN_BLOCK
        } else {
            size < self.config.max_split_size && rest > SMALL_SIZE
        }
    }

    /// Takes a block from the program. It returns the streams whose events must complete before the block is
    /// free; without any the caller frees it at once.
    pub(super) fn begin_free(
        &mut self,
        address: u64,
        context: Option<Context>,
    ) -> Result<(BlockId, SmallVec<[StreamId; 2]>)> {
        let taken = self.blocks.take_live(address);
        let id = taken.ok_or_else(|| err!(Runtime, "invalid device pointer: {address:#x}"))?;
        let block = &mut self.blocks[id];
        block.allocated = false;
        let (size, small) = (block.size, block.pool.small);
        // The streams stay until events stand for them: a block with streams is not free.
        let streams = block.stream_uses.clone();
        let requested = block.requested;
        self.stats.allocation.change(small, -1);
        self.stats.allocated_bytes.change(small, -(size as i64));
        if size >= self.config.max_split_size {
            self.stats.oversize_allocations.change(-1);
        }
        self.trace_block(TraceAction::FreeRequested, id, requested, context);
        Ok((id, streams))
    }

    /// Makes a block free that nobody uses any more.
    pub(super) fn finish_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        let (size, small) = (block.size as i64, block.pool.small);
        let requested = std::mem::take(&mut block.requested);
        let context = block.context.take();
        self.stats.active.change(small, -1);
        self.stats.active_bytes.change(small, -size);
        self.stats.requested_bytes.change(small, -(requested as i64));
        self.trace_block(TraceAction::FreeCompleted, id, requested, context);
        self.insert_coalesced(id);
    }

    /// Merges a block that is in no set with its free neighbours and puts it into its set.
    pub(super) fn insert_coalesced(&mut self, mut id: BlockId) -> BlockId {
        let mut inactive = Inactive::default();
        let (previous, next) = (self.blocks[id].previous, self.blocks[id].next);
        if let Some(next) = next.filter(|&next| self.can_merge(next, id)) {
            inactive.subtract(self.blocks[next].size);
            self.take_free(next);
            self.blocks.absorb_next(id);
        }
        if let Some(previous) = previous.filter(|&previous| self.can_merge(previous, id)) {
            inactive.subtract(self.blocks[previous].size);
            self.take_free(previous);
            self.blocks.absorb_next(previous);
            id = previous;
        }
        if self.blocks[id].is_split() {
            inactive.add(self.blocks[id].size);
        }
        self.apply(id, inactive);
        self.insert_free(id);
        id
    }

    fn can_merge(&self, neighbour: BlockId, id: BlockId) -> bool {
        let neighbour = &self.blocks[neighbour];
        neighbour.is_free() && neighbour.mapped == self.blocks[id].mapped
    }

    pub(super) fn insert_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        let pool = self.pools.get(block.pool);
        block.last_use = pool.searches;
        if block.mapped {
            pool.free.insert((block.stream, block.size, block.address, id));
        } else {
            pool.unmapped.insert((block.stream, 0, block.address, id));
        }
    }

    pub(super) fn take_free(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let pool = self.pools.get(block.pool);
        if block.mapped {
            pool.free.remove(&(block.stream, block.size, block.address, id));
        } else {
            pool.unmapped.remove(&(block.stream, 0, block.address, id));
        }
    }

    /// Counts free blocks that came and went, at once: what only moved is neither freed nor allocated.
    fn apply(&mut self, id: BlockId, inactive: Inactive) {
        let block = &self.blocks[id];
        if block.expandable.is_some() {
            return;
        }
        let small = block.pool.small;
        if inactive.count != 0 {
            self.stats.inactive_split.change(small, inactive.count);
        }
        if inactive.bytes != 0 {
            self.stats.inactive_split_bytes.change(small, inactive.bytes);
        }
    }

    /// Counts memory that came from the device, or went back to it if `bytes` is negative.
    pub(super) fn count_reserved(&mut self, pool: PoolKey, bytes: i64) {
        self.reserved = self.reserved.saturating_add_signed(bytes);
        self.stats.reserved_bytes.change(pool.small, bytes);
        if pool.id != PoolId::DEFAULT {
            let private = self.stats.reserved_bytes_by_private_pools.entry(pool.id).or_default();
            private.change(pool.small, bytes);
        }
        if bytes > 0 {
            self.stats.num_device_alloc += 1;
        } else {
            self.stats.num_device_free += 1;
        }
    }

    fn trace_block(
        &mut self,
        action: TraceAction,
        id: BlockId,
        size: u64,
        context: Option<Context>,
    ) {
        let MemoryBlock { address, stream, pool, .. } = self.blocks[id];
        self.trace(action, address, size, stream, pool.id, context);
    }

    pub(super) fn trace(
        &mut self,
        action: TraceAction,
        address: u64,
        size: u64,
        stream: StreamId,
        pool_id: PoolId,
        context: Option<Context>,
    ) {
        let entry = TraceEntry { action, address, size, stream, pool_id, time_us: 0, context };
        self.history.record(entry);
    }
}

/// The size that a block has with the unmapped range behind it.
fn expandable_size(blocks: &BlockTable, id: BlockId) -> u64 {
    let unmapped = blocks[id].next.map(|next| &blocks[next]).filter(|next| !next.mapped);
    blocks[id].size + unmapped.map_or(0, |next| next.size)
}

/// Free blocks of segments in use that an operation adds or takes.
#[derive(Default)]
struct Inactive {
    count: i64,
    bytes: i64,
}

impl Inactive {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes as i64;
    }

    fn subtract(&mut self, bytes: u64) {
        self.count -= 1;
        self.bytes -= bytes as i64;
    }
}
