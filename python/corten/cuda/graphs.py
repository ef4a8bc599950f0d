"""Recorded work of GPUs, which this build does not drive."""

from __future__ import annotations

from corten.cuda import _needs_gpu, init

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables"]


class CUDAGraph:
    """Recorded work."""

    def __new__(cls, keep_graph=False):
        init()


class graph:
    """Records what is done in a ``with`` block."""

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        init()


def is_current_stream_capturing():
    """Whether work is being recorded."""
    return False


graph_pool_handle = _needs_gpu("graph_pool_handle", "A place for the memory of records.")
make_graphed_callables = _needs_gpu("make_graphed_callables", "Functions that replay records.")
