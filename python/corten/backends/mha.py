"""Whether attention in evaluation may skip padding, and take nested tensors."""

from __future__ import annotations

_enabled = True


def get_fastpath_enabled():
    """Whether it may."""
    return _enabled


def set_fastpath_enabled(value):
    """Sets whether it may."""
    global _enabled
    _enabled = value
