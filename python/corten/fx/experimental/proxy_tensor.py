"""Traces of functions by their tensors, of which none is being made."""

from __future__ import annotations

import contextlib

__all__ = []


def get_proxy_mode():
    """The mode in which calls are recorded: None."""
    return None


def disable_proxy_modes_tracing():
    """A block in which calls are not recorded, as they are not anyway."""
    return contextlib.nullcontext()


def is_sym_node(node):
    """Whether a number is one of a trace."""
    return False


def maybe_disable_thunkify():
    """A block in which numbers are computed at once, as they are anyway."""
    return contextlib.nullcontext()
