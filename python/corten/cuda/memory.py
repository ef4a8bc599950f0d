"""The memory of GPUs.

Freed blocks stay in a cache from which later tensors of the same stream are served. Where this build has no
such cache, its sizes are empty and what would change it is refused.
"""

from __future__ import annotations

import contextlib
import pickle
from collections import OrderedDict

from corten import _C
from corten.cuda._lazy import _lazy_init, is_initialized
from corten.cuda._measures import list_gpu_processes
from corten.cuda._utils import _get_device_index

__all__ = [
    "CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
    "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator",
    "empty_cache", "get_allocator_backend", "get_per_process_memory_fraction", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "list_gpu_processes", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached",
    "memory_reserved", "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict",
    "memory_summary", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats",
    "reset_peak_memory_stats", "set_per_process_memory_fraction", "use_mem_pool",
]

_native = vars(_C)


def _allocator(name):
    """A function of the caching allocator.

    Raises:
        NotImplementedError: This build has none.
    """
    function = _native.get(name)
    if function is None:
        raise NotImplementedError(f"{name} needs the caching allocator, which this build does not have")
    return function


def _started(device):
    _lazy_init()
    return _get_device_index(device, optional=True)


def _nested(flat):
    """Numbers by dotted names as dictionaries of dictionaries."""
    nested = {}
    for name, value in flat.items():
        *outer, last = name.split(".")
        place = nested
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def memory_stats(device=None):
    """Everything that is counted about the memory of a GPU, by dotted names such as
    ``allocated_bytes.all.current``."""
    if not is_initialized() or "_cuda_memoryStats" not in _native:
        return OrderedDict()
    index = _get_device_index(device, optional=True)
    return OrderedDict(sorted(_C._cuda_memoryStats(index).items()))


def memory_stats_as_nested_dict(device=None):
    """:func:`memory_stats` as dictionaries of dictionaries."""
    return _nested(memory_stats(device))


def _reset(name, device):
    from corten import cuda

    if not cuda.is_available():
        raise RuntimeError(f"invalid argument to {name}")
    index = _get_device_index(device, optional=True)
    if index < 0 or index >= cuda.device_count():
        raise RuntimeError(f"invalid argument to {name}")
    return index


def reset_peak_memory_stats(device=None):
    """Lets the greatest sizes of a GPU's memory begin again at the present ones."""
    index = _reset("reset_peak_memory_stats", device)
    if "_cuda_resetPeakMemoryStats" in _native:
        _C._cuda_resetPeakMemoryStats(index)


def reset_accumulated_memory_stats(device=None):
    """Sets what was counted about a GPU's memory to 0."""
    index = _reset("reset_accumulated_memory_stats", device)
    if "_cuda_resetAccumulatedMemoryStats" in _native:
        _C._cuda_resetAccumulatedMemoryStats(index)


def _deprecated(old, new):
    import warnings

    warnings.warn(f"torch.cuda.{old} now calls torch.cuda.{new}", FutureWarning, stacklevel=3)


def reset_max_memory_allocated(device=None):
    """Deprecated: :func:`reset_peak_memory_stats`."""
    _deprecated("reset_max_memory_allocated", "reset_peak_memory_stats, which resets /all/ peak memory stats.")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device=None):
    """Deprecated: :func:`reset_peak_memory_stats`."""
    _deprecated("reset_max_memory_cached", "reset_peak_memory_stats, which resets /all/ peak memory stats.")
    reset_peak_memory_stats(device)


def _count(name, doc, counted):
    def function(device=None):
        return memory_stats(device).get(counted, 0)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


memory_allocated = _count(
    "memory_allocated", "Bytes that tensors on a GPU use.", "allocated_bytes.all.current"
)
max_memory_allocated = _count(
    "max_memory_allocated", "The most bytes that tensors used.", "allocated_bytes.all.peak"
)
memory_reserved = _count(
    "memory_reserved", "Bytes that the allocator holds.", "reserved_bytes.all.current"
)
max_memory_reserved = _count(
    "max_memory_reserved", "The most bytes that the allocator held.", "reserved_bytes.all.peak"
)


def memory_cached(device=None):
    """Deprecated: :func:`memory_reserved`."""
    import warnings

    warnings.warn(
        "`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`", FutureWarning,
        stacklevel=2,
    )
    return memory_reserved(device)


def max_memory_cached(device=None):
    """Deprecated: :func:`max_memory_reserved`."""
    import warnings

    warnings.warn(
        "`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`",
        FutureWarning, stacklevel=2,
    )
    return max_memory_reserved(device)


