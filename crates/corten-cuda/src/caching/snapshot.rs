//! What an allocator holds, and what it did: `torch.cuda.memory_snapshot()`.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::blocks::{BlockId, BlockTable};
use super::raw::{PoolId, StreamId};

/// Who allocated: what the recorder of the history gathered, stack frames for instance.
pub trait AllocationContext: Send + Sync {
    /// One line that names the place, for the explanation of an out-of-memory error.
    fn label(&self) -> String;

    /// The context itself, for whoever made it.
    fn as_any(&self) -> &dyn Any;
}

/// A shared context.
pub type Context = Arc<dyn AllocationContext>;

/// Gathers the context of the calling thread. It is called without the allocator's lock.
pub type ContextRecorder = Arc<dyn Fn() -> Option<Context> + Send + Sync>;

/// For which events contexts are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordContext {
    /// For none.
    #[default]
    Never,
    /// For the blocks that are active.
    State,
    /// Also for the allocations of the trace.
    Alloc,
    /// Also for the frees of the trace.
    All,
}

/// What a block is to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// The program holds it.
    ActiveAllocated,
    /// Freed, but a stream still uses it.
    ActivePendingFree,
    /// Free.
    Inactive,
}

impl BlockState {
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ActiveAllocated => "active_allocated",
            Self::ActivePendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }
}

/// A block of a segment.
#[derive(Clone)]
pub struct BlockInfo {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// What was asked for; 0 for an inactive block.
    pub requested_size: u64,
    /// Who has it.
    pub state: BlockState,
    /// Who allocated it, if history was recorded then.
    pub context: Option<Context>,
}

/// A segment, or a range of an expandable one that has memory.
#[derive(Clone)]
pub struct SegmentInfo {
    /// The index of its device.
    pub device: usize,
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub total_size: u64,
    /// Bytes of the blocks that the program holds.
    pub allocated_size: u64,
    /// Bytes of these and of the blocks that streams still use.
    pub active_size: u64,
    /// Bytes that were asked for, of active blocks.
    pub requested_size: u64,
    /// The stream whose pool it belongs to.
    pub stream: StreamId,
    /// Whether it holds large blocks: `segment_type` is `"large"`, else `"small"`.
    pub is_large: bool,
    /// The pool that it belongs to.
    pub segment_pool_id: PoolId,
    /// Whether it grows.
    pub is_expandable: bool,
    /// Its blocks by address.
    pub blocks: Vec<BlockInfo>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceAction {
    /// The program got a block.
    Alloc,
    /// The program freed a block.
    FreeRequested,
    /// The block became free.
    FreeCompleted,
    /// The device gave a segment.
    SegmentAlloc,
    /// A segment went back to the device.
    SegmentFree,
    /// A part of an expandable segment got memory.
    SegmentMap,
    /// A part of an expandable segment lost its memory.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// Memory did not suffice; the address is the device's free memory.
    Oom,
}

impl TraceAction {
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
        }
    }
}

/// One event of the history.
#[derive(Clone)]
pub struct TraceEntry {
    /// What happened.
    pub action: TraceAction,
    /// Where; for [`TraceAction::Oom`] the bytes that the device still had (`device_free`).
    pub address: u64,
    /// How many bytes.
    pub size: u64,
    /// On which stream.
    pub stream: StreamId,
    /// In which pool.
    pub pool_id: PoolId,
    /// Microseconds since 1970.
    pub time_us: u64,
    /// Who did it.
    pub context: Option<Context>,
}

/// The segments of a device and its history.
#[derive(Clone, Default)]
pub struct Snapshot {
    /// All segments by address.
    pub segments: Vec<SegmentInfo>,
    /// The recorded events, the oldest first.
    pub trace: Vec<TraceEntry>,
}

/// How the history is recorded.
#[derive(Clone, Default)]
pub struct HistoryOptions {
    /// Whether at all.
    pub enabled: bool,
    /// For which events the recorder is asked.
    pub when: RecordContext,
    /// How many events are kept.
    pub max_entries: usize,
    /// Gathers contexts.
    pub recorder: Option<ContextRecorder>,
    /// Whether what has been recorded is forgotten.
    pub clear: bool,
}

/// The recorded events of a device.
#[derive(Default)]
pub(super) struct History {
    options: HistoryOptions,
    entries: VecDeque<TraceEntry>,
}

impl History {
    pub(super) fn configure(&mut self, options: HistoryOptions) {
        if options.clear || !options.enabled {
            self.entries.clear();
        }
        self.options = options;
        let excess = self.entries.len().saturating_sub(self.options.max_entries);
        self.entries.drain(..excess);
    }

    /// The recorder, if contexts are wanted for `when`.
    pub(super) fn recorder(&self, when: RecordContext) -> Option<&ContextRecorder> {
        let wanted = self.options.enabled && self.options.when >= when;
        self.options.recorder.as_ref().filter(|_| wanted)
    }

    /// Appends `entry` unless history is off, without its time and without a context that is not wanted.
    pub(super) fn record(&mut self, mut entry: TraceEntry) {
        if !self.options.enabled || self.options.max_entries == 0 {
            return;
        }
        let least = match entry.action {
            TraceAction::FreeRequested | TraceAction::FreeCompleted => RecordContext::All,
            _ => RecordContext::Alloc,
        };
        if self.options.when < least {
            entry.context = None;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        entry.time_us = now.as_micros() as u64;
        if self.entries.len() >= self.options.max_entries {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    pub(super) fn entries(&self) -> Vec<TraceEntry> {
        self.entries.iter().cloned().collect()
    }
}

/// The segments of `blocks` by address; those of expandable segments end where memory does.
pub(super) fn segments(device: usize, blocks: &BlockTable) -> Vec<SegmentInfo> {
    let mut segments = Vec::new();
    for head in blocks.heads() {
        let chain: Vec<BlockId> = blocks.chain(head).collect();
        for range in chain.split(|&id| !blocks[id].mapped).filter(|range| !range.is_empty()) {
            segments.push(segment(device, blocks, range));
        }
    }
    segments
}

fn segment(device: usize, blocks: &BlockTable, range: &[BlockId]) -> SegmentInfo {
    let first = &blocks[range[0]];
    let mut segment = SegmentInfo {
        device,
        address: first.address,
        total_size: 0,
        allocated_size: 0,
        active_size: 0,
        requested_size: 0,
        stream: first.stream,
        is_large: !first.pool.small,
        segment_pool_id: first.pool.id,
        is_expandable: first.expandable.is_some(),
        blocks: Vec::with_capacity(range.len()),
    };
    for &id in range {
        let block = &blocks[id];
        let state = match (block.allocated, block.is_active()) {
            (true, _) => BlockState::ActiveAllocated,
            (false, true) => BlockState::ActivePendingFree,
            (false, false) => BlockState::Inactive,
        };
        let requested_size = if block.is_active() { block.requested } else { 0 };
        segment.total_size += block.size;
        segment.requested_size += requested_size;
        segment.allocated_size += if block.allocated { block.size } else { 0 };
        segment.active_size += if block.is_active() { block.size } else { 0 };
        let (address, size, context) = (block.address, block.size, block.context.clone());
        segment.blocks.push(BlockInfo { address, size, requested_size, state, context });
    }
    segment
}
