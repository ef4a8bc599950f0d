//! Blocks, and the sets of free ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Index, IndexMut};

use smallvec::SmallVec;

use super::raw::{PoolId, StreamId};
use super::snapshot::Context;

/// The index of a block in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BlockId(u32);

/// Which set a block returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PoolKey {
    pub(super) id: PoolId,
    pub(super) small: bool,
}

/// A range of a segment. The blocks of a segment are a doubly linked list in the order of their addresses.
#[derive(Clone)]
pub(super) struct MemoryBlock {
    pub(super) address: u64,
    pub(super) size: u64,
    /// What the program asked for, before rounding.
    pub(super) requested: u64,
    pub(super) stream: StreamId,
    pub(super) pool: PoolKey,
    pub(super) previous: Option<BlockId>,
    pub(super) next: Option<BlockId>,
    /// Whether the program holds it.
    pub(super) allocated: bool,
    /// False for the part of an expandable segment that has no memory yet.
    pub(super) mapped: bool,
    /// Events that must complete before it is free.
    pub(super) event_count: usize,
    /// Other streams that used it, whose events are recorded when it is freed.
    pub(super) stream_uses: SmallVec<[StreamId; 2]>,
    /// The pool's count of searches when the block was last used; its age is what has been added since.
    pub(super) last_use: u64,
    /// Its expandable segment.
    pub(super) expandable: Option<usize>,
    /// Who allocated it, while history is recorded.
    pub(super) context: Option<Context>,
}

impl MemoryBlock {
    pub(super) fn new(address: u64, size: u64, stream: StreamId, pool: PoolKey) -> Self {
        Self {
            address,
            size,
            requested: 0,
            stream,
            pool,
            previous: None,
            next: None,
            allocated: false,
            mapped: true,
            event_count: 0,
            stream_uses: SmallVec::new(),
            last_use: 0,
            expandable: None,
            context: None,
        }
    }

    /// Whether it is a part of its segment only.
    pub(super) fn is_split(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }

    /// Whether nobody has it, neither the program nor a stream.
    pub(super) fn is_free(&self) -> bool {
        !self.allocated && self.event_count == 0 && self.stream_uses.is_empty()
    }

    /// Whether it is in the hands of the program, or of a stream.
    pub(super) fn is_active(&self) -> bool {
        self.mapped && !self.is_free()
    }
}

/// All blocks of a device, and those that the program holds by their addresses.
#[derive(Default)]
pub(super) struct BlockTable {
    slots: Vec<MemoryBlock>,
    vacant: Vec<BlockId>,
    live: HashMap<u64, BlockId, BuildHasherDefault<AddressHasher>>,
}

impl BlockTable {
    /// Adds a block. A table has fewer than 2^32: each has at least 512 bytes.
    pub(super) fn insert(&mut self, block: MemoryBlock) -> BlockId {
        if let Some(id) = self.vacant.pop() {
            self[id] = block;
            return id;
        }
        self.slots.push(block);
        BlockId((self.slots.len() - 1) as u32)
    }

    /// Forgets a block that nothing refers to any more.
    pub(super) fn remove(&mut self, id: BlockId) {
        self[id].size = 0;
        self[id].context = None;
        self.vacant.push(id);
    }

    /// Links a new block behind `id`, of the same stream, pool and segment.
    pub(super) fn insert_behind(&mut self, id: BlockId, address: u64, size: u64) -> BlockId {
        let front = &self[id];
        let mut block = MemoryBlock::new(address, size, front.stream, front.pool);
        block.expandable = front.expandable;
        block.mapped = front.mapped;
        block.last_use = front.last_use;
        block.previous = Some(id);
        block.next = front.next;
        let (next, new) = (block.next, self.insert(block));
        self[id].next = Some(new);
        if let Some(next) = next {
            self[next].previous = Some(new);
        }
        new
    }

    /// Adds the block behind `id` to it.
    pub(super) fn absorb_next(&mut self, id: BlockId) {
        let Some(next) = self[id].next else { return };
        let (size, after) = (self[next].size, self[next].next);
        self[id].size += size;
        self[id].next = after;
        if let Some(after) = after {
            self[after].previous = Some(id);
        }
        self.remove(next);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.len() == self.vacant.len()
    }

    /// The block that the program holds at `address`.
    pub(super) fn live(&self, address: u64) -> Option<BlockId> {
        self.live.get(&address).copied()
    }

