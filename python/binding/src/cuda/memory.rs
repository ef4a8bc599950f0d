//! The caching allocators: what they hold, limits, single blocks, pinned tensors.

use super::{device_index, history};
use crate::args::{Bound, parser};
use crate::py::errors::runtime_error;
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, ffi, method};
use crate::tensor;
use corten::cuda::caching::{
    AllocConfig, BlockInfo, PoolId, SegmentInfo, StreamId, TraceAction, TraceEntry,
};
use corten::cuda::{self, Stream};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = device_functions();
    rows.extend(pool_functions());
    rows.extend(host_functions());
    rows
}

fn device_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cuda_memoryStats", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_memoryStats(int device)").parse(None, args)?;
            counters(cuda::device_memory()?.stats(index(bound.int(0)?)?)?.flatten())
        }),
        method!("_cuda_resetPeakMemoryStats", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_resetPeakMemoryStats(int device)").parse(None, args)?;
            cuda::device_memory()?.reset_peak_stats(index(bound.int(0)?)?)?;
            Ok(Obj::none())
        }),
        method!("_cuda_resetAccumulatedMemoryStats", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_resetAccumulatedMemoryStats(int device)");
            let bound = parser.parse(None, args)?;
            cuda::device_memory()?.reset_accumulated_stats(index(bound.int(0)?)?)?;
            Ok(Obj::none())
        }),
        method!("_cuda_emptyCache", |_m: &Obj, _a: Args<'_>| {
            let cache = cuda::device_memory()?;
            detach(|| cache.empty_cache(PoolId::DEFAULT))?;
            Ok(Obj::none())
        }),
        method!("_cuda_setMemoryFraction", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_setMemoryFraction(any fraction, int device)");
            let bound = parser.parse(None, args)?;
            let fraction = bound.object(0)?.to_f64()?;
            cuda::device_memory()?.set_memory_fraction(index(bound.int(1)?)?, fraction)?;
            Ok(Obj::none())
        }),
        method!("_cuda_getMemoryFraction", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_getMemoryFraction(int device)").parse(None, args)?;
            Obj::float(cuda::device_memory()?.memory_fraction(index(bound.int(0)?)?)?)
        }),
        method!("_cuda_memorySnapshot", snapshot),
        method!("_cuda_recordMemoryHistory", history::record),
        method!("_cuda_setAllocatorSettings", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_setAllocatorSettings(str settings)").parse(None, args)?;
            cuda::device_memory()?.set_config(bound.str(0)?)?;
            Ok(Obj::none())
        }),
        method!("_cuda_cudaCachingAllocator_raw_alloc", allocate),
        method!("_cuda_cudaCachingAllocator_raw_delete", free),
        method!("_cuda_recordStream", record_stream),
    ]
}

fn pool_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cuda_beginAllocateCurrentThreadToPool", begin_pool),
        method!("_cuda_endAllocateToPool", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_endAllocateToPool(int device, int[] pool)");
            let (device, pool) = pool_of(&parser.parse(None, args)?)?;
            cuda::device_memory()?.end_allocate_to_pool(device, pool)?;
            Ok(Obj::none())
        }),
        method!("_cuda_retainPool", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_retainPool(int device, int[] pool)");
            let (device, pool) = pool_of(&parser.parse(None, args)?)?;
            cuda::device_memory()?.retain_pool(device, pool)?;
            Ok(Obj::none())
        }),
        method!("_cuda_releasePool", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_releasePool(int device, int[] pool)");
            let (device, pool) = pool_of(&parser.parse(None, args)?)?;
            let cache = cuda::device_memory()?;
            cache.release_pool(device, pool)?;
            Ok(Obj::none())
        }),
        method!("_cuda_poolUseCount", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_poolUseCount(int device, int[] pool)");
            let (device, pool) = pool_of(&parser.parse(None, args)?)?;
            Obj::int(cuda::device_memory()?.pool_use_count(device, pool)? as i64)
        }),
    ]
}

