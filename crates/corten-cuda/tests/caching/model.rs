//! Random programs of allocations, frees, streams, pools, captures and limits, each step checked.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use corten_core::ErrorKind;
use corten_cuda::caching::{
    AllocConfig, BlockState, CachingAllocator, DeviceStats, MIN_BLOCK, PoolId, SMALL_SIZE,
    SegmentInfo, StatArray, StreamId,
};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::device::{Fault, SimulatedDevice};

const MIB: u64 = 1 << 20;
const STREAMS: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Malloc { bytes: u64, stream: u64 },
    Free { index: usize },
    Use { index: usize, stream: u64 },
    Advance { stream: u64, steps: u64 },
    EmptyCache,
    BeginPool { id: u64, stream: u64 },
    EndPool { id: u64 },
    ReleasePool { id: u64 },
    BeginCapture,
    EndCapture,
    Limit { percent: u64 },
    ResetStats,
}

const CONFIGS: [&str; 7] = [
    "",
    "max_split_size_mb:24",
    "max_split_size_mb:20,max_non_split_rounding_mb:20,garbage_collection_threshold:0.4",
    "garbage_collection_threshold:0.3",
    "roundup_power2_divisions:[1:2,4:4,>:8]",
    "expandable_segments:True",
    "expandable_segments:True,large_segment_size_mb:12,max_split_size_mb:30",
];

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..2048u64,
        3 => 1..=MIB,
        1 => Just(MIB),
        3 => MIB + 1..10 * MIB,
        3 => 10 * MIB..48 * MIB,
        1 => (1..40u64).prop_map(|n| n * MIB),
        1 => prop_oneof![Just(u64::MAX), Just(1 << 60), Just((1 << 60) - 1), Just(1 << 40)],
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let stream = || 0..STREAMS;
    prop_oneof![
        12 => (sizes(), stream()).prop_map(|(bytes, stream)| Step::Malloc { bytes, stream }),
        9 => any::<usize>().prop_map(|index| Step::Free { index }),
        5 => (any::<usize>(), stream()).prop_map(|(index, stream)| Step::Use { index, stream }),
        3 => (stream(), 1..20u64).prop_map(|(stream, steps)| Step::Advance { stream, steps }),
        1 => Just(Step::EmptyCache),
        1 => (1..3u64, stream()).prop_map(|(id, stream)| Step::BeginPool { id, stream }),
        1 => (1..3u64).prop_map(|id| Step::EndPool { id }),
        1 => (1..3u64).prop_map(|id| Step::ReleasePool { id }),
        1 => Just(Step::BeginCapture),
        2 => Just(Step::EndCapture),
        1 => (20..=100u64).prop_map(|percent| Step::Limit { percent }),
        1 => Just(Step::ResetStats),
    ]
}

/// Something that a stream does to a range of addresses.
struct Use {
    first: u64,
    end: u64,
    stream: StreamId,
    at: u64,
}

struct Model {
    allocator: CachingAllocator<SimulatedDevice>,
    config: AllocConfig,
    /// Live blocks: address to bytes and stream.
    live: BTreeMap<u64, (u64, StreamId)>,
    /// What streams may still do to memory that was freed.
    uses: Vec<Use>,
    /// What streams do to live blocks, by address.
    current: BTreeMap<u64, Vec<Use>>,
    open: Vec<u64>,
    use_counts: BTreeMap<u64, u64>,
    limit: u64,
    was_reset: bool,
}

impl Model {
    fn new(config: &str, capacity: u64, fault: Fault) -> Self {
        let config = AllocConfig::default().parse_over(config).unwrap();
        let mut device = SimulatedDevice::new(capacity, config.expandable_segments);
        device.fault = fault;
        Self {
            allocator: CachingAllocator::new(device, 1, config.clone()),
            config,
            live: BTreeMap::new(),
            uses: Vec::new(),
            current: BTreeMap::new(),
            open: Vec::new(),
            use_counts: BTreeMap::new(),
            limit: capacity,
            was_reset: false,
        }
    }

    fn device(&self) -> &SimulatedDevice {
        self.allocator.raw()
    }