def empty_cache():
    """Gives memory that no tensor uses back to the driver."""
    if is_initialized() and "_cuda_emptyCache" in _native:
        _C._cuda_emptyCache()


def memory_snapshot(mempool_id=None, include_traces=True):
    """The segments of the caching allocator and their blocks."""
    if not is_initialized() or "_cuda_memorySnapshot" not in _native:
        return []
    segments = _snapshot()["segments"]
    if mempool_id is None:
        return segments
    return [one for one in segments if one["segment_pool_id"] == tuple(mempool_id)]


def _snapshot(device=None, augment_with_fx_traces=False):
    """The segments and the recorded history of the caching allocator, as PyTorch's viewer reads them."""
    if not is_initialized():
        return {"segments": [], "device_traces": [], "allocator_settings": {}, "external_annotations": []}
    found = _allocator("_cuda_memorySnapshot")()
    if device is not None:
        index = _get_device_index(device, optional=True)
        found["segments"] = [one for one in found["segments"] if one["device"] == index]
        found["device_traces"] = [
            trace if place == index else [] for place, trace in enumerate(found["device_traces"])]
    return found


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Writes the snapshot to a file for PyTorch's viewer."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _record_memory_history(enabled="all", *args, **kwargs):
    """Whether what the caching allocator does is recorded.

    Args:
        enabled: ``"all"`` for the history and the blocks that are held, ``"state"`` for these alone, ``None``
            for nothing. The older form takes a truth value, ``record_context`` and ``trace_alloc_max_entries``.
        context: For what the frames of Python are kept: ``"all"``, ``"alloc"`` (no frees), ``"state"`` or
            ``None``.
        stacks: ``"python"``, or ``"all"``, which is the same here: frames of other languages are not recorded.
        max_entries: How many events are kept.
        device: All GPUs are recorded, whichever is named.
        clear_history: Whether what was recorded is forgotten.
    """
    _lazy_init()
    if isinstance(enabled, bool):
        return _record_legacy(enabled, *args, **kwargs)
    return _record(enabled, *args, **kwargs)


def _record(enabled, context="all", stacks="all", max_entries=2**63 - 1, device=None, clear_history=False,
            compile_context=False, global_record_annotations=False, skip_actions=None):
    for name, value, known in (
        ("enabled", enabled, ("all", "state", None)), ("context", context, ("all", "alloc", "state", None)),
        ("stacks", stacks, ("python", "all")),
    ):
        if value not in known:
            raise RuntimeError(f"{name}: expected one of {known}, but got {value!r}")
    if enabled == "state":
        context, max_entries = context and "state", 1
    _set_history(enabled is not None, max_entries, context, clear_history)


def _record_legacy(enabled, record_context=True, trace_alloc_max_entries=1, trace_alloc_record_context=False,
                   device=None, record_context_cpp=False, clear_history=False, compile_context=False,
                   global_record_annotations=False):
    context = ("alloc" if trace_alloc_record_context else "state") if record_context else None
    _set_history(enabled, trace_alloc_max_entries, context, clear_history)


def _set_history(enabled, max_entries, context, clear):
    from corten.cuda._memory_frames import frames

    _allocator("_cuda_recordMemoryHistory")(
        bool(enabled), int(max_entries), context if enabled else None, frames, bool(clear))


def _save_segment_usage(filename="output.svg", snapshot=None):
    """Needs PyTorch's viewer, which reads what :func:`_dump_snapshot` writes."""
    raise NotImplementedError("_save_segment_usage: open the file of _dump_snapshot in PyTorch's viewer instead")


def _set_allocator_settings(env):
    """Changes settings of the caching allocator, written as in ``PYTORCH_ALLOC_CONF``."""
    _allocator("_cuda_setAllocatorSettings")(env)


def host_memory_stats():
    """Everything that is counted about pinned memory."""
    if not is_initialized() or "_cuda_hostMemoryStats" not in _native:
        return OrderedDict()
    return OrderedDict(sorted(_C._cuda_hostMemoryStats().items()))


def host_memory_stats_as_nested_dict():
    """:func:`host_memory_stats` as dictionaries of dictionaries."""
    return _nested(host_memory_stats())


def reset_accumulated_host_memory_stats():
    """Sets what was counted about pinned memory to 0."""
    if is_initialized() and "_cuda_resetAccumulatedHostMemoryStats" in _native:
        _C._cuda_resetAccumulatedHostMemoryStats()


