"""Marks for NVIDIA's profilers, through ``libnvToolsExt``. Where that library is not installed they go nowhere, as
without a profiler."""

from __future__ import annotations

import ctypes
import functools
from contextlib import contextmanager

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_NAMES = ("libnvToolsExt.so.1", "libnvToolsExt.so")


@functools.cache
def _library():
    """The library, or ``None``: looked for at the first mark."""
    import glob
    import os
    import site

    folders = [os.environ.get("CORTEN_CUDA_LIB_DIR", "")]
    folders += [path for place in site.getsitepackages() for path in glob.glob(f"{place}/nvidia/*/lib")]
    folders += [os.path.join(os.environ[name], "lib64") for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    for path in [os.path.join(folder, name) for folder in folders for name in _NAMES] + list(_NAMES):
        try:
            found = ctypes.CDLL(path)
        except OSError:
            continue
        found.nvtxRangePushA.argtypes = found.nvtxMarkA.argtypes = [ctypes.c_char_p]
        found.nvtxRangeStartA.argtypes, found.nvtxRangeStartA.restype = [ctypes.c_char_p], ctypes.c_uint64
        found.nvtxRangeEnd.argtypes, found.nvtxRangeEnd.restype = [ctypes.c_uint64], None
        return found
    return None


def range_push(msg):
    """Begins a range and gives its depth; a negative number says that nobody listens."""
    library = _library()
    return library.nvtxRangePushA(msg.encode()) if library else -2


def range_pop():
    """Ends the range begun last, and gives its depth."""
    library = _library()
    return library.nvtxRangePop() if library else -2


def range_start(msg):
    """Begins a range that may end anywhere, and gives its number."""
    library = _library()
    return library.nvtxRangeStartA(msg.encode()) if library else 0


def range_end(range_id):
    """Ends the range of a number."""
    library = _library()
    if library:
        library.nvtxRangeEnd(range_id)


def mark(msg):
    """A mark at one time."""
    library = _library()
    if library:
        library.nvtxMarkA(msg.encode())


@contextmanager
def range(msg, *args, **kwargs):
    """The range of a ``with`` block."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