fn host_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cuda_hostMemoryStats", |_m: &Obj, _a: Args<'_>| {
            counters(cuda::pinned_memory()?.stats().flatten())
        }),
        method!("_cuda_resetPeakHostMemoryStats", |_m: &Obj, _a: Args<'_>| {
            cuda::pinned_memory()?.update_stats(|stats| stats.reset_peak());
            Ok(Obj::none())
        }),
        method!("_cuda_resetAccumulatedHostMemoryStats", |_m: &Obj, _a: Args<'_>| {
            cuda::pinned_memory()?.update_stats(|stats| stats.reset_accumulated());
            Ok(Obj::none())
        }),
        method!("_cuda_emptyHostCache", |_m: &Obj, _a: Args<'_>| {
            if cuda::is_initialized() {
                cuda::pinned_memory()?.empty_cache()?;
            }
            Ok(Obj::none())
        }),
        method!("_cuda_pinTensor", pin),
    ]
}

fn index(device: i64) -> Py<usize> {
    usize::try_from(device).map_err(|_| runtime_error(format!("invalid device index {device}")))
}

fn counters(numbers: Vec<(String, i64)>) -> Py<Obj> {
    let made = Obj::dict()?;
    for (name, number) in numbers {
        made.dict_set(&Obj::str_from(&name)?, &Obj::int(number)?)?;
    }
    Ok(made)
}

