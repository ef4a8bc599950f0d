"""What is noted of nodes while graphs are made of graphs."""

from __future__ import annotations

import contextlib

__all__ = ["has_preserved_node_meta", "preserve_node_meta"]

_preserved = False


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """A block in which nodes that are made of others keep their notes."""
    global _preserved
    before, _preserved = _preserved, enable
    try:
        yield
    finally:
        _preserved = before


def has_preserved_node_meta():
    """Whether such a block is active."""
    return _preserved
