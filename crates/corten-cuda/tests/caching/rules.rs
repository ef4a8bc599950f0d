//! The rules one by one: which block, which segment, which words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corten_core::ErrorKind;
use corten_cuda::caching::{
    AllocConfig, AllocationContext, BlockState, CachingAllocator, HistoryOptions, PoolId,
    RecordContext, StreamId, TraceAction, format_size,
};

use super::device::SimulatedDevice;

const MIB: u64 = 1 << 20;
const S0: StreamId = StreamId(0);
const S1: StreamId = StreamId(1);

type Allocator = CachingAllocator<SimulatedDevice>;

fn allocator(capacity_mib: u64, config: &str) -> Allocator {
    let config = AllocConfig::default().parse_over(config).unwrap();
    let device = SimulatedDevice::new(capacity_mib * MIB, config.expandable_segments);
    CachingAllocator::new(device, 1, config)
}

fn malloc(allocator: &Allocator, bytes: u64) -> u64 {
    allocator.malloc(0, bytes, S0).unwrap()
}

fn out_of_memory(allocator: &Allocator, bytes: u64) -> String {
    let error = allocator.malloc(0, bytes, S0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    error.message().to_owned()
}

#[test]
fn nothing_is_address_zero() {
    let allocator = allocator(64, "");
    assert_eq!(allocator.malloc(0, 0, S0).unwrap(), 0);
    allocator.free(0, 0).unwrap();
    allocator.record_stream(0, 0, S1).unwrap();
    assert!(allocator.malloc(1, 1, S0).is_err(), "there is one device");
}

#[test]
fn segments_and_splits() {
    let allocator = allocator(256, "");
    let reserved = || allocator.stats(0).unwrap().reserved_bytes.all.current as u64;
    let small = malloc(&allocator, 1000);
    assert_eq!(reserved(), 2 * MIB);
    assert_eq!(malloc(&allocator, 1), small + 1024);
    let large = malloc(&allocator, MIB + 1);
    assert_eq!(reserved(), 22 * MIB);
    assert_eq!(malloc(&allocator, 2 * MIB), large + MIB + 512);
    // From 10 MiB on a segment of its own, in steps of 2 MiB; up to 1 MiB of rest stays with the block.
    let own = malloc(&allocator, 21 * MIB);
    assert_eq!(reserved(), 44 * MIB);
    let segments = allocator.snapshot(0).unwrap().segments;
    let blocks: Vec<_> = segments.iter().map(|segment| segment.blocks.len()).collect();
    assert_eq!(blocks, [3, 3, 1]);
    assert_eq!(segments[2].blocks[0].size, 22 * MIB);
    assert_eq!(segments[2].blocks[0].requested_size, 21 * MIB);
    // The best fit is taken, and its neighbours are merged when it is freed.
    allocator.free(0, own).unwrap();
    assert_eq!(malloc(&allocator, 11 * MIB), large + 3 * MIB + 512);
    assert_eq!(malloc(&allocator, 18 * MIB), own);
}

#[test]
fn a_stream_has_its_own_blocks() {
    let allocator = allocator(64, "");
    let first = malloc(&allocator, 100);
    allocator.free(0, first).unwrap();
    assert_ne!(allocator.malloc(0, 100, S1).unwrap(), first);
    assert_eq!(malloc(&allocator, 100), first);
}

#[test]
fn recorded_streams_are_waited_for() {
    let allocator = allocator(64, "");
    let device = allocator.raw();
    let (used, other) = (malloc(&allocator, 100), malloc(&allocator, 512));
    allocator.record_stream(0, used, S1).unwrap();
    allocator.record_stream(0, used, S1).unwrap();
    allocator.record_stream(0, other, StreamId(2)).unwrap();
    device.launch(S1);
    allocator.free(0, used).unwrap();
    allocator.free(0, other).unwrap();
    assert_eq!(device.events.load(Ordering::Relaxed), 2, "one for each stream");
    let stats = allocator.stats(0).unwrap();
    assert_eq!((stats.allocation.all.current, stats.active.all.current), (0, 2));
    let states = |allocator: &Allocator| {
        let segments = allocator.snapshot(0).unwrap().segments;
        segments[0].blocks.iter().map(|block| block.state).collect::<Vec<_>>()
    };
    assert_eq!(states(&allocator)[0], BlockState::ActivePendingFree);
    // The second stream is done: its block is free, though the first one's event is older and is not complete.
    assert_eq!(malloc(&allocator, 512), other);
    device.advance(S1, 1);
    assert_eq!(malloc(&allocator, 100), used);
    assert!(allocator.record_stream(0, 1, S1).is_err());
}

#[test]
fn an_event_that_fails_keeps_its_block() {
    let allocator = allocator(64, "");
    let device = allocator.raw();
    let used = malloc(&allocator, 100);
    allocator.record_stream(0, used, S1).unwrap();
    device.fail_events.store(true, Ordering::Relaxed);
    let error = allocator.free(0, used).unwrap_err();
    assert_eq!(error.message(), "CUDA error: unspecified launch failure");
    assert!(allocator.malloc(0, 100, S0).is_err(), "the error is sticky");
    device.fail_events.store(false, Ordering::Relaxed);
    assert_eq!(malloc(&allocator, 100), used);
    allocator.free(0, used).unwrap();
    allocator.empty_cache(PoolId::DEFAULT).unwrap();
    assert_eq!(device.state().used(), 0);
}

#[test]
fn captures_defer_events() {
    let allocator = allocator(64, "");
    let device = allocator.raw();
    let used = malloc(&allocator, 100);
    allocator.record_stream(0, used, S1).unwrap();
    device.capturing.store(true, Ordering::Relaxed);
    allocator.free(0, used).unwrap();
    assert_ne!(malloc(&allocator, 100), used);
    device.capturing.store(false, Ordering::Relaxed);
    assert_eq!(malloc(&allocator, 100), used);
}

#[test]
fn the_message_is_pytorchs() {
    let allocator = allocator(100, "");
    let held = malloc(&allocator, 30 * MIB);
    malloc(&allocator, 3 * MIB);
    allocator.free(0, held).unwrap();
    malloc(&allocator, 22 * MIB);
    let message = out_of_memory(&allocator, 90 * MIB - 1);
    let expected = "CUDA out of memory. Tried to allocate 90.00 MiB. GPU 0 has a total capacity of 100.00 MiB of \
                    which 50.00 MiB is free. Of the allocated memory 25.00 MiB is allocated by PyTorch, and 25.00 \
                    MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try \
                    setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See \
                    documentation for Memory Management  \
                    (https://docs.pytorch.org/docs/stable/notes/cuda.html\
                    #optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
    let (pytorch, ours) = message.split_once('\n').unwrap();
    assert_eq!(pytorch, expected);
    assert_eq!(
        ours,
        "The request was for 90.00 MiB. The largest free block has 17.00 MiB; 25.00 MiB are free in 2 blocks, of \
         which 25.00 MiB belong to segments that are partly in use. Fragmentation: 32.0 %. Largest holders: 1 \
         block of 22.00 MiB; 1 block of 3.00 MiB."
    );
    let stats = allocator.stats(0).unwrap();
    assert_eq!((stats.num_ooms, stats.num_alloc_retries), (1, 1));
}

#[test]
fn the_message_names_limits_and_pools() {
    let allocator = allocator(100, "");
    allocator.set_memory_fraction(0, 0.5).unwrap();
    assert_eq!(allocator.memory_fraction(0).unwrap(), 0.5);
    let pool = PoolId(0, 1);
    allocator.begin_allocate_to_pool(0, pool, Box::new(|_| true)).unwrap();
    malloc(&allocator, 12 * MIB);
    allocator.end_allocate_to_pool(0, pool).unwrap();
    let message = out_of_memory(&allocator, 40 * MIB);
    assert!(
        message.contains(
            "is free. 50.00 MiB allowed; Of the allocated memory 12.00 MiB is allocated by PyTorch, with 12.00 MiB \
             allocated in private pools (e.g., CUDA Graphs), and 0 bytes is reserved"
        ),
        "{message}"
    );
    for fraction in [-0.5, 2.0, f64::NAN] {
        let error = allocator.set_memory_fraction(0, fraction).unwrap_err();
        assert_eq!(
            error.message(),
            format!("invalid fraction:{fraction}. Please set within [0, 1].")
        );
    }
}

#[test]
fn absurd_sizes_are_out_of_memory() {
    let allocator = allocator(100, "");
    for bytes in [1 << 60, u64::MAX, u64::MAX - 511] {
        let message = out_of_memory(&allocator, bytes);
        assert_eq!(message, "CUDA out of memory. Tried to allocate more than 1EB memory.");
    }
    assert!(out_of_memory(&allocator, (1 << 60) - 1).contains("1073741824.00 GiB"));
}

#[test]
fn sizes_in_messages() {
    for (bytes, text) in [
        (0, "0 bytes"),
        (1024, "1024 bytes"),
        (1025, "1.00 KiB"),
        (MIB, "1024.00 KiB"),
        (20 * MIB, "20.00 MiB"),
        (1024 * MIB, "1024.00 MiB"),
        (1536 * MIB, "1.50 GiB"),
    ] {
        assert_eq!(format_size(bytes), text);
    }
}

#[test]
fn callbacks_come_before_the_device() {
    let allocator = Arc::new(allocator(64, ""));
    let held = Arc::new(std::sync::Mutex::new(Some(malloc(&allocator, 30 * MIB))));
    let calls = Arc::new(AtomicUsize::new(0));
    let (weak, count, hold) = (Arc::downgrade(&allocator), calls.clone(), held.clone());
    allocator.add_free_memory_callback(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        let Some(allocator) = weak.upgrade() else { return false };
        // A callback may allocate; it is not started again for that.
        let scratch = allocator.malloc(0, 100, S1).unwrap();
        allocator.free(0, scratch).unwrap();
        hold.lock().unwrap().take().is_some_and(|address| allocator.free(0, address).is_ok())
    }));
    let seen = Arc::new(AtomicBool::new(false));
    let flag = seen.clone();
    allocator.add_oom_observer(Box::new(move |device, bytes, memory| {
        assert_eq!((device, bytes, memory.total), (0, 80 * MIB, 64 * MIB));
        flag.store(true, Ordering::Relaxed);
    }));
    let first = held.lock().unwrap().unwrap();
    assert_eq!(malloc(&allocator, 30 * MIB), first);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    out_of_memory(&allocator, 80 * MIB);
    assert!(seen.load(Ordering::Relaxed));
}