    fn is_capturing(&self) -> bool {
        self.device().capturing.load(Ordering::Relaxed)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Malloc { bytes, stream } => self.malloc(bytes, StreamId(stream)),
            Step::Free { index } => self.free(index),
            Step::Use { index, stream } => self.record(index, StreamId(stream)),
            Step::Advance { stream, steps } => self.device().advance(StreamId(stream), steps),
            Step::EmptyCache => self.empty_cache(),
            Step::BeginPool { id, stream } => self.begin_pool(id, stream),
            Step::EndPool { id } => {
                let ended = self.allocator.end_allocate_to_pool(0, PoolId(0, id));
                assert_eq!(ended.is_ok(), self.open.contains(&id));
                self.open.retain(|open| *open != id);
            }
            Step::ReleasePool { id } => self.release_pool(id),
            Step::BeginCapture => self.device().capturing.store(true, Ordering::Relaxed),
            Step::EndCapture => self.device().capturing.store(false, Ordering::Relaxed),
            Step::Limit { percent } => {
                let fraction = percent as f64 / 100.0;
                self.allocator.set_memory_fraction(0, fraction).unwrap();
                self.limit = (fraction * self.device().capacity as f64) as u64;
            }
            Step::ResetStats => {
                self.allocator.reset_peak_stats(0).unwrap();
                self.allocator.reset_accumulated_stats(0).unwrap();
                self.was_reset = true;
            }
        }
    }

    fn malloc(&mut self, bytes: u64, stream: StreamId) {
        let before = self.device().state().used();
        let address = match self.allocator.malloc(0, bytes, stream) {
            Ok(address) => address,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                return self.check_out_of_memory(bytes, stream);
            }
        };
        let used = self.device().state().used();
        assert!(used <= before || used <= self.limit, "{used} of {}", self.limit);
        assert_eq!(address % MIN_BLOCK, 0);
        assert!(self.device().state().contains(address, bytes), "inside segments");
        let (end, device) = (address + bytes, self.allocator.raw());
        if let Some((base, (size, _))) = self.live.range(..end).next_back() {
            assert!(base + size <= address, "live blocks overlap");
        }
        self.uses.retain(|used| !device.is_done(used.stream, used.at));
        for used in &self.uses {
            let apart = used.end <= address || end <= used.first;
            assert!(apart || used.stream == stream, "{:?} still uses the block", used.stream);
        }
        self.live.insert(address, (bytes, stream));
        let at = device.launch(stream);
        self.current.insert(address, vec![Use { first: address, end, stream, at }]);
    }

    fn pool_of(&self, stream: StreamId) -> PoolId {
        // The filter of pool `id` accepts one stream, see `begin_pool`.
        let routed = self.open.iter().rev().find(|id| self.routed_stream(**id) == stream.0);
        routed.map_or(PoolId::DEFAULT, |id| PoolId(0, *id))
    }

    fn routed_stream(&self, id: u64) -> u64 {
        id % STREAMS
    }

    /// The cache is released, and what is left has no room.
    fn check_out_of_memory(&mut self, bytes: u64, stream: StreamId) {
        if bytes >= 1 << 60 || self.is_capturing() {
            return;
        }
        let (size, pool) = (self.config.round_size(bytes), self.pool_of(stream));
        let wanted = match (self.config.expandable_segments, size <= SMALL_SIZE) {
            (true, true) => 2 * MIB,
            (true, false) => size.next_multiple_of(self.config.large_segment_size),
            (false, _) => self.config.segment_size(size),
        };
        let used = self.device().state().used();
        assert!(used + wanted > self.limit, "{used} used, {wanted} wanted of {}", self.limit);
        for segment in self.segments() {
            let PoolId(_, id) = segment.segment_pool_id;
            let kept = self.use_counts.get(&id).is_some_and(|count| *count > 0);
            assert!(kept || segment.active_size > 0 || segment.is_expandable, "still cached");
            let serves = segment.stream == stream
                && segment.segment_pool_id == pool
                && segment.is_large == (size > SMALL_SIZE);
            if serves && self.config.max_split_size == u64::MAX {
                let inactive = segment.blocks.iter().filter(|b| b.state == BlockState::Inactive);
                assert!(inactive.map(|b| b.size).all(|free| free < size), "a block would fit");
            }
        }
    }

    fn key(&self, index: usize) -> Option<u64> {
        let nth = index.checked_rem(self.live.len())?;
        self.live.keys().nth(nth).copied()
    }

    fn free(&mut self, index: usize) {
        let Some(address) = self.key(index) else { return };
        if self.device().fault != Fault::FreeIsLost {
            self.allocator.free(0, address).unwrap();
        }
        self.live.remove(&address);
        self.uses.extend(self.current.remove(&address).into_iter().flatten());
        assert!(self.allocator.free(0, address).is_err(), "a second free is refused");
    }

    fn record(&mut self, index: usize, stream: StreamId) {
        let Some(address) = self.key(index) else { return };
        match self.device().fault {
            Fault::UseIsNotRecorded => {}
            Fault::FreedWhileHeld => self.allocator.free(0, address).unwrap(),
            _ => self.allocator.record_stream(0, address, stream).unwrap(),
        }
        let (bytes, _) = self.live[&address];
        let at = self.device().launch(stream);
        let used = Use { first: address, end: address + bytes, stream, at };
        self.current.entry(address).or_default().push(used);
    }

    fn begin_pool(&mut self, id: u64, _: u64) {
        let accepted = self.routed_stream(id);
        let filter = Box::new(move |stream: StreamId| stream.0 == accepted);
        let begun = self.allocator.begin_allocate_to_pool(0, PoolId(0, id), filter);
        assert_eq!(begun.is_err(), self.open.contains(&id));
        if begun.is_ok() {
            self.open.push(id);
            *self.use_counts.entry(id).or_default() += 1;
        }
    }

    fn release_pool(&mut self, id: u64) {
        // A pool that allocations go to is in use.
        let least = u64::from(self.open.contains(&id));
        let count = self.use_counts.entry(id).or_default();
        if *count > least {
            *count -= 1;
            self.allocator.release_pool(0, PoolId(0, id)).unwrap();
        }
        let count = *count as usize;
        assert_eq!(self.allocator.pool_use_count(0, PoolId(0, id)).unwrap(), count);
    }

    fn empty_cache(&mut self) {
        self.allocator.empty_cache(PoolId::DEFAULT).unwrap();
        if self.is_capturing() {
            return;
        }
        for segment in self.segments().iter().filter(|segment| !segment.is_expandable) {
            let PoolId(_, id) = segment.segment_pool_id;
            let kept = self.use_counts.get(&id).is_some_and(|count| *count > 0);
            assert!(kept || segment.active_size > 0, "still cached");
        }
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.allocator.snapshot(0).unwrap().segments
    }

    /// Segments are tiled, neighbours are merged, and what is live is what the program holds.
    fn check(&self) {
        let segments = self.segments();
        let mut allocated = Vec::new();
        for segment in &segments {
            let mut at = segment.address;
            let mut was_inactive = false;
            for block in &segment.blocks {
                assert_eq!(block.address, at);
                at += block.size;
                let inactive = block.state == BlockState::Inactive;
                assert!(!(inactive && was_inactive), "free neighbours are merged");
                was_inactive = inactive;
                if block.state == BlockState::ActiveAllocated {
                    allocated.push((block.address, (block.requested_size, segment.stream)));
                }
            }
            assert_eq!(at, segment.address + segment.total_size);
        }
        assert_eq!(allocated, Vec::from_iter(self.live.clone()));
        let total: u64 = segments.iter().map(|segment| segment.total_size).sum();
        assert_eq!(total, self.device().state().used());
        self.check_stats(&segments);
    }

    fn check_stats(&self, segments: &[SegmentInfo]) {
        let stats = self.allocator.stats(0).unwrap();
        let counted = recount(segments, self.config.max_split_size);
        let current = |array: &StatArray| {
            [array.all.current, array.small_pool.current, array.large_pool.current]
        };
        for (name, ours, theirs) in [
            ("allocation", &stats.allocation, &counted.allocation),
            ("allocated_bytes", &stats.allocated_bytes, &counted.allocated_bytes),
            ("segment", &stats.segment, &counted.segment),
            ("reserved_bytes", &stats.reserved_bytes, &counted.reserved_bytes),
            ("active", &stats.active, &counted.active),
            ("active_bytes", &stats.active_bytes, &counted.active_bytes),
            ("inactive_split", &stats.inactive_split, &counted.inactive_split),
            ("inactive_split_bytes", &stats.inactive_split_bytes, &counted.inactive_split_bytes),
            ("requested_bytes", &stats.requested_bytes, &counted.requested_bytes),
        ] {
            assert_eq!(current(ours), current(theirs), "{name}");
            for stat in [ours.all, ours.small_pool, ours.large_pool] {
                assert!(stat.peak >= stat.current && stat.current >= 0, "{name}");
                let difference = stat.allocated - stat.freed;
                assert!(self.was_reset || stat.current == difference, "{name}");
            }
        }
        let oversize = |stats: &DeviceStats| {
            (stats.oversize_allocations.current, stats.oversize_segments.current)
        };
        assert_eq!(oversize(&stats), oversize(&counted));
        for (id, private) in &stats.reserved_bytes_by_private_pools {
            let counted = counted.reserved_bytes_by_private_pools.get(id);
            assert_eq!(current(private), counted.map_or([0; 3], current));
        }
    }

    /// Nothing is lost: without live blocks and cache the device has all its memory.
    fn finish(mut self) {
        self.device().capturing.store(false, Ordering::Relaxed);
        while !self.live.is_empty() {
            self.free(0);
        }
        for id in 1..3 {
            let _ = self.allocator.end_allocate_to_pool(0, PoolId(0, id));
            while self.allocator.pool_use_count(0, PoolId(0, id)).unwrap() > 0 {
                self.allocator.release_pool(0, PoolId(0, id)).unwrap();
            }
        }
        self.allocator.empty_cache(PoolId::DEFAULT).unwrap();
        let state = self.device().state();
        assert_eq!((state.used(), state.reserved.len()), (0, 0), "memory is lost");
        drop(state);
        assert_eq!(self.device().events.load(Ordering::Relaxed), 0, "events are lost");
        assert!(self.segments().is_empty());
        self.check();
    }
}

