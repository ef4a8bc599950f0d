"""Host memory: what the allocator has done, its cache, and what it does while somebody watches.

Freed blocks are kept for the next tensors. The counts have the names that :func:`corten.cuda.memory_stats` uses:
``allocated_bytes.all.current`` are the bytes in use, ``reserved_bytes`` those taken from the system, ``allocation`` and
``segment`` the blocks of each; every one has ``current``, ``peak``, ``allocated`` and ``freed``.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple

from corten import _C

__all__ = [
    "MemoryEvent", "empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats", "memory_stats_as_nested_dict", "record_memory",
    "reset_peak_memory_stats", "set_cache_limit", "set_numa_local",
]

MemoryEvent = namedtuple(
    "MemoryEvent", "address nbytes requested total_allocated total_reserved out_of_memory"
)
MemoryEvent.__doc__ = """A block that was taken, or given back where ``nbytes`` is negative.

``requested`` is what was asked for, 0 for a block that is given back; the totals are of all tensors, this event
included; ``out_of_memory`` says that there was no such block.
"""


def memory_stats(device=None):
    """Everything that is counted about host memory, by dotted names such as ``allocated_bytes.all.current``."""
    return OrderedDict(sorted(_C._cpu_memoryStats().items()))


def memory_stats_as_nested_dict(device=None):
    """:func:`memory_stats` as dictionaries of dictionaries."""
    nested = {}
    for name, value in memory_stats().items():
        *outer, last = name.split(".")
        place = nested
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def memory_allocated(device=None):
    """The bytes in use."""
    return memory_stats()["allocated_bytes.all.current"]


def max_memory_allocated(device=None):
    """The most bytes in use since the start or :func:`reset_peak_memory_stats`."""
    return memory_stats()["allocated_bytes.all.peak"]


def memory_reserved(device=None):
    """The bytes taken from the system: in use, or kept for the next tensors."""
    return memory_stats()["reserved_bytes.all.current"]


def max_memory_reserved(device=None):
    """The most bytes taken from the system since the start or :func:`reset_peak_memory_stats`."""
    return memory_stats()["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device=None):
    """Makes the present values the peaks."""
    _C._cpu_resetPeakMemoryStats()


def empty_cache():
    """Gives memory that is kept for the next tensors back to the system."""
    _C._cpu_emptyCache()


def set_cache_limit(nbytes):
    """How many freed bytes are kept for the next tensors."""
    _C._cpu_setCacheLimit(nbytes)


def set_numa_local(enabled):
    """Whether fresh memory is moved to the NUMA node of the thread that allocates it; off at first.

    Raises:
        NotImplementedError: This build has no support for NUMA.
    """
    _C._cpu_setNumaLocal(enabled)


class record_memory:
    """Keeps the events of host memory in a ``with`` block, of all threads.

    Allocations happen on threads without the interpreter, so events are not passed to Python one by one: ``take``
    gives those since it was last called, oldest first. Of more than ``limit`` the oldest are dropped, which ``dropped``
    counts. One block at a time can be open.
    """

    _open = False

    def __init__(self, limit=1_000_000):
        if limit < 1:
            raise ValueError(f"limit must be at least 1, but got {limit}")
        self.limit, self.events, self.dropped = limit, [], 0

    def __enter__(self):
        if record_memory._open:
            raise RuntimeError("record_memory: events are being recorded already")
        record_memory._open = True
        _C._cpu_watchMemory(self.limit)
        return self

    def take(self):
        """The events since the last call."""
        rows, dropped = _C._cpu_takeMemoryEvents()
        self.dropped += dropped
        taken = [MemoryEvent(*row) for row in rows]
        self.events.extend(taken)
        return taken

    def __exit__(self, kind, value, traceback):
        self.take()
        _C._cpu_watchMemory(0)
        record_memory._open = False
