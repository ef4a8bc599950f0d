//! Expandable segments: ranges of addresses that get memory granule by granule.

use corten_core::Result;

use super::blocks::{BlockId, MemoryBlock};
use super::config::{ReserveSize, SMALL_SEGMENT, round_up};
use super::device::{DeviceState, Request};
use super::raw::{RawError, RawMem, VirtualMemory};
use super::snapshot::TraceAction;

/// A reserved range of addresses. Unmapped blocks of it begin and end at granules.
#[derive(Clone, Copy)]
pub(super) struct ExpandableSegment {
    address: u64,
    bytes: u64,
    granule: u64,
}

impl<E> DeviceState<E> {
    /// Takes a block for the request from a segment that grows, mapping what is missing.
    pub(super) fn allocate_expandable<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        memory: &dyn VirtualMemory,
        request: &Request,
    ) -> Result<Option<BlockId>> {
        let candidate = match self.find_range(request) {
            Some(id) => Some(id),
            None => self.reserve(raw, memory, request)?,
        };
        let Some(mut id) = candidate else { return Ok(None) };
        // The range is of free and unmapped blocks: each step maps the first unmapped one, which then merges
        // with the free ones around it.
        loop {
            let block = &self.blocks[id];
            let has = if block.mapped { block.size } else { 0 };
            if has >= request.size {
                self.take_free(id);
                return Ok(Some(id));
            }
            let unmapped = if block.mapped { block.next } else { Some(id) };
            let Some(unmapped) = unmapped.filter(|&id| !self.blocks[id].mapped) else {
                return Ok(None);
            };
            match self.map_range(raw, memory, unmapped, request.size - has)? {
                Some(mapped) => id = mapped,
                None => return Ok(None),
            }
        }
    }

    /// The first block of a range that the request fits into, if all of it is mapped.
    fn find_range(&mut self, request: &Request) -> Option<BlockId> {
        let blocks = &self.blocks;
        let pool = self.pools.get(request.pool);
        pool.unmapped_of(request.stream).find_map(|key| {
            let before = blocks[key.3].previous.filter(|&id| blocks[id].is_free());
            let first = before.unwrap_or(key.3);
            let free = blocks.chain(first).take_while(|&id| blocks[id].is_free());
            let mut bytes = 0u64;
            free.map(|id| blocks[id].size).find(|size| {
                bytes = bytes.saturating_add(*size);
                bytes >= request.size
            })?;
            Some(first)
        })
    }

    /// Reserves a new range; nothing if the request is larger than the device.
    fn reserve<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        memory: &dyn VirtualMemory,
        request: &Request,
    ) -> Result<Option<BlockId>> {
        let total = self.total_memory(raw)?;
        let granule =
            if request.pool.small { SMALL_SEGMENT } else { self.config.large_segment_size };
        let most = round_up(total.saturating_add(total / 8), granule);
        if request.size > most {
            return Ok(None);
        }
        let wanted = match self.config.expandable_segments_reserve {
            None => most,
            Some(ReserveSize::Bytes(bytes)) => bytes,
            Some(ReserveSize::Fraction(fraction)) => (fraction * total as f64) as u64,
        };
        let bytes = round_up(wanted.max(request.size), granule).min(most);
        let address = match memory.reserve(self.device, bytes) {
            Ok(address) => address,
            Err(RawError::OutOfMemory) => return Ok(None),
            Err(RawError::Driver(error)) => return Err(error),
        };
        let segment = ExpandableSegment { address, bytes, granule };
        let vacant = self.segments.iter().position(Option::is_none);
        let index = vacant.unwrap_or(self.segments.len());
        self.segments.resize(self.segments.len().max(index + 1), None);
        self.segments[index] = Some(segment);
        let mut block = MemoryBlock::new(address, bytes, request.stream, request.pool);
        block.mapped = false;
        block.expandable = Some(index);
        let id = self.blocks.insert(block);
        self.insert_free(id);
        self.pools.owner(request.pool.id).segments += 1;
        Ok(Some(id))
    }

    fn segment_of(&self, id: BlockId) -> Option<ExpandableSegment> {
        self.segments.get(self.blocks[id].expandable?).copied().flatten()
    }

    /// Backs the front of an unmapped block with memory, at least `bytes` or all of it. It returns the free
    /// block that this became a part of; nothing if memory does not suffice.
    fn map_range<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        memory: &dyn VirtualMemory,
        id: BlockId,
        bytes: u64,
    ) -> Result<Option<BlockId>> {
        let Some(ExpandableSegment { granule, .. }) = self.segment_of(id) else { return Ok(None) };
        let MemoryBlock { address, size, stream, pool, .. } = self.blocks[id];
        let bytes = round_up(bytes, granule).min(size);
        if self.exceeds_limit(raw, bytes)? {
            return Ok(None);
        }
        match self.map_granules(memory, address, bytes, granule) {
            Ok(()) => {}
            Err(RawError::OutOfMemory) => return Ok(None),
            Err(RawError::Driver(error)) => return Err(error),
        }
        self.take_free(id);
        if bytes < size {
            let rest = self.blocks.insert_behind(id, address + bytes, size - bytes);
            self.blocks[id].size = bytes;
            self.insert_free(rest);
        }
        self.blocks[id].mapped = true;
        self.count_reserved(pool, bytes as i64);
        self.trace(TraceAction::SegmentMap, address, bytes, stream, pool.id, None);
        Ok(Some(self.insert_coalesced(id)))
    }

    /// Maps all granules of a range or none.
    fn map_granules(
        &self,
        memory: &dyn VirtualMemory,
        address: u64,
        bytes: u64,
        granule: u64,
    ) -> Result<(), RawError> {
        for offset in (0..bytes).step_by(granule as usize) {
            if let Err(error) = memory.map(self.device, address + offset, granule) {
                for mapped in (0..offset).step_by(granule as usize) {
                    memory.unmap(self.device, address + mapped, granule)?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes the memory of the granules that lie in a free block, and gives the range back if it was the last.
    pub(super) fn unmap_free<R: RawMem<Event = E>>(&mut self, raw: &R, id: BlockId) -> Result<()> {
        let (Some(memory), Some(segment)) = (raw.virtual_memory(), self.segment_of(id)) else {
            return Ok(());
        };
        let MemoryBlock { address, size, stream, pool, .. } = self.blocks[id];
        let (granule, base) = (segment.granule, segment.address);
        let first = base + round_up(address - base, granule);
        let end = base + (address + size - base) / granule * granule;
        if first >= end {
            return Ok(());
        }
        self.take_free(id);
        let mut middle = id;
        if first > address {
            middle = self.blocks.insert_behind(id, first, address + size - first);
            self.blocks[id].size = first - address;
            self.insert_free(id);
        }
        if end < address + size {
            let rest = self.blocks.insert_behind(middle, end, address + size - end);
            self.blocks[middle].size = end - first;
            self.insert_free(rest);
        }
        self.blocks[middle].mapped = false;
        let granules = (first..end).step_by(granule as usize);
        let results = granules.map(|address| memory.unmap(self.device, address, granule));
        let result = results.fold(Ok(()), Result::and);
        self.count_reserved(pool, -((end - first) as i64));
        self.trace(TraceAction::SegmentUnmap, first, end - first, stream, pool.id, None);
        let whole = self.insert_coalesced(middle);
        result?;
        if self.blocks[whole].is_split() { Ok(()) } else { self.release_range(raw, whole) }
    }

    /// Gives a range back that is one unmapped block.
    pub(super) fn release_range<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        id: BlockId,
    ) -> Result<()> {
        let (Some(memory), Some(segment)) = (raw.virtual_memory(), self.segment_of(id)) else {
            return Ok(());
        };
        self.take_free(id);
        let (pool, index) = (self.blocks[id].pool, self.blocks[id].expandable);
        self.blocks.remove(id);
        if let Some(slot) = index.and_then(|index| self.segments.get_mut(index)) {
            *slot = None;
        }
        let owner = self.pools.owner(pool.id);
        owner.segments = owner.segments.saturating_sub(1);
        Ok(memory.release(self.device, segment.address, segment.bytes)?)
    }
}
