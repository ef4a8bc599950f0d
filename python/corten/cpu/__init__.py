"""The CPU seen as a device like others: one device, one stream, nothing to wait for."""

from __future__ import annotations

from contextlib import AbstractContextManager

from corten.cpu import amp as amp
from corten.cpu import memory as memory
from corten.cpu.memory import (
    empty_cache as empty_cache,
    memory_stats as memory_stats,
    reset_peak_memory_stats as reset_peak_memory_stats,
)

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
    "get_capabilities", "is_available", "is_initialized", "set_device", "stream", "synchronize",
]


class Stream:
    """The stream of the CPU: work is done when the call returns."""

    def __init__(self, priority=-1):
        pass

    def wait_stream(self, stream):
        """Nothing to wait for."""

    def record_event(self, event=None):
        """Nothing to mark."""

    def wait_event(self, event):
        """Nothing to wait for."""


class Event:
    """A mark in the work of the CPU, which is always done."""

    def __init__(self, enable_timing=False):
        pass

    def query(self):
        """Done."""
        return True

    def record(self, stream=None):
        """Nothing to mark."""

    def synchronize(self):
        """Nothing to wait for."""

    def wait(self, stream=None):
        """Nothing to wait for."""


_default_cpu_stream = Stream()
_current_stream = _default_cpu_stream


class StreamContext(AbstractContextManager):
    """Makes a stream the current one for a ``with`` block."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        global _current_stream
        if self.stream is not None:
            self._before, _current_stream = _current_stream, self.stream

    def __exit__(self, kind, value, traceback):
        global _current_stream
        if self.stream is not None:
            _current_stream = self._before


def stream(stream):
    """Makes a stream the current one for a ``with`` block."""
    return StreamContext(stream)


def current_stream(device=None):
    """The current stream."""
    return _current_stream


def is_available():
    """There is always a CPU."""
    return True


def is_initialized():
    """It needs no start."""
    return True


def device_count():
    """One."""
    return 1


def current_device():
    """The name of the device."""
    return "cpu"


def set_device(device):
    """There is nothing to choose."""


def synchronize(device=None):
    """Nothing to wait for."""


def get_capabilities():
    """The architecture, and which of its extensions the processor has."""
    from types import MappingProxyType

    return MappingProxyType(_capabilities())


def _capabilities():
    import platform

    found = {"architecture": platform.machine()}
    try:
        with open("/proc/cpuinfo") as file:
            lines = (line.partition(":") for line in file)
            for key, _, value in lines:
                if key.strip() in ("flags", "Features"):
                    found.update(dict.fromkeys(value.split(), True))
                    break
    except OSError:
        pass
    return found


def _is_avx2_supported():
    """Whether the processor has AVX2."""
    return _has("avx2")


def _is_avx512_supported():
    """Whether the processor has the extensions of AVX-512 that kernels use."""
    return _has("avx512f", "avx512bw", "avx512dq", "avx512vl")


def _is_avx512_bf16_supported():
    """Whether the processor multiplies ``bfloat16``."""
    return _has("avx512_bf16")


def _is_vnni_supported():
    """Whether the processor multiplies bytes in vectors."""
    return _has("avx512_vnni")


def _is_amx_tile_supported():
    """Whether the processor has tile registers."""
    return _has("amx_tile")


def _is_amx_fp16_supported():
    """Whether the processor multiplies ``float16`` in tile registers."""
    return _has("amx_fp16")


def _has(*extensions):
    found = _capabilities()
    return all(found.get(one, False) for one in extensions)
