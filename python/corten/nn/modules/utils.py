"""Small helpers of modules."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat


def _ntuple(n):
    def parse(value):
        return tuple(value) if isinstance(value, Iterable) else tuple(repeat(value, n))

    return parse


_single = _ntuple(1)
_pair = _ntuple(2)
_triple = _ntuple(3)
_quadruple = _ntuple(4)


def _reverse_repeat_tuple(values, n):
    """Last value first, each `n` times: the order in which `pad` takes its widths."""
    return tuple(value for value in reversed(values) for _ in range(n))