def reset_peak_host_memory_stats():
    """Lets the greatest sizes of pinned memory begin again at the present ones."""
    if is_initialized() and "_cuda_resetPeakHostMemoryStats" in _native:
        _C._cuda_resetPeakHostMemoryStats()


def mem_get_info(device=None):
    """Free and total bytes of a GPU."""
    return _C._cuda_memGetInfo(_started(device))


def set_per_process_memory_fraction(fraction, device=None):
    """Limits this process to a share of a GPU's memory.

    Args:
        fraction: From 0.0 to 1.0.
        device: The GPU; the current one if it is ``None``.
    """
    index = _started(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _allocator("_cuda_setMemoryFraction")(fraction, index)


def get_per_process_memory_fraction(device=None):
    """The share of a GPU's memory that this process may have."""
    index = _started(device)
    return _allocator("_cuda_getMemoryFraction")(index) if "_cuda_getMemoryFraction" in _native else 1.0


def caching_allocator_alloc(size, device=None, stream=None):
    """The address of new bytes on a GPU, to be given to :func:`caching_allocator_delete`.

    Args:
        size: How many bytes.
        device: The GPU; the current one if it is ``None``.
        stream: The stream that uses them, or its address; the current one if it is ``None``.
    """
    from corten import cuda

    index = _started(device)
    if stream is None:
        stream = cuda.current_stream(index)
    if isinstance(stream, cuda.Stream):
        stream = stream.cuda_stream
    if not isinstance(stream, int):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.cuda.Stream` or `int` representing a pointer "
            "to an existing stream"
        )
    with cuda.device(index):
        return _allocator("_cuda_cudaCachingAllocator_raw_alloc")(size, stream)


def caching_allocator_delete(mem_ptr):
    """Frees what :func:`caching_allocator_alloc` gave."""
    _allocator("_cuda_cudaCachingAllocator_raw_delete")(mem_ptr)


def caching_allocator_enable(value=True):
    """Whether freed blocks are kept for later tensors. Without that the driver is asked for each of them, which
    is slow and lets tools see every access outside of a tensor; ``PYTORCH_NO_CUDA_MEMORY_CACHING=1`` turns it off
    from the start."""
    if is_initialized():
        _allocator("_cuda_setCaching")(bool(value))


@contextlib.contextmanager
def caching_allocator_disabled():
    """Asks the driver for every block in a ``with`` block."""
    before = _C._cuda_isCaching() if is_initialized() else True
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(before)


def get_allocator_backend():
    """The name of the allocator."""
    return "native"


class MemPool:
    """A pool of blocks of its own for :func:`use_mem_pool`. Its memory goes back to the driver when the pool and
    its tensors are gone.

    Args:
        allocator: Where segments come from; only the driver is supported.
    """

    _last = 0

    def __init__(self, allocator=None, use_on_oom=False, no_split=False, **kwargs):
        from corten import cuda

        _lazy_init()
        if allocator is not None or use_on_oom or no_split or kwargs:
            raise NotImplementedError("MemPool: only pools of the driver's memory without options are supported")
        MemPool._last += 1
        self._id, self._device = (0, MemPool._last), cuda.current_device()
        _allocator("_cuda_retainPool")(self._device, self._id)

    @property
    def id(self):
        """The name of the pool, which the segments of a snapshot have."""
        return self._id

    @property
    def device(self):
        """The index of the GPU that was the current one when the pool was made."""
        return self._device

    def use_count(self):
        """How many use the pool, the object itself included."""
        return _allocator("_cuda_poolUseCount")(self._device, self._id)

    def snapshot(self, include_traces=True):
        """The segments of the pool and their blocks."""
        return memory_snapshot(self._id)

    def __del__(self):
        if hasattr(self, "_id") and _C is not None:
            _allocator("_cuda_releasePool")(self._device, self._id)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """The allocations of this thread on a GPU come from a pool in a ``with`` block."""
    index = _started(device)
    begin = _allocator("_cuda_beginAllocateCurrentThreadToPool")
    begin(index, pool.id)
    try:
        yield
    finally:
        _C._cuda_endAllocateToPool(index, pool.id)
        _C._cuda_releasePool(index, pool.id)


class CUDAPluggableAllocator:
    """An allocator from a library, which this build does not call."""

    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        raise NotImplementedError(
            "CUDAPluggableAllocator: the caching allocator of this build cannot be replaced"
        )


def change_current_allocator(allocator):
    """Replaces the allocator, which this build does not do."""
    raise NotImplementedError(
        "change_current_allocator: the caching allocator of this build cannot be replaced"
    )


from corten.cuda._memory_summary import memory_summary  # noqa: E402