#[test]
fn oversize_blocks_are_not_split() {
    let allocator = allocator(110, "max_split_size_mb:20");
    let big = malloc(&allocator, 60 * MIB);
    assert_eq!(allocator.stats(0).unwrap().oversize_allocations.current, 1);
    allocator.free(0, big).unwrap();
    let small = malloc(&allocator, 12 * MIB);
    assert_ne!(small, big, "a smaller request gets a segment of its own");
    let other = malloc(&allocator, 30 * MIB);
    assert_ne!(other, big, "20 MiB too large");
    assert_eq!(malloc(&allocator, 50 * MIB), big);
    let stats = allocator.stats(0).unwrap();
    assert_eq!((stats.oversize_allocations.current, stats.oversize_segments.current), (2, 2));
    assert_eq!(stats.max_split_size, 20 << 20);
    // They are released first when memory does not suffice.
    allocator.free(0, big).unwrap();
    malloc(&allocator, 35 * MIB);
    let stats = allocator.stats(0).unwrap();
    assert_eq!((stats.num_device_free, stats.num_alloc_retries), (1, 0));
}

#[test]
fn garbage_is_collected_above_the_threshold() {
    let allocator = allocator(100, "garbage_collection_threshold:0.5");
    allocator.set_memory_fraction(0, 1.0).unwrap();
    let blocks = [20, 22, 24].map(|mib| malloc(&allocator, mib * MIB));
    blocks.into_iter().for_each(|block| allocator.free(0, block).unwrap());
    malloc(&allocator, 28 * MIB);
    let stats = allocator.stats(0).unwrap();
    assert!(stats.reserved_bytes.all.current as u64 <= 78 * MIB);
    assert_eq!((stats.num_device_free, stats.num_alloc_retries), (1, 0));
}

