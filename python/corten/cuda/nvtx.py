"""Marks for NVIDIA's profilers; without them they go nowhere."""

from __future__ import annotations

from contextlib import contextmanager

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg):
    """Begins a range; a negative number says that nobody listens."""
    return -2


def range_pop():
    """Ends the range begun last."""
    return -2


def range_start(msg):
    """Begins a range that may end anywhere."""
    return 0


def range_end(range_id):
    """Ends a range."""


def mark(msg):
    """A mark at one time."""


@contextmanager
def range(msg, *args, **kwargs):
    """The range of a ``with`` block."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