/// The statistics by counting.
fn recount(segments: &[SegmentInfo], max_split_size: u64) -> DeviceStats {
    let mut stats = DeviceStats::default();
    for segment in segments {
        let (small, oversize) = (!segment.is_large, segment.total_size >= max_split_size);
        stats.reserved_bytes.change(small, segment.total_size as i64);
        if segment.segment_pool_id != PoolId::DEFAULT {
            let private = stats.reserved_bytes_by_private_pools.entry(segment.segment_pool_id);
            private.or_default().change(small, segment.total_size as i64);
        }
        stats.segment.change(small, i64::from(!segment.is_expandable));
        stats.oversize_segments.change(i64::from(oversize && !segment.is_expandable));
        for block in &segment.blocks {
            let size = block.size as i64;
            if block.state == BlockState::Inactive {
                if segment.blocks.len() > 1 && !segment.is_expandable {
                    stats.inactive_split.change(small, 1);
                    stats.inactive_split_bytes.change(small, size);
                }
                continue;
            }
            stats.active.change(small, 1);
            stats.active_bytes.change(small, size);
            stats.requested_bytes.change(small, block.requested_size as i64);
            if block.state == BlockState::ActiveAllocated {
                stats.allocation.change(small, 1);
                stats.allocated_bytes.change(small, size);
                stats.oversize_allocations.change(i64::from(block.size >= max_split_size));
            }
        }
    }
    stats
}