    pub(super) fn set_live(&mut self, id: BlockId) {
        self.live.insert(self[id].address, id);
    }

    pub(super) fn take_live(&mut self, address: u64) -> Option<BlockId> {
        self.live.remove(&address)
    }

    /// All blocks, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BlockId, &MemoryBlock)> {
        let ids = (0..self.slots.len() as u32).map(BlockId);
        ids.zip(&self.slots).filter(|(_, block)| block.size > 0)
    }

    /// The first blocks of all segments, by address.
    pub(super) fn heads(&self) -> Vec<BlockId> {
        let heads = self.iter().filter(|(_, block)| block.previous.is_none());
        let mut heads: Vec<_> = heads.map(|(id, _)| id).collect();
        heads.sort_by_key(|&id| self[id].address);
        heads
    }

    /// A block and those behind it in its segment.
    pub(super) fn chain(&self, first: BlockId) -> impl Iterator<Item = BlockId> {
        std::iter::successors(Some(first), |&id| self[id].next)
    }
}

impl Index<BlockId> for BlockTable {
    type Output = MemoryBlock;

    fn index(&self, id: BlockId) -> &MemoryBlock {
        &self.slots[id.0 as usize]
    }
}

impl IndexMut<BlockId> for BlockTable {
    fn index_mut(&mut self, id: BlockId) -> &mut MemoryBlock {
        &mut self.slots[id.0 as usize]
    }
}

/// Addresses of blocks differ above their ninth bit; one multiplication spreads that over the word.
#[derive(Default)]
pub(super) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A free block as it is searched for: by stream, then by size, then by address.
pub(super) type FreeKey = (StreamId, u64, u64, BlockId);

/// The free blocks of one size class, small or large.
#[derive(Default)]
pub(super) struct BlockPool {
    pub(super) free: BTreeSet<FreeKey>,
    /// The parts of expandable segments that have no memory, by stream and address (size is 0 in these keys).
    pub(super) unmapped: BTreeSet<FreeKey>,
    /// How often a block has been searched for, the clock of the garbage collection.
    pub(super) searches: u64,
}

impl BlockPool {
    /// Free blocks of `stream` of at least `size`, the best fit first.
    pub(super) fn fits(&self, stream: StreamId, size: u64) -> impl Iterator<Item = &FreeKey> {
        self.free.range((stream, size, 0, BlockId(0))..).take_while(move |key| key.0 == stream)
    }

    /// Free blocks of `stream` of less than `size`, the largest first.
    pub(super) fn below(&self, stream: StreamId, size: u64) -> impl Iterator<Item = &FreeKey> {
        let (first, end) = ((stream, 0, 0, BlockId(0)), (stream, size, 0, BlockId(0)));
        self.free.range(first..end).rev()
    }

    /// Unmapped ranges of `stream` by address.
    pub(super) fn unmapped_of(&self, stream: StreamId) -> impl Iterator<Item = &FreeKey> {
        self.unmapped.range((stream, 0, 0, BlockId(0))..).take_while(move |key| key.0 == stream)
    }

    fn is_empty(&self) -> bool {
        self.free.is_empty() && self.unmapped.is_empty()
    }
}

/// The pools of a graph or a `MemPool`.
#[derive(Default)]
pub(super) struct PrivatePool {
    /// Graphs and `MemPool`s that use it. At 0 its segments may be released.
    pub(super) use_count: usize,
    /// Segments that it holds.
    pub(super) segments: usize,
    small: BlockPool,
    large: BlockPool,
}

/// The default pool and the private ones.
#[derive(Default)]
pub(super) struct PoolSet {
    default: PrivatePool,
    pub(super) private: BTreeMap<PoolId, PrivatePool>,
}

impl PoolSet {
    pub(super) fn owner(&mut self, id: PoolId) -> &mut PrivatePool {
        if id == PoolId::DEFAULT { &mut self.default } else { self.private.entry(id).or_default() }
    }

    pub(super) fn get(&mut self, key: PoolKey) -> &mut BlockPool {
        let owner = self.owner(key.id);
        if key.small { &mut owner.small } else { &mut owner.large }
    }

    /// Forgets the pools that nobody uses and that hold nothing.
    pub(super) fn prune(&mut self) {
        self.private.retain(|_, pool| {
            pool.use_count > 0
                || pool.segments > 0
                || !pool.small.is_empty()
                || !pool.large.is_empty()
        });
    }
}