#[test]
fn private_pools_keep_their_memory() {
    let allocator = allocator(100, "");
    let pool = PoolId(7, 0);
    let begin = || allocator.begin_allocate_to_pool(0, pool, Box::new(|stream| stream == S1));
    begin().unwrap();
    assert_eq!(
        begin().unwrap_err().message(),
        "beginAllocateToPool: already recording to mempool_id"
    );
    let (inside, outside) = (allocator.malloc(0, 100, S1).unwrap(), malloc(&allocator, 100));
    allocator.end_allocate_to_pool(0, pool).unwrap();
    assert_eq!(
        allocator.end_allocate_to_pool(0, pool).unwrap_err().message(),
        "endAllocatePool: not currently recording to mempool_id"
    );
    allocator.free(0, inside).unwrap();
    allocator.free(0, outside).unwrap();
    assert_ne!(allocator.malloc(0, 100, S1).unwrap(), inside, "the pool is closed");
    allocator.empty_cache(PoolId::DEFAULT).unwrap();
    let segments = allocator.snapshot(0).unwrap().segments;
    assert_eq!(segments.iter().filter(|segment| segment.segment_pool_id == pool).count(), 1);
    allocator.retain_pool(0, pool).unwrap();
    assert_eq!(allocator.pool_use_count(0, pool).unwrap(), 2);
    allocator.release_pool(0, pool).unwrap();
    allocator.release_pool(0, pool).unwrap();
    assert!(allocator.release_pool(0, pool).is_err());
    allocator.empty_cache(pool).unwrap();
    let stats = allocator.stats(0).unwrap();
    let private = stats.reserved_bytes_by_private_pools[&pool];
    assert_eq!((private.all.current, private.all.peak), (0, 2 << 20));
    assert_eq!(stats.segment.all.current, 1);
}

