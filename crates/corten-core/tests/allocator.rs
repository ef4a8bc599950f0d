//! The CPU allocator. One test: the counters and modes belong to the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines)]

use std::sync::atomic::{AtomicI64, Ordering};

use corten_core::allocator::*;
use corten_core::*;

static SECOND: AtomicI64 = AtomicI64::new(0);
static REPORTED: AtomicI64 = AtomicI64::new(0);

fn allocate(nbytes: usize) -> DataPtr {
    get_allocator(DeviceType::Cpu).unwrap().allocate(nbytes).unwrap()
}

fn bytes(block: &DataPtr, nbytes: usize) -> &[u8] {
    // SAFETY: the block has at least `nbytes` bytes and is filled.
    unsafe { std::slice::from_raw_parts(block.get(), nbytes) }
}

#[test]
fn the_cpu_allocator() {
    reuses_and_aligns();
    counts();
    fills();
    reports();
    is_bounded();
}

fn reuses_and_aligns() {
    for nbytes in [1, 63, 64, 65, 1000, 4096, 100_000, 1 << 20, (1 << 20) + 1, 3 << 20, 33 << 20] {
        let block = allocate(nbytes);
        assert_eq!(block.get().addr() % ALIGNMENT, 0);
        assert!(nbytes < 2 << 20 || block.get().addr().is_multiple_of(2 << 20) || cfg!(miri));
        // SAFETY: the block has `nbytes` bytes.
        unsafe { block.get().write_bytes(1, nbytes) };
        let address = block.get();
        drop(block);
        assert_eq!(allocate(nbytes).get(), address, "{nbytes} bytes are reused");
    }
    assert!(allocate(0).is_null());
    let blocks: Vec<DataPtr> = (0..2000).map(|n| allocate(64 + n % 700)).collect();
    let mut addresses: Vec<usize> = blocks.iter().map(|block| block.get().addr()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 2000);
}

fn counts() {
    empty_cache();
    reset_peak_memory_stats();
    let before = memory_stats();
    let (small, large) = (allocate(100), allocate(5 << 20));
    let during = memory_stats();
    let used = during.allocated_bytes.current - before.allocated_bytes.current;
    assert!((100 + (5 << 20)..6 << 20).contains(&(used as usize)), "{used}");
    assert_eq!(during.allocation.current - before.allocation.current, 2);
    drop((small, large));
    let after = memory_stats();
    assert_eq!(after.allocated_bytes.current, before.allocated_bytes.current);
    assert_eq!(after.allocation.freed - before.allocation.freed, 2);
    assert!(after.allocated_bytes.peak >= during.allocated_bytes.current);
    assert!(after.reserved_bytes.current >= 5 << 20, "kept for reuse");
    empty_cache();
    assert!(memory_stats().reserved_bytes.current < 5 << 20, "given back");
    reset_peak_memory_stats();
    assert_eq!(memory_stats().allocated_bytes.peak, before.allocated_bytes.current);

    let error = TensorBase::empty(&[1 << 50], DType::Float32).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Runtime);
    assert_eq!(memory_stats().num_ooms, before.num_ooms + 1);
    assert!(get_allocator(DeviceType::Cpu).unwrap().allocate(usize::MAX).is_err());
}

fn fills() {
    for nbytes in [100, 3 << 20] {
        drop(allocate(nbytes));
        set_fill(Fill::Zeros);
        assert!(bytes(&allocate(nbytes), nbytes).iter().all(|&byte| byte == 0));
        set_fill(Fill::Junk);
        let block = allocate(nbytes);
        let words = bytes(&block, nbytes).chunks_exact(4);
        assert!(words.into_iter().all(|word| word == 0x7FED_BEEF_u32.to_le_bytes()));
        assert!(f32::from_bits(0x7FED_BEEF).is_nan());
    }
    set_fill(Fill::Nothing);
}

fn reports() {
    let reporter = |event: &MemoryReport| {
        assert!(event.total_reserved >= event.total_allocated && !event.out_of_memory);
        REPORTED.fetch_add(event.nbytes, Ordering::Relaxed);
    };
    let installed = install_memory_reporter(std::sync::Arc::new(reporter));
    let second = install_memory_reporter(std::sync::Arc::new(|_: &MemoryReport| {
        SECOND.fetch_add(1, Ordering::Relaxed);
    }));
    let blocks = [allocate(100), allocate(2 << 20)];
    let during = REPORTED.load(Ordering::Relaxed);
    drop(second);
    let seen = SECOND.load(Ordering::Relaxed);
    drop(blocks);
    assert_eq!((seen, SECOND.load(Ordering::Relaxed)), (2, 2), "removed by itself");
    drop(installed);
    assert!(during >= 100 + (2 << 20));
    assert_eq!(REPORTED.load(Ordering::Relaxed), 0);
    drop(allocate(100));
    assert_eq!(REPORTED.load(Ordering::Relaxed), 0);
}

fn is_bounded() {
    set_cache_limit(20 << 20).unwrap();
    empty_cache();
    let base = memory_stats().reserved_bytes.current;
    let blocks: Vec<DataPtr> = (0..20).map(|_| allocate(4 << 20)).collect();
    drop(blocks);
    let kept = memory_stats().reserved_bytes.current - base;
    assert!(kept <= 20 << 20, "{kept}");
    let many: Vec<DataPtr> = (0..2000).map(|_| allocate(30_000)).collect();
    drop(many);
    let kept = memory_stats().reserved_bytes.current - base;
    assert!(kept <= 32 << 20, "{kept}");
    empty_cache();
    assert!(memory_stats().reserved_bytes.current <= base);
}
