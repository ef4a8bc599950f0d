"""Patterns, the longest first."""

from __future__ import annotations

__all__: list[str] = []


def _length(pattern):
    return sum(map(_length, pattern)) if isinstance(pattern, tuple) else 1


def _sorted_patterns_dict(patterns_dict):
    """The same with patterns of more operations first, and patterns of one operation last."""

    def key(item):
        return -_length(item[0]) if isinstance(item[0], tuple) else 1

    return dict(sorted(patterns_dict.items(), key=key))