#[test]
fn expandable_segments_grow_and_shrink() {
    let allocator = allocator(200, "expandable_segments:True");
    let reserved = || allocator.stats(0).unwrap().reserved_bytes.all.current as u64;
    let first = malloc(&allocator, 30 * MIB);
    assert_eq!(reserved(), 40 * MIB);
    let second = malloc(&allocator, 30 * MIB);
    assert_eq!((second, reserved()), (first + 30 * MIB, 60 * MIB));
    let third = malloc(&allocator, 5 * MIB);
    allocator.free(0, first).unwrap();
    allocator.free(0, second).unwrap();
    assert_eq!(malloc(&allocator, 60 * MIB), first);
    allocator.free(0, first).unwrap();
    allocator.empty_cache(PoolId::DEFAULT).unwrap();
    assert_eq!((third, reserved()), (first + 60 * MIB, 20 * MIB));
    let segments = allocator.snapshot(0).unwrap().segments;
    assert_eq!((segments.len(), segments[0].is_expandable), (1, true));
    assert!(allocator.base_allocation(0, third).is_err());
    assert!(out_of_memory(&allocator, 190 * MIB).contains("expandable_segments is enabled."));
    assert_eq!(malloc(&allocator, 180 * MIB - 512) % 512, 0);
    let stats = allocator.stats(0).unwrap();
    assert_eq!(stats.segment.all.current, 0);
    assert_eq!(stats.inactive_split.all.peak, 0);
}

