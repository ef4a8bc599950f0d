//! The out-of-memory error: PyTorch's sentences, then what holds the memory.

use std::collections::BTreeMap;
use std::fmt::Write;

use corten_core::{Error, err};

use super::config::MIB;
use super::device::{DeviceState, Request};
use super::raw::{DeviceMemory, PoolId, RawMem};
use super::snapshot::TraceAction;

/// Requests from here on are refused without asking anybody.
pub(super) const EXBIBYTE: u64 = 1 << 60;

/// PyTorch's advice while segments do not grow.
const HINT: &str = " If reserved but unallocated memory is large try setting \
                    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation \
                    for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html\
                    #optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";

/// PyTorch's advice while they do.
const EXPANDABLE_HINT: &str = " expandable_segments is enabled. If instead the process is running out of virtual address space (VSZ), \
     expandable segments may be over-reserving VA (each segment reserves ~9/8 of device memory, times the number \
     of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / \
     expandable_segments_reserve_by_class.";

/// How many holders are named.
const HOLDERS: usize = 5;

/// The error for requests of 2^60 bytes and more.
pub(super) fn absurd_size() -> Error {
    err!(OutOfMemory, "CUDA out of memory. Tried to allocate more than 1EB memory.")
}

/// A size as PyTorch prints it: `20.00 MiB`.
pub fn format_size(bytes: u64) -> String {
    let scaled = |unit: u64| bytes as f64 / unit as f64;
    if bytes <= 1 << 10 {
        format!("{bytes} bytes")
    } else if bytes <= MIB {
        format!("{:.2} KiB", scaled(1 << 10))
    } else if bytes <= 1 << 30 {
        format!("{:.2} MiB", scaled(MIB))
    } else {
        format!("{:.2} GiB", scaled(1 << 30))
    }
}

impl<E> DeviceState<E> {
    /// Counts and records that memory did not suffice for `request`, and explains it.
    pub(super) fn out_of_memory<R: RawMem<Event = E>>(
        &mut self,
        raw: &R,
        request: &Request,
    ) -> (Error, DeviceMemory) {
        let memory = raw.mem_info(self.device).unwrap_or_default();
        self.stats.num_ooms += 1;
        let (size, context) = (request.segment_size, request.context.clone());
        let (stream, pool) = (request.stream, request.pool.id);
        self.trace(TraceAction::Oom, memory.free, size, stream, pool, context);
        let limit = self.limit(raw).ok().flatten();
        let report = raw.process_report(self.device);
        if self.config.throw_on_cudamalloc_oom
            && limit.is_some_and(|limit| self.reserved.saturating_add(size) > limit)
        {
            self.stats.num_oom_rejections += 1;
            let message = format!(
                "CUDA out of memory. Allocation was preemptively rejected because it would exceed \
                 per_process_memory_fraction limit. Requested size: {}",
                format_size(request.bytes)
            );
            return (err!(OutOfMemory, "{message}{}", self.explanation(request)), memory);
        }
        let message = self.out_of_memory_message(request, memory, limit, &report);
        (err!(OutOfMemory, "{message}{}", self.explanation(request)), memory)
    }

    fn out_of_memory_message(
        &self,
        request: &Request,
        memory: DeviceMemory,
        limit: Option<u64>,
        report: &str,
    ) -> String {
        let allowed = limit.map_or(String::new(), |limit| format_size(limit) + " allowed; ");
        let held = self.blocks.iter().filter(|(_, block)| block.allocated);
        let private = held.filter(|(_, block)| block.pool.id != PoolId::DEFAULT);
        let private = match private.map(|(_, block)| block.size).sum() {
            0 => String::new(),
            bytes => {
                format!(
                    "with {} allocated in private pools (e.g., CUDA Graphs), ",
                    format_size(bytes)
                )
            }
        };
        let hint = if self.config.expandable_segments { EXPANDABLE_HINT } else { HINT };
        let allocated = self.stats.allocated_bytes.all.current.max(0) as u64;
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is free. \
             {report}{allowed}Of the allocated memory {} is allocated by PyTorch, {private}and {} is reserved by \
             PyTorch but unallocated.{hint}",
            format_size(request.segment_size),
            self.device,
            format_size(memory.total),
            format_size(memory.free),
            format_size(allocated),
            format_size(self.reserved.saturating_sub(allocated)),
        )
    }

    /// The largest free block, how fragmented the cache is and who holds the most.
    fn explanation(&self, request: &Request) -> String {
        let (mut free, mut largest, mut count, mut stuck, mut pending) = (0, 0, 0u64, 0, 0);
        for (_, block) in self.blocks.iter().filter(|(_, block)| block.mapped) {
            if block.is_free() {
                (free, count, largest) = (free + block.size, count + 1, largest.max(block.size));
                stuck += if block.is_split() { block.size } else { 0 };
            } else if !block.allocated {
                pending += block.size;
            }
        }
        let mut text = format!(
            "\nThe request was for {}. The largest free block has {}; {} are free in {count} blocks, of which {} \
             belong to segments that are partly in use.",
            format_size(request.bytes),
            format_size(largest),
            format_size(free),
            format_size(stuck),
        );
        if free > 0 {
            let fragmentation = 100.0 * (1.0 - largest as f64 / free as f64);
            let _ = write!(text, " Fragmentation: {fragmentation:.1} %.");
        }
        if pending > 0 {
            let _ = write!(text, " {} are freed but other streams use them.", format_size(pending));
        }
        let holders = self.largest_holders();
        if !holders.is_empty() {
            let _ = write!(text, " Largest holders: {}.", holders.join("; "));
        }
        text
    }

    /// Allocated memory by the place that allocated it, or by size where no history was recorded.
    fn largest_holders(&self) -> Vec<String> {
        let mut holders: BTreeMap<(Option<String>, u64), (u64, u64)> = BTreeMap::new();
        for (_, block) in self.blocks.iter().filter(|(_, block)| block.allocated) {
            let label = block.context.as_ref().map(|context| context.label());
            let size = if label.is_some() { 0 } else { block.size };
            let (count, bytes) = holders.entry((label, size)).or_default();
            (*count, *bytes) = (*count + 1, *bytes + block.size);
        }
        let mut holders: Vec<_> = holders.into_iter().collect();
        holders.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
        let named = holders.into_iter().take(HOLDERS).map(|((label, size), (count, bytes))| {
            let blocks = if count == 1 { "block" } else { "blocks" };
            match label {
                Some(label) => format!("{} in {count} {blocks} at {label}", format_size(bytes)),
                None => format!("{count} {blocks} of {}", format_size(size)),
            }
        });
        named.collect()
    }
}
