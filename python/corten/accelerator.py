"""The accelerator of this machine, whatever its kind."""

from __future__ import annotations

__all__ = [
    "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability",
    "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]


def is_available():
    """Whether there is one."""
    return False


def device_count():
    """How many there are."""
    return 0


def current_accelerator(check_available=False):
    """Its device, or ``None``."""
    return None


def _absent(*args, **kwargs):
    """Needs an accelerator."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_index = current_device_idx = set_device_index = set_device_idx = _absent
synchronize = _absent


def _needs(name, doc):
    def function(*args, **kwargs):
        _absent()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


current_stream = _needs("current_stream", "The stream that operators run on.")
set_stream = _needs("set_stream", "Makes a stream the current one.")
get_device_capability = _needs("get_device_capability", "What a device can do.")
get_memory_info = _needs("get_memory_info", "Free and total bytes of a device.")


def empty_cache():
    """Gives unused memory of devices back."""


def empty_host_cache():
    """Gives unused pinned memory back."""


def memory_stats(device_index=None, /):
    """What is known about the memory of a device: nothing."""
    from collections import OrderedDict

    return OrderedDict()


def memory_allocated(device_index=None, /):
    """Bytes that tensors on a device use."""
    return 0


def memory_reserved(device_index=None, /):
    """Bytes that the allocator of a device holds."""
    return 0


def max_memory_allocated(device_index=None, /):
    """The most bytes that tensors on a device have used."""
    return 0


def max_memory_reserved(device_index=None, /):
    """The most bytes that the allocator of a device has held."""
    return 0


def reset_accumulated_memory_stats(device_index=None, /):
    """Forgets counts of memory."""


def reset_peak_memory_stats(device_index=None, /):
    """Forgets the most bytes that were used."""


class device_index:
    """Makes a device the current one for a ``with`` block; ``None`` changes nothing."""

    def __init__(self, device, /):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            _absent()

    def __exit__(self, kind, value, traceback):
        return False


class Graph:
    """Recorded work of an accelerator."""

    def __init__(self, *args, **kwargs):
        _absent()