/// A dictionary of rows.
fn dict(rows: impl IntoIterator<Item = (&'static str, Py<Obj>)>) -> Py<Obj> {
    let made = Obj::dict()?;
    for (name, value) in rows {
        made.dict_set(&Obj::str_from(name)?, &value?)?;
    }
    Ok(made)
}

/// Segments and history of all devices, in the form that PyTorch's viewer reads.
fn snapshot(_module: &Obj, _args: Args<'_>) -> Py<Obj> {
    let cache = cuda::device_memory()?;
    let (mut segments, mut traces) = (Vec::new(), Vec::new());
    for device in 0..cuda::device_count() {
        let found = cache.snapshot(device)?;
        segments.extend(found.segments.iter().map(segment).collect::<Vec<_>>());
        traces.push(Obj::list(found.trace.iter().map(entry)));
    }
    dict([
        ("segments", Obj::list(segments)),
        ("device_traces", Obj::list(traces)),
        ("allocator_settings", settings(&cache.config())),
        ("external_annotations", Obj::list([])),
    ])
}

/// The settings, under PyTorch's names; no limit of splitting is -1.
fn settings(config: &AllocConfig) -> Py<Obj> {
    let divisions = Obj::dict()?;
    for (power, &steps) in config.roundup_power2_divisions.iter().enumerate() {
        let interval = Obj::str_from(&(1_u64 << power).to_string())?;
        divisions.dict_set(&interval, &Obj::uint(steps)?)?;
    }
    dict([
        ("PYTORCH_CUDA_ALLOC_CONF", Obj::str_from(&config.text)),
        ("max_split_size", Obj::int(config.max_split_size as i64)),
        ("garbage_collection_threshold", Obj::float(config.garbage_collection_threshold)),
        ("expandable_segments", Ok(Obj::bool(config.expandable_segments))),
        ("pinned_num_register_threads", Obj::uint(config.pinned_num_register_threads)),
        ("release_lock_on_cudamalloc", Ok(Obj::bool(config.release_lock_on_cudamalloc))),
        ("pinned_use_cuda_host_register", Ok(Obj::bool(config.pinned_use_cuda_host_register))),
        ("roundup_power2_divisions", Ok(divisions)),
    ])
}

fn pool(PoolId(first, second): PoolId) -> Py<Obj> {
    Obj::tuple([Obj::uint(first), Obj::uint(second)])
}

fn segment(found: &SegmentInfo) -> Py<Obj> {
    dict([
        ("device", Obj::uint(found.device as u64)),
        ("address", Obj::uint(found.address)),
        ("total_size", Obj::uint(found.total_size)),
        ("allocated_size", Obj::uint(found.allocated_size)),
        ("active_size", Obj::uint(found.active_size)),
        ("requested_size", Obj::uint(found.requested_size)),
        ("stream", Obj::uint(found.stream.0)),
        ("segment_type", Obj::str_from(if found.is_large { "large" } else { "small" })),
        ("segment_pool_id", pool(found.segment_pool_id)),
        ("is_expandable", Ok(Obj::bool(found.is_expandable))),
        ("frames", Obj::list([])),
        ("blocks", Obj::list(found.blocks.iter().map(block))),
    ])
}

fn block(found: &BlockInfo) -> Py<Obj> {
    dict([
        ("address", Obj::uint(found.address)),
        ("size", Obj::uint(found.size)),
        ("requested_size", Obj::uint(found.requested_size)),
        ("state", Obj::str_from(found.state.name())),
        ("frames", history::frames(found.context.as_ref())),
    ])
}

fn entry(found: &TraceEntry) -> Py<Obj> {
    let place = if found.action == TraceAction::Oom { "device_free" } else { "addr" };
    dict([
        ("action", Obj::str_from(found.action.name())),
        (place, Obj::uint(found.address)),
        ("size", Obj::uint(found.size)),
        ("stream", Obj::uint(found.stream.0)),
        ("time_us", Obj::uint(found.time_us)),
        ("frames", history::frames(found.context.as_ref())),
        ("compile_context", Obj::str_from("N/A")),
        ("user_metadata", Obj::str_from("")),
        ("segment_pool_id", pool(found.pool_id)),
    ])
}

/// The device and the pool of a call's arguments.
fn pool_of(bound: &Bound<'_>) -> Py<(usize, PoolId)> {
    let numbers = bound.ints(1)?;
    let [first, second] = numbers.as_slice() else {
        return Err(runtime_error("the name of a pool is a pair of numbers"));
    };
    Ok((index(bound.int(0)?)?, PoolId(*first as u64, *second as u64)))
}

/// Lets the allocations of this thread come from a pool.
fn begin_pool(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_cuda_beginAllocateCurrentThreadToPool(int device, int[] pool)");
    let (device, pool) = pool_of(&parser.parse(None, args)?)?;
    let thread = std::thread::current().id();
    let filter = move |_| std::thread::current().id() == thread;
    cuda::device_memory()?.begin_allocate_to_pool(device, pool, Box::new(filter))?;
    Ok(Obj::none())
}

/// Bytes on the current device for a stream, given by its address.
fn allocate(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_cuda_cudaCachingAllocator_raw_alloc(int size, int stream)");
    let bound = parser.parse(None, args)?;
    let size = u64::try_from(bound.int(0)?).map_err(|_| runtime_error("invalid size"))?;
    let device = cuda::current_device();
    cuda::initialize(device)?;
    let stream = StreamId(bound.int(1)? as u64);
    let address = cuda::device_memory()?.malloc(device as usize, size, stream)?;
    raw_blocks().insert(address, device as usize);
    Obj::uint(address)
}

/// The blocks that programs have asked for by size, and their devices.
fn raw_blocks() -> MutexGuard<'static, BTreeMap<u64, usize>> {
    static BLOCKS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn free(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_cuda_cudaCachingAllocator_raw_delete(int address)");
    let address = parser.parse(None, args)?.int(0)? as u64;
    if address == 0 {
        return Ok(Obj::none());
    }
    let Some(device) = raw_blocks().remove(&address) else {
        return Err(runtime_error(format!("invalid device pointer: {address:#x}")));
    };
    // SAFETY: the block was allocated for the program, which has no tensor in it, and is given back once.
    unsafe { cuda::device_memory()?.free(device, address)? };
    Ok(Obj::none())
}

fn record_stream(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_cuda_recordStream(Tensor tensor, int device, int stream)");
    let bound = parser.parse(None, args)?;
    let stream = Stream::from_id(device_index(bound.int(1)?)?, bound.int(2)?)?;
    cuda::record_stream(&bound.tensor(0)?, stream)?;
    Ok(Obj::none())
}

/// A copy of a tensor in pinned memory, with its strides; the tensor itself if it is pinned.
fn pin(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_pinTensor(Tensor tensor)").parse(None, args)?;
    let source = bound.tensor(0)?;
    if !source.device().is_cpu() {
        return Err(runtime_error(format!(
            "cannot pin '{}' only dense CPU tensors can be pinned",
            tensor::legacy_name(&source)
        )));
    }
    tensor::wrap(&cuda::pin_memory(&source)?)
}

/// Whether the memory of a tensor is pinned.
pub(crate) use corten::cuda::is_tensor_pinned as is_pinned;
