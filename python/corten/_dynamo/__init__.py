"""The tracer behind compilation, of which this build has the names that programs touch: settings
are kept, functions run as they are."""

from __future__ import annotations

from corten._dynamo import config  # noqa: F401
from corten._dynamo.eval_frame import OptimizedModule
from corten.compiler import (
    allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, nonstrict_trace,
    reset, set_stance, substitute_in_graph,
)

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "graph_break",
    "is_compiling", "list_backends", "mark_dynamic", "mark_static", "maybe_mark_dynamic",
    "nonstrict_trace", "reset", "set_stance", "substitute_in_graph",
]


def graph_break(msg=""):
    """Ends the graph that is being traced."""


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Says that a dimension differs from call to call."""


def maybe_mark_dynamic(t, index):
    """Says that a dimension may differ from call to call."""


def mark_static(t, index=None):
    """Says that a dimension is the same in all calls."""
