//! Pinned memory: size classes, streams, statistics, and random programs.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use corten_cuda::caching::{AllocConfig, HostStats, PinnedAllocator, StreamId};
use proptest::prelude::*;

use super::device::SimulatedDevice;
use super::model::cases;

const MIB: u64 = 1 << 20;
const STREAMS: u64 = 3;

type Allocator = PinnedAllocator<SimulatedDevice>;

fn allocator(capacity: u64, config: &str) -> Allocator {
    let config = AllocConfig::default().parse_over(config).unwrap();
    PinnedAllocator::new(SimulatedDevice::new(capacity, false), config)
}

#[test]
fn sizes_are_powers_of_two() {
    let allocator = allocator(64 * MIB, "");
    let sizes = [1, 2, 3, 1000, 1024, 1025].map(|bytes| {
        let address = allocator.malloc(bytes).unwrap();
        allocator.block_of(address).unwrap().1
    });
    assert_eq!(sizes, [1, 2, 4, 1024, 1024, 2048]);
    assert_eq!(allocator.malloc(0).unwrap(), 0);
    allocator.free(0).unwrap();
    let error = allocator.malloc(65 * MIB).unwrap_err();
    assert_eq!(error.message(), "CUDA error: out of memory");
    assert!(allocator.malloc(u64::MAX / 4).is_err());
}

#[test]
fn rounding_and_caching_have_limits() {
    let allocator =
        allocator(64 * MIB, "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:4");
    let above = allocator.malloc(MIB + 4096).unwrap();
    assert_eq!(allocator.block_of(above), Some((above, MIB + 4096)));
    allocator.free(above).unwrap();
    assert_eq!(allocator.stats().allocations.current, 1, "cached");
    let large = allocator.malloc(5 * MIB).unwrap();
    allocator.free(large).unwrap();
    let stats = allocator.stats();
    assert_eq!((stats.allocations.current, stats.num_host_free), (1, 1), "given back");
}

#[test]
fn a_block_waits_for_its_streams() {
    let allocator = allocator(64 * MIB, "");
    let device = allocator.raw();
    let [slow, quick] = [1u64, 2].map(|stream| {
        let address = allocator.malloc(1000).unwrap();
        assert!(allocator.record_stream(address + 999, 0, StreamId(stream)), "an interior pointer");
        device.launch(StreamId(stream));
        address
    });
    allocator.free(slow).unwrap();
    allocator.free(quick).unwrap();
    assert!(!allocator.record_stream(slow, 0, StreamId(1)), "it is freed");
    assert_eq!(allocator.block_of(slow), None);
    let stats = allocator.stats();
    assert_eq!((stats.active_requests.current, stats.active_bytes.current), (2, 2048));
    // The event of the first stream is the older one; that of the second is complete.
    device.advance(StreamId(2), 1);
    assert_eq!(allocator.malloc(1024).unwrap(), quick);
    assert_ne!(allocator.malloc(1024).unwrap(), slow);
    device.advance(StreamId(1), 1);
    assert_eq!(allocator.malloc(1024).unwrap(), slow);
    assert!(allocator.free(12345).is_err());
}

#[test]
fn captures_and_failures_keep_blocks() {
    let allocator = allocator(64 * MIB, "");
    let device = allocator.raw();
    let block = allocator.malloc(1000).unwrap();
    allocator.record_stream(block, 0, StreamId(1));
    device.capturing.store(true, Ordering::Relaxed);
    allocator.free(block).unwrap();
    let other = allocator.malloc(1000).unwrap();
    assert_ne!(other, block);
    device.capturing.store(false, Ordering::Relaxed);
    assert_eq!(allocator.malloc(1000).unwrap(), block);
    allocator.record_stream(block, 0, StreamId(1));
    device.fail_events.store(true, Ordering::Relaxed);
    assert!(allocator.free(block).is_err());
    device.fail_events.store(false, Ordering::Relaxed);
    assert_eq!(allocator.malloc(1000).unwrap(), block);
}

#[test]
fn the_cache_is_released_when_memory_is_short() {
    let allocator = allocator(MIB, "");
    let block = allocator.malloc(MIB).unwrap();
    allocator.free(block).unwrap();
    let half = allocator.malloc(MIB / 2).unwrap();
    let stats = allocator.stats();
    assert_eq!((stats.num_host_alloc, stats.num_host_free), (2, 1));
    assert_eq!((stats.allocations.current, stats.allocated_bytes.peak), (1, MIB as i64));
    allocator.free(half).unwrap();
    let blocks = allocator.snapshot();
    assert_eq!((blocks.len(), blocks[0].allocated, blocks[0].active), (1, false, false));
}

