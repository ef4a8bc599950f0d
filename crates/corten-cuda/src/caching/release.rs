//! Segments: how memory comes from the device, and how it goes back.

use corten_core::{Error, Result};

use super::blocks::{BlockId, MemoryBlock, PoolKey};
use super::device::{DeviceState, Request};
use super::raw::{PoolId, RawError, RawMem};
use super::snapshot::TraceAction;

impl<E> DeviceState<E> {
    /// Serves a request for which no cached block fits: from the device, after releasing as much of the cache as
    /// it takes. Nothing means that memory does not suffice.
    pub(super) fn allocate<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        request: &Request,
    ) -> Result<Option<BlockId>> {
        let capturing = raw.is_capturing(self.device);
        if !capturing {
            self.collect_garbage(raw)?;
        }
        if let Some(id) = self.allocate_segment(raw, request)? {
            return Ok(Some(id));
        }
        if capturing {
            return Ok(None);
        }
        if self.release_oversize(raw, request)?
            && let Some(id) = self.allocate_segment(raw, request)?
        {
            return Ok(Some(id));
        }
        self.release_cached(raw, PoolId::DEFAULT)?;
        self.stats.num_alloc_retries += 1;
        // Blocks whose events were waited for may fit now, though their segments are in use.
        match self.take_cached(request) {
            Some(id) => Ok(Some(id)),
            None => self.allocate_segment(raw, request),
        }
    }

    fn allocate_segment<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        request: &Request,
    ) -> Result<Option<BlockId>> {
        if self.config.expandable_segments
            && let Some(memory) = raw.virtual_memory()
        {
            return self.allocate_expandable(raw, memory, request);
        }
        let size = request.segment_size;
        if self.exceeds_limit(raw, size)? {
            return Ok(None);
        }
        let address = match raw.alloc(self.device, size) {
            Ok(address) => address,
            Err(RawError::OutOfMemory) => return Ok(None),
            Err(RawError::Driver(error)) => return Err(error),
        };
        let pool = request.pool;
        self.count_reserved(pool, size as i64);
        self.stats.segment.change(pool.small, 1);
        self.pools.owner(pool.id).segments += 1;
        if size >= self.config.max_split_size {
            self.stats.oversize_segments.change(1);
        }
        let context = request.context.clone();
        self.trace(TraceAction::SegmentAlloc, address, size, request.stream, pool.id, context);
        Ok(Some(self.blocks.insert(MemoryBlock::new(address, size, request.stream, pool))))
    }

    /// Whether `bytes` more are above the limit of this process.
    pub(super) fn exceeds_limit<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        bytes: u64,
    ) -> Result<bool> {
        let Some(limit) = self.limit(raw)? else { return Ok(false) };
        Ok(self.reserved.saturating_add(bytes) > limit)
    }

    /// The bytes that this process may have, if that was set.
    pub(super) fn limit<R: RawMem<Event = E>>(&mut self, raw: &R) -> Result<Option<u64>> {
        let Some(fraction) = self.fraction else { return Ok(None) };
        Ok(Some((fraction * self.total_memory(raw)? as f64) as u64))
    }

    pub(super) fn total_memory<R: RawMem<Event = E>>(&mut self, raw: &R) -> Result<u64> {
        match self.total {
            Some(total) => Ok(total),
            None => Ok(*self.total.insert(raw.mem_info(self.device)?.total)),
        }
    }

    /// Releases everything that is cached, in the default pool and in private pools that nobody uses; of one
    /// private pool if `id` names one. It waits for pending events.
    pub(super) fn release_cached<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        id: PoolId,
    ) -> Result<()> {
        if raw.is_capturing(self.device) {
            return Ok(());
        }
        self.synchronize_events(raw)?;
        let unused = self.pools.private.iter().filter(|(_, pool)| pool.use_count == 0);
        let mut ids: Vec<PoolId> = unused.map(|(id, _)| *id).collect();
        if id == PoolId::DEFAULT {
            ids.push(id);
        } else {
            ids.retain(|unused| *unused == id);
        }
        let keys = ids.into_iter().flat_map(|id| [true, false].map(|small| PoolKey { id, small }));
        let result = keys.map(|key| self.release_pool(raw, key)).fold(Ok(()), Result::and);
        self.pools.prune();
        result
    }

    fn release_pool<R: RawMem<Event = E>>(&mut self, raw: &R, key: PoolKey) -> Result<()> {
        let pool = self.pools.get(key);
        let free: Vec<BlockId> = pool.free.iter().map(|key| key.3).collect();
        let unmapped: Vec<BlockId> = pool.unmapped.iter().map(|key| key.3).collect();
        let mut result = Ok(());
        for id in unmapped {
            // A range that never got memory because the device had none.
            if !self.blocks[id].is_split() {
                result = result.and(self.release_range(raw, id));
            }
        }
        for id in free {
            if self.blocks[id].expandable.is_some() {
                result = result.and(self.unmap_free(raw, id));
            } else if !self.blocks[id].is_split() {
                result = result.and(self.release_segment(raw, id));
            }
        }
        result
    }

    /// Gives the segment of a free block that is all of it back to the device.
    fn release_segment<R: RawMem<Event = E>>(&mut self, raw: &R, id: BlockId) -> Result<()> {
        self.take_free(id);
        let MemoryBlock { address, size, stream, pool, .. } = self.blocks[id];
        self.blocks.remove(id);
        self.count_reserved(pool, -(size as i64));
        self.stats.segment.change(pool.small, -1);
        let owner = self.pools.owner(pool.id);
        owner.segments = owner.segments.saturating_sub(1);
        if size >= self.config.max_split_size {
            self.stats.oversize_segments.change(-1);
        }
        self.trace(TraceAction::SegmentFree, address, size, stream, pool.id, None);
        raw.free(self.device, address, size).map_err(Error::from)
    }

    /// Releases blocks that are too large to be split, until the request has room; whether it has.
    fn release_oversize<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        request: &Request,
    ) -> Result<bool> {
        let least = self.config.max_split_size;
        if least == u64::MAX {
            return Ok(false);
        }
        let released = self.oversize_blocks(request, least);
        for &id in &released {
            self.release_segment(raw, id)?;
        }
        Ok(!released.is_empty())
    }

    /// Free segments of at least `least` bytes that together have room for the request: one that is large
    /// enough, else several, the largest first. None if they do not suffice.
    fn oversize_blocks(&mut self, request: &Request, least: u64) -> Vec<BlockId> {
        let (wanted, blocks) = (request.size.max(least), &self.blocks);
        let whole = |id| blocks[id].expandable.is_none() && !blocks[id].is_split();
        let pool = self.pools.get(request.pool);
        if let Some(key) = pool.fits(request.stream, wanted).find(|key| whole(key.3)) {
            return vec![key.3];
        }
        let (mut chosen, mut total) = (Vec::new(), 0u64);
        let oversize = pool.below(request.stream, wanted).take_while(|key| key.1 >= least);
        for key in oversize.filter(|key| whole(key.3)) {
            chosen.push(key.3);
            total = total.saturating_add(key.1);
            if total >= wanted {
                return chosen;
            }
        }
        Vec::new()
    }

    /// Releases the large segments that have not been used for longest, while more than the threshold of the
    /// process's limit is reserved.
    fn collect_garbage<R: RawMem<Event = E>>(&mut self, raw: &R) -> Result<()> {
        let threshold = self.config.garbage_collection_threshold;
        if threshold <= 0.0 {
            return Ok(());
        }
        let Some(limit) = self.limit(raw)? else { return Ok(()) };
        let allowed = (threshold * limit as f64) as u64;
        let target = self.reserved.saturating_sub(allowed);
        let mut reclaimed = 0u64;
        while reclaimed < target {
            let old = self.oldest_half();
            if old.is_empty() {
                break;
            }
            for id in old {
                if reclaimed < target {
                    reclaimed = reclaimed.saturating_add(self.blocks[id].size);
                    self.release_segment(raw, id)?;
                }
            }
        }
        Ok(())
    }

    /// Free large segments of at least average age.
    fn oldest_half(&mut self) -> Vec<BlockId> {
        let pool = self.pools.get(PoolKey { id: PoolId::DEFAULT, small: false });
        let blocks = &self.blocks;
        let now = pool.searches;
        let whole = pool
            .free
            .iter()
            .map(|key| key.3)
            .filter(|&id| blocks[id].expandable.is_none() && !blocks[id].is_split());
        let ages: Vec<(BlockId, u64)> =
            whole.map(|id| (id, now.saturating_sub(blocks[id].last_use))).collect();
        let sum: u64 = ages.iter().map(|(_, age)| age).sum();
        let average = sum / (ages.len() as u64).max(1);
        ages.into_iter().filter(|(_, age)| *age >= average).map(|(id, _)| id).collect()
    }
}
