//! `PYTORCH_ALLOC_CONF`: values and errors as PyTorch 2.15 has them.

use corten_core::ErrorKind;
use corten_cuda::caching::{AllocConfig, Backend, ReserveSize};

const MIB: u64 = 1 << 20;

fn parse(text: &str) -> AllocConfig {
    AllocConfig::default().parse_over(text).unwrap()
}

#[test]
fn values() {
    assert_eq!(parse(""), AllocConfig::default());
    assert_eq!(parse("max_split_size_mb:30").max_split_size, 30 * MIB);
    assert_eq!(parse("max_split_size_mb:30,").max_split_size, 30 * MIB);
    assert_eq!(parse("max_split_size_mb:30.7").max_split_size, 30 * MIB);
    assert_eq!(parse("max_split_size_mb:30abc").max_split_size, 30 * MIB);
    assert_eq!(parse("max_non_split_rounding_mb:30").max_non_split_rounding, 30 * MIB);
    assert_eq!(parse("garbage_collection_threshold:0.8abc").garbage_collection_threshold, 0.8);
    assert_eq!(parse("garbage_collection_threshold:1e-3").garbage_collection_threshold, 0.001);
    let both = parse(" max_split_size_mb : 30 , expandable_segments : True ");
    assert_eq!((both.max_split_size, both.expandable_segments), (30 * MIB, true));
    assert_eq!(parse("large_segment_size_mb:11,max_split_size_mb:12").max_split_size, 12 * MIB);
    assert_eq!(parse("backend:cudaMallocAsync").backend, Backend::CudaMallocAsync);
    assert_eq!(parse("per_process_memory_fraction:0.5").per_process_memory_fraction, 0.5);
    assert_eq!(parse("pinned_num_register_threads:8").pinned_num_register_threads, 8);
    assert_eq!(parse("pinned_max_round_threshold_mb:8").pinned_max_round_threshold, 8 * MIB);
    assert_eq!(parse("pinned_max_cached_size_mb:4").pinned_max_cached_size, 4 * MIB);
    assert_eq!(parse("pinned_reserve_segment_size_mb:5").pinned_reserve_segment_size_mb, 5);
    assert!(parse("pinned_use_cuda_host_register:True").pinned_use_cuda_host_register);
    assert!(parse("pinned_use_background_threads:True").pinned_use_background_threads);
    assert!(parse("release_lock_on_cudamalloc:True").release_lock_on_cudamalloc);
    assert!(parse("throw_on_cudamalloc_oom:True").throw_on_cudamalloc_oom);
    assert!(parse("graph_capture_record_stream_reuse:True").graph_capture_record_stream_reuse);
    let reserve = |text: &str| parse(text).expandable_segments_reserve;
    assert_eq!(reserve("expandable_segments_reserve:0.5"), Some(ReserveSize::Fraction(0.5)));
    assert_eq!(reserve("expandable_segments_reserve:40G"), Some(ReserveSize::Bytes(40 << 30)));
    assert_eq!(reserve("expandable_segments_reserve:-1"), None);
    assert!(
        parse("expandable_segments_reserve_by_class:[a:0.5],pinned_free_catch_all:True")
            .pinned_free_catch_all
    );
}

