"""Recorded work of GPUs, which this build does not have."""

from __future__ import annotations

from corten import _C
from corten.cuda._lazy import _lazy_init

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables"]

_pools = 0


def _refuse():
    _lazy_init()
    raise NotImplementedError("CUDA graphs are not supported by this build")


class CUDAGraph:
    """Recorded work."""

    def __new__(cls, keep_graph=False):
        _refuse()


class graph:
    """Records what is done in a ``with`` block."""

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        _refuse()


def is_current_stream_capturing():
    """Whether the work of the current stream is being recorded, by whomever."""
    return "_cuda_init" in vars(_C) and _C._cuda_hasContext() and _C._cuda_isCurrentStreamCapturing()


def graph_pool_handle():
    """A name for a place for the memory of records."""
    global _pools
    _pools += 1
    return 0, _pools


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Functions that replay records of others."""
    _refuse()
