"""The tracer behind compilation, of which this build has the names that programs touch: settings
are kept, functions run as they are."""

from __future__ import annotations

from corten._C import Tensor
from corten._dynamo import config  # noqa: F401
from corten._dynamo._marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
from corten._dynamo.eval_frame import OptimizedModule
from corten.compiler import (
    allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, nonstrict_trace,
    reset, set_stance, substitute_in_graph,
)

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "graph_break",
    "disallow_in_graph", "forbid_in_graph",
    "is_compiling", "is_dynamo_supported", "list_backends", "mark_dynamic", "mark_static",
    "mark_static_address", "mark_unbacked", "maybe_mark_dynamic", "nonstrict_trace", "reset", "run",
    "set_stance", "substitute_in_graph",
]


def graph_break(msg=""):
    """Ends the graph that is being traced."""


def mark_static_address(t, guard=False):
    """Says that a tensor stays where it is in memory."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")


def forbid_in_graph(fn):
    """Keeps a function out of compilation."""
    return fn


def disallow_in_graph(fn):
    """Keeps a function out of compilation."""
    return fn


def run(fn=None):
    """Runs a function without compiling more of it: as it is."""
    return (lambda function: function) if fn is None else fn


def is_dynamo_supported():
    """Whether functions can be compiled: they run as they are."""
    return False
