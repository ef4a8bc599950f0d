"""Compilation. There is no compiler behind this yet: functions are run as they are."""

from __future__ import annotations

from corten.compiler._compile import compile  # noqa: F401

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin",
    "disable", "is_compiling", "is_dynamo_compiling", "is_exporting", "reset",
]


def is_compiling():
    """Whether the calling code is being compiled."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn=None, recursive=True, *, reason=None):
    """Keeps a function out of compilation."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn):
    """Takes a function into compilation as one piece."""
    return fn


def assume_constant_result(fn):
    """Says that a function always returns the same."""
    return fn


def reset():
    """Forgets what was compiled."""


def cudagraph_mark_step_begin():
    """Marks the beginning of a step."""
