"""NVIDIA's profilers, which are told when to collect."""

from __future__ import annotations

import contextlib

__all__ = ["profile", "start", "stop"]


def start():
    """Starts collecting."""
    from corten import cuda

    cuda.check_error(cuda.cudart().cudaProfilerStart())


def stop():
    """Stops collecting."""
    from corten import cuda

    cuda.check_error(cuda.cudart().cudaProfilerStop())


@contextlib.contextmanager
def profile():
    """Collects while a block runs."""
    try:
        start()
        yield
    finally:
        stop()