#[test]
fn statistics_have_pytorchs_keys() {
    let allocator = allocator(MIB, "");
    let block = allocator.malloc(1000).unwrap();
    let mut expected: Vec<String> = Vec::new();
    for stat in ["allocations", "allocated_bytes", "active_requests", "active_bytes"] {
        for metric in ["current", "peak", "allocated", "freed"] {
            expected.push(format!("{stat}.{metric}"));
        }
    }
    for time in ["host_alloc_time", "host_free_time"] {
        for metric in ["total", "max", "min", "count", "avg"] {
            expected.push(format!("{time}.{metric}"));
        }
    }
    expected.extend(["num_host_alloc".to_owned(), "num_host_free".to_owned()]);
    expected.sort();
    let flat = allocator.stats().flatten();
    assert_eq!(flat.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), expected);
    allocator.free(block).unwrap();
    allocator.update_stats(HostStats::reset_peak);
    allocator.update_stats(HostStats::reset_accumulated);
    let stats = allocator.stats();
    assert_eq!((stats.active_bytes.peak, stats.allocations.peak, stats.num_host_alloc), (0, 1, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Malloc { bytes: u64 },
    Free { index: usize },
    Use { index: usize, stream: u64 },
    Advance { stream: u64, steps: u64 },
    EmptyCache,
    Capture { on: bool },
}

fn steps() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![1..5000u64, 1..2 * MIB, (0..22u32).prop_map(|log| 1 << log)];
    prop_oneof![
        8 => bytes.prop_map(|bytes| Step::Malloc { bytes }),
        6 => any::<usize>().prop_map(|index| Step::Free { index }),
        6 => (any::<usize>(), 0..STREAMS).prop_map(|(index, stream)| Step::Use { index, stream }),
        3 => (0..STREAMS, 1..9u64).prop_map(|(stream, steps)| Step::Advance { stream, steps }),
        1 => Just(Step::EmptyCache),
        2 => (0..4u32).prop_map(|n| Step::Capture { on: n == 0 }),
    ]
}

/// What a stream does to pinned memory: the range, the stream and when it is done.
type Use = (u64, u64, StreamId, u64);

struct Model {
    allocator: Allocator,
    live: BTreeMap<u64, (u64, Vec<Use>)>,
    uses: Vec<Use>,
}

impl Model {
    fn nth(&self, index: usize) -> Option<u64> {
        let nth = index.checked_rem(self.live.len())?;
        self.live.keys().nth(nth).copied()
    }

    fn step(&mut self, step: &Step) {
        let device = self.allocator.raw();
        match *step {
            Step::Malloc { bytes } => self.malloc(bytes),
            Step::Free { index } => self.free(index),
            Step::Use { index, stream } => {
                let Some(address) = self.nth(index) else { return };
                let stream = StreamId(stream);
                assert!(self.allocator.record_stream(address, 0, stream));
                let at = self.allocator.raw().launch(stream);
                let (bytes, uses) = self.live.get_mut(&address).unwrap();
                uses.push((address, address + *bytes, stream, at));
            }
            Step::Advance { stream, steps } => device.advance(StreamId(stream), steps),
            Step::EmptyCache => {
                // The driver's free may not be called during a capture, and who empties the cache knows.
                if !device.capturing.load(Ordering::Relaxed) {
                    self.allocator.empty_cache().unwrap();
                }
            }
            Step::Capture { on } => device.capturing.store(on, Ordering::Relaxed),
        }
    }

    fn malloc(&mut self, bytes: u64) {
        let address = self.allocator.malloc(bytes).unwrap();
        let device = self.allocator.raw();
        let end = address + bytes;
        assert!(device.state().contains(address, bytes));
        if let Some((base, (size, _))) = self.live.range(..end).next_back() {
            assert!(base + size <= address, "live blocks overlap");
        }
        self.uses.retain(|used| !device.is_done(used.2, used.3));
        let apart = |used: &Use| used.1 <= address || end <= used.0;
        assert!(self.uses.iter().all(apart), "a stream still uses the block");
        self.live.insert(address, (bytes, Vec::new()));
    }

    fn free(&mut self, index: usize) {
        let Some(address) = self.nth(index) else { return };
        self.allocator.free(address).unwrap();
        if let Some((_, uses)) = self.live.remove(&address) {
            self.uses.extend(uses);
        }
        assert!(self.allocator.free(address).is_err(), "a second free is refused");
    }

    fn check(&self) {
        let blocks = self.allocator.snapshot();
        let count = |blocks: Vec<u64>| (blocks.len() as i64, blocks.iter().sum::<u64>() as i64);
        let all = count(blocks.iter().map(|block| block.size).collect());
        let active = blocks.iter().filter(|block| block.active);
        let active = count(active.map(|block| block.size).collect());
        let stats = self.allocator.stats();
        assert_eq!((stats.allocations.current, stats.allocated_bytes.current), all);
        assert_eq!((stats.active_requests.current, stats.active_bytes.current), active);
        assert_eq!(all.1 as u64, self.allocator.raw().state().used());
        let allocated = blocks.iter().filter(|block| block.allocated).map(|block| block.address);
        assert!(allocated.eq(self.live.keys().copied()));
    }

    fn finish(mut self) {
        self.allocator.raw().capturing.store(false, Ordering::Relaxed);
        while !self.live.is_empty() {
            self.free(0);
        }
        (0..STREAMS)
            .for_each(|stream| self.allocator.raw().advance(StreamId(stream), u64::MAX / 2));
        self.allocator.empty_cache().unwrap();
        assert_eq!(self.allocator.raw().state().used(), 0, "memory is lost");
        assert_eq!(self.allocator.raw().events.load(Ordering::Relaxed), 0, "events are lost");
        self.check();
    }
}

#[test]
fn random_programs_keep_the_rules() {
    proptest!(cases(1_000_000), |(steps in prop::collection::vec(steps(), 1..60))| {
        let allocator = allocator(1 << 40, "");
        let mut model = Model { allocator, live: BTreeMap::new(), uses: Vec::new() };
        for step in &steps {
            model.step(step);
            model.check();
        }
        model.finish();
    });
}