#[test]
fn divisions() {
    for (text, expected) in [
        ("4", [4; 16]),
        ("1", [1; 16]),
        ("[]", [0; 16]),
        ("[256:1,512:2,1024:4,>:8]", [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8]),
        ("[64:8]", [8, 8, 8, 8, 8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("[>:2]", [0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]),
        ("[2:2,1:4]", [4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("[131072:4]", [4; 16]),
        ("[256:1,]", [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        let config = parse(&format!("roundup_power2_divisions:{text}"));
        assert_eq!(config.roundup_power2_divisions, expected, "{text}");
    }
}

#[test]
fn some_settings_start_anew_and_others_stay() {
    let first = parse(
        "max_split_size_mb:30,garbage_collection_threshold:0.5,roundup_power2_divisions:4,\
         expandable_segments:True,pinned_max_cached_size_mb:4",
    );
    let second = first.parse_over("pinned_num_register_threads:2").unwrap();
    assert_eq!(second.max_split_size, u64::MAX);
    assert_eq!(second.garbage_collection_threshold, 0.0);
    assert_eq!(second.roundup_power2_divisions, [0; 16]);
    assert!(second.expandable_segments);
    assert_eq!(second.pinned_max_cached_size, 4 * MIB);
}

const ERRORS: &[(&str, &str)] = &[
    ("foo:1", "Unrecognized key 'foo' in Accelerator allocator config."),
    ("foo", "Unrecognized key 'foo' in Accelerator allocator config."),
    (",", "Unrecognized key ',' in Accelerator allocator config."),
    (
        "max_split_size_mb=5",
        "Unrecognized key 'max_split_size_mb=5' in Accelerator allocator config.",
    ),
    (
        "max_split_size_mb:30 garbage_collection_threshold:0.5",
        "Unrecognized key '0.5' in Accelerator allocator config.",
    ),
    ("max_split_size_mb:10", "CachingAllocator option max_split_size_mb too small, must be >= 20"),
    (
        "large_segment_size_mb:40,max_split_size_mb:30",
        "CachingAllocator option max_split_size_mb too small, must be >= 40",
    ),
    (
        "max_non_split_rounding_mb:10",
        "CachingAllocator option max_non_split_rounding_mb too small, must be >= 20",
    ),
    ("large_segment_size_mb:10", "CachingAllocator option large_segment_size_mb must be > 10 MB"),
    (
        "garbage_collection_threshold:1.5",
        "garbage_collect_threshold is invalid, set it in (0.0, 1.0)",
    ),
    (
        "garbage_collection_threshold:nan",
        "garbage_collect_threshold is invalid, set it in (0.0, 1.0)",
    ),
    ("roundup_power2_divisions:3", "For roundups, the divisions has to be power of 2 "),
    (
        "roundup_power2_divisions:[256:3]",
        "For roundups, the divisions has to be power of 2 or 0 to disable roundup ",
    ),
    ("roundup_power2_divisions:[255:1]", "For roundups, the intervals have to be power of 2 "),
    (
        "expandable_segments:true",
        "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'",
    ),
    (
        "expandable_segments:1",
        "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got '1'",
    ),
    ("backend:foo", "Unknown allocator backend, options are native and cudaMallocAsync"),
    (
        "per_process_memory_fraction:1.5",
        "per_process_memory_fraction is invalid, set it in [0.0, 1.0]",
    ),
    ("pinned_num_register_threads:3", "Number of register threads has to be power of 2, got 3"),
    (
        "pinned_num_register_threads:256",
        "Number of register threads should be less than or equal to 128, got 256",
    ),
    ("pinned_reserve_segment_size_mb:0", "Pinned reserve segment size has to be greater than 0"),
    ("max_split_size_mb:abc", "stoull: expected a number for max_split_size_mb but got 'abc'"),
    (
        "garbage_collection_threshold:x",
        "stod: expected a number for garbage_collection_threshold but got 'x'",
    ),
];

#[test]
fn errors() {
    for &(text, message) in ERRORS {
        let error = AllocConfig::default().parse_over(text).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Value, message), "{text}");
    }
    for text in [
        "max_split_size_mb",
        "max_split_size_mb:",
        "backend",
        "roundup_power2_divisions:[256:1",
        "roundup_power2_divisions:[256-1]",
        "expandable_segments_reserve_by_class:[a:0.5",
    ] {
        let error = AllocConfig::default().parse_over(text).unwrap_err();
        assert!(error.message().contains("ConfigTokenizer"), "{text}: {error}");
        assert_eq!(error.kind(), ErrorKind::Runtime, "{text}");
    }
}

#[test]
fn sizes_are_rounded() {
    let config = AllocConfig::default();
    for (bytes, size) in [(1, 512), (511, 512), (512, 512), (513, 1024), (MIB + 1, MIB + 512)] {
        assert_eq!(config.round_size(bytes), size, "{bytes}");
    }
    let divided = parse("roundup_power2_divisions:4");
    for (bytes, size) in [
        (1200, 1536),
        (2048, 2048),
        (2049, 2560),
        (1200 * MIB, 1280 * MIB),
        (1024 * MIB, 1024 * MIB),
        (1792 * MIB + 1, 2048 * MIB),
    ] {
        assert_eq!(divided.round_size(bytes), size, "{bytes}");
    }
    for (size, segment) in [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
        (21 * MIB, 22 * MIB),
    ] {
        assert_eq!(config.segment_size(size), segment, "{size}");
    }
    assert_eq!(config.round_size(u64::MAX), u64::MAX - 511);
}