struct SourceLine(&'static str);

impl AllocationContext for SourceLine {
    fn label(&self) -> String {
        self.0.to_owned()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn history_is_a_ring() {
    let allocator = allocator(64, "");
    let options = HistoryOptions {
        enabled: true,
        when: RecordContext::Alloc,
        max_entries: 6,
        recorder: Some(Arc::new(|| Some(Arc::new(SourceLine("model.py:12"))))),
        clear: false,
    };
    allocator.record_history(&options).unwrap();
    let block = malloc(&allocator, 100);
    let trace = allocator.snapshot(0).unwrap().trace;
    let names: Vec<_> = trace.iter().map(|entry| entry.action.name()).collect();
    assert_eq!(names, ["segment_alloc", "alloc", "snapshot"]);
    assert_eq!((trace[0].size, trace[1].size, trace[1].address), (2 * MIB, 100, block));
    assert!(trace[1].time_us >= trace[0].time_us && trace[0].time_us > 0);
    assert_eq!(trace[1].context.as_ref().unwrap().label(), "model.py:12");
    allocator.free(0, block).unwrap();
    malloc(&allocator, 40 * MIB);
    let message = out_of_memory(&allocator, 50 * MIB);
    assert!(message.contains("Largest holders: 40.00 MiB in 1 block at model.py:12."), "{message}");
    let trace = allocator.snapshot(0).unwrap().trace;
    assert_eq!(trace.len(), 6, "the oldest are gone");
    let actions: Vec<_> = trace.iter().map(|entry| entry.action).collect();
    assert_eq!(
        actions,
        [
            TraceAction::FreeCompleted,
            TraceAction::SegmentAlloc,
            TraceAction::Alloc,
            TraceAction::SegmentFree,
            TraceAction::Oom,
            TraceAction::Snapshot,
        ]
    );
    assert_eq!((trace[4].address, trace[4].size), (24 * MIB, 50 * MIB));
    allocator.record_history(&HistoryOptions::default()).unwrap();
    malloc(&allocator, 100);
    assert!(allocator.snapshot(0).unwrap().trace.is_empty());
}

#[test]
fn statistics_have_pytorchs_keys() {
    let allocator = allocator(64, "");
    let pool = PoolId(0, 3);
    allocator.begin_allocate_to_pool(0, pool, Box::new(|_| true)).unwrap();
    let block = malloc(&allocator, 1000);
    allocator.free(0, block).unwrap();
    let flat = allocator.stats(0).unwrap().flatten();
    let arrays = [
        "active",
        "active_bytes",
        "allocated_bytes",
        "allocation",
        "inactive_split",
        "inactive_split_bytes",
        "requested_bytes",
        "reserved_bytes",
        "reserved_bytes_by_private_pools.0_3",
        "segment",
    ];
    let mut expected: Vec<String> = Vec::new();
    for metric in ["current", "peak", "allocated", "freed"] {
        for array in arrays {
            for kind in ["all", "small_pool", "large_pool"] {
                expected.push(format!("{array}.{kind}.{metric}"));
            }
        }
        expected.push(format!("oversize_allocations.{metric}"));
        expected.push(format!("oversize_segments.{metric}"));
    }
    for counter in ["alloc_retries", "device_alloc", "device_free", "oom_rejections", "ooms"] {
        expected.push(format!("num_{counter}"));
    }
    expected.extend(["num_sync_all_streams".to_owned(), "max_split_size".to_owned()]);
    expected.sort();
    assert_eq!(flat.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), expected);
    let value = |key: &str| flat.iter().find(|(name, _)| name == key).unwrap().1;
    assert_eq!(value("allocated_bytes.small_pool.peak"), 1024);
    assert_eq!(value("requested_bytes.all.freed"), 1000);
    assert_eq!(value("reserved_bytes.all.current"), 2 << 20);
    assert_eq!((value("num_device_alloc"), value("max_split_size")), (1, -1));
    allocator.reset_peak_stats(0).unwrap();
    allocator.reset_accumulated_stats(0).unwrap();
    let stats = allocator.stats(0).unwrap();
    assert_eq!((stats.allocated_bytes.all.peak, stats.num_device_alloc), (0, 0));
    assert_eq!((stats.reserved_bytes.all.allocated, stats.reserved_bytes.all.peak), (0, 2 << 20));
}

#[test]
fn settings_change_at_run_time() {
    let allocator = allocator(64, "");
    assert!(allocator.set_config("foo:1").is_err());
    allocator.set_config("max_split_size_mb:20").unwrap();
    assert_eq!(allocator.config().max_split_size, 20 * MIB);
    let error = allocator.set_config("backend:cudaMallocAsync").unwrap_err();
    assert_eq!(
        error.message(),
        "Allocator backend parsed at runtime != allocator backend parsed at load time, cudaMallocAsync != native"
    );
    allocator.set_config("per_process_memory_fraction:0.25").unwrap();
    assert_eq!(allocator.memory_fraction(0).unwrap(), 0.25);
    assert!(out_of_memory(&allocator, 20 * MIB).contains("16.00 MiB allowed; "));
    allocator.set_config("throw_on_cudamalloc_oom:True").unwrap();
    assert!(out_of_memory(&allocator, 20 * MIB).starts_with(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed \
         per_process_memory_fraction limit. Requested size: 20.00 MiB"
    ));
    assert_eq!(allocator.stats(0).unwrap().num_oom_rejections, 1);
}

#[test]
fn base_allocations() {
    let allocator = allocator(64, "");
    let (first, second) = (malloc(&allocator, 100), malloc(&allocator, 100));
    assert_eq!(allocator.base_allocation(0, second).unwrap(), (first, 2 * MIB));
    assert!(allocator.base_allocation(0, second + 512).is_err());
}

#[test]
fn threads_share_an_allocator() {
    let allocator = Arc::new(allocator(512, ""));
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let allocator = allocator.clone();
            std::thread::spawn(move || {
                for round in 0..300u64 {
                    let stream = StreamId(thread % 2);
                    let bytes = 1 + (round * 7919 * (thread + 1)) % (3 * MIB);
                    let address = allocator.malloc(0, bytes, stream).unwrap();
                    if round % 3 == 0 {
                        allocator.record_stream(0, address, StreamId(2)).unwrap();
                        allocator.raw().launch(StreamId(2));
                    }
                    allocator.free(0, address).unwrap();
                    allocator.raw().advance(StreamId(2), 1);
                    if round % 50 == 0 {
                        allocator.empty_cache(PoolId::DEFAULT).unwrap();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    allocator.empty_cache(PoolId::DEFAULT).unwrap();
    assert_eq!(allocator.raw().state().used(), 0);
    assert_eq!(allocator.stats(0).unwrap().active.all.current, 0);
}
