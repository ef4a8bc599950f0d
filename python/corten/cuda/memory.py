"""The memory of GPUs, of which there is none: sizes are 0, and what would act is refused."""

from __future__ import annotations

import contextlib
from collections import OrderedDict

from corten.cuda import _needs_gpu, init

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


def _size(name, doc):
    def function(device=None):
        return 0

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _forgets(name, doc):
    def function(device=None):
        return None

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


memory_allocated = _size("memory_allocated", "Bytes that tensors on a GPU use.")
max_memory_allocated = _size("max_memory_allocated", "The most bytes that tensors used.")
memory_reserved = _size("memory_reserved", "Bytes that the allocator holds.")
max_memory_reserved = _size("max_memory_reserved", "The most bytes that the allocator held.")
memory_cached = _size("memory_cached", "Deprecated: ``memory_reserved``.")
max_memory_cached = _size("max_memory_cached", "Deprecated: ``max_memory_reserved``.")
reset_peak_memory_stats = _forgets("reset_peak_memory_stats", "Forgets the greatest sizes.")
reset_accumulated_memory_stats = _forgets("reset_accumulated_memory_stats", "Forgets counts.")
reset_max_memory_allocated = _forgets("reset_max_memory_allocated", "Forgets the most bytes.")
reset_max_memory_cached = _forgets("reset_max_memory_cached", "Forgets the most bytes held.")


def empty_cache():
    """Gives unused memory back to the driver."""


def memory_stats(device=None):
    """Everything that is known about the allocator: nothing."""
    return OrderedDict()


def memory_stats_as_nested_dict(device=None):
    """Everything that is known about the allocator: nothing."""
    return {}


def host_memory_stats():
    """What is known about pinned memory: nothing."""
    return OrderedDict()


def host_memory_stats_as_nested_dict():
    """What is known about pinned memory: nothing."""
    return {}


def reset_accumulated_host_memory_stats():
    """Forgets counts of pinned memory."""


def reset_peak_host_memory_stats():
    """Forgets the greatest sizes of pinned memory."""


def memory_snapshot(mempool_id=None):
    """The blocks of the allocator: none."""
    return []


def memory_summary(device=None, abbreviated=False):
    """A table of the memory in use."""
    return ""


def list_gpu_processes(device=None):
    """The processes that use a GPU, as text."""
    return "pynvml module not found, please install nvidia-ml-py"


def get_allocator_backend():
    """The name of the allocator."""
    return "native"


@contextlib.contextmanager
def caching_allocator_disabled():
    """Asks the driver for every block in a ``with`` block; there are no blocks."""
    yield


def caching_allocator_enable(value=True):
    """Whether freed blocks are kept; there are none."""


caching_allocator_alloc = _needs_gpu("caching_allocator_alloc", "Allocates a block.")
caching_allocator_delete = _needs_gpu("caching_allocator_delete", "Frees a block.")
change_current_allocator = _needs_gpu("change_current_allocator", "Replaces the allocator.")
mem_get_info = _needs_gpu("mem_get_info", "Free and total bytes of a GPU.")
get_per_process_memory_fraction = _needs_gpu(
    "get_per_process_memory_fraction", "The share of a GPU's memory for this process."
)
set_per_process_memory_fraction = _needs_gpu(
    "set_per_process_memory_fraction", "Limits this process to a share of a GPU's memory."
)
use_mem_pool = _needs_gpu("use_mem_pool", "Allocates from a pool.")


class MemPool:
    """A pool of blocks."""

    def __new__(cls, *args, **kwargs):
        init()


class CUDAPluggableAllocator:
    """An allocator from a library."""

    def __new__(cls, path_to_so_file, alloc_fn_name, free_fn_name):
        init()
