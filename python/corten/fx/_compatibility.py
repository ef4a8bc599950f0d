"""Marks of what stays as it is between versions."""

from __future__ import annotations

__all__ = ["compatibility"]

_BACK_COMPAT_OBJECTS = {}
_MARKED_WITH_COMPATIBILITY = {}


def compatibility(is_backward_compatible):
    """Decorates a function or class that stays as it is, or that may change."""

    def mark(function):
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(function)
        _MARKED_WITH_COMPATIBILITY.setdefault(function)
        return function

    return mark