/// How many programs are run: as many as PROPTEST_CASES says, else a sample, or what the full tests want.
pub(crate) fn cases(full: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    let cases = match (std::env::var_os("PROPTEST_CASES"), std::env::var_os("CORTEN_TEST_FULL")) {
        (Some(_), _) => given.cases,
        (None, Some(_)) => full,
        (None, None) => 2_000,
    };
    ProptestConfig { cases, failure_persistence: None, ..given }
}

fn programs() -> impl Strategy<Value = (usize, u64, Vec<Step>)> {
    (0..CONFIGS.len(), 40..200u64, prop::collection::vec(steps(), 1..60))
}

fn run(mut model: Model, steps: &[Step]) {
    for step in steps {
        model.step(step);
        model.check();
    }
    model.finish();
}

#[test]
fn random_programs_keep_the_rules() {
    proptest!(cases(1_000_000), |((config, capacity, steps) in programs())| {
        run(Model::new(CONFIGS[config], capacity * MIB, Fault::None), &steps);
    });
}

#[test]
fn planted_faults_are_caught() {
    for fault in Fault::PLANTED {
        let config = ProptestConfig { cases: 2_000, max_shrink_iters: 0, ..cases(0) };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let caught =
            TestRunner::new_with_rng(config, rng).run(&programs(), |(config, capacity, steps)| {
                run(Model::new(CONFIGS[config], capacity * MIB, fault), &steps);
                Ok(())
            });
        assert!(caught.is_err(), "nobody notices {fault:?}");
    }
}
