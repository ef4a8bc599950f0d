"""Names of PyTorch's tracer that programs touch. What is compiled is recorded while it runs, so that
there is no tracer of bytecode; see :func:`corten.compile`."""

from __future__ import annotations

from corten import _C
from corten._C import Tensor
from corten._dynamo import config, exc  # noqa: F401
from corten._dynamo._marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
from corten._dynamo.eval_frame import OptimizedModule
from corten.compiler import (
    allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, nonstrict_trace,
    reset, set_stance, substitute_in_graph,
)
from corten.compiler._explain import explain
from corten.compiler._settings import register_backend

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "graph_break",
    "disallow_in_graph", "explain", "forbid_in_graph", "optimize", "optimize_assert", "register_backend",
    "is_compiling", "is_dynamo_supported", "list_backends", "mark_dynamic", "mark_static",
    "mark_static_address", "mark_unbacked", "maybe_mark_dynamic", "nonstrict_trace", "reset", "run",
    "set_stance", "substitute_in_graph",
]


def graph_break(msg=""):
    """Runs what is recorded, and starts anew."""
    if _C._region_active():
        _C._region_break(msg or "the program asks for it")


def mark_static_address(t, guard=False):
    """Says that a tensor stays where it is in memory."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")


def forbid_in_graph(fn):
    """Keeps a function out of compilation."""
    return disable(fn)


def disallow_in_graph(fn):
    """Keeps a function out of compilation."""
    return disable(fn)


def optimize(backend="inductor", *, nopython=False, dynamic=None, disable=False, **ignored):
    """The decorator that compiles with a backend."""
    import corten

    return corten.compile(backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend, **kwargs):
    """As ``optimize``, where breaks are errors."""
    return optimize(backend, nopython=True, **kwargs)


def run(fn=None):
    """Runs a function without compiling more of it: as it is."""
    return (lambda function: function) if fn is None else fn


def is_dynamo_supported():
    """Whether functions can be compiled."""
    return True
