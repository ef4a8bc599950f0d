"""Which sizes of a tensor differ from call to call: marks that traces with symbolic shapes read."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class _DimRange:
    """The range of a dimension that was marked."""

    dim: int
    min: object
    max: object


def _dims(t, index):
    dims = range(t.dim()) if index is None else (index,) if isinstance(index, int) else index
    return [dim % t.dim() if t.dim() else dim for dim in dims]


def _marks(t, name):
    if not hasattr(t, name):
        setattr(t, name, set())
    return getattr(t, name)


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Says that a dimension differs from call to call: its size is a symbol, which must not become a number.

    Args:
        index: The dimension, or several.
        min: The least size.
        max: The greatest size.
    """
    if not hasattr(t, "dim") or not isinstance(t.dim(), int):
        return
    for dim in _dims(t, index):
        _marks(t, "_dynamo_dynamic_indices").add(dim)
        _marks(t, "_dynamo_weak_dynamic_indices").discard(dim)
        ranges = _marks(t, "_dynamo_dynamic_range")
        for one in [one for one in ranges if one.dim == dim]:
            ranges.discard(one)
        if min is not None or max is not None:
            ranges.add(_DimRange(dim, min, max))


def maybe_mark_dynamic(t, index):
    """Says that a dimension may differ from call to call: its size is a symbol, which may become a number."""
    for dim in _dims(t, index):
        if dim not in getattr(t, "_dynamo_dynamic_indices", ()):
            _marks(t, "_dynamo_weak_dynamic_indices").add(dim)


def mark_unbacked(t, index, hint_override=None, strict=False, specialize_on=None, shape_id=None, min=None, max=None):
    """Says that nothing is known about the size of a dimension."""
    for dim in _dims(t, index):
        _marks(t, "_dynamo_unbacked_indices").add(dim)


def mark_static(t, index=None):
    """Says that a dimension, or all, are the same in all calls: their sizes are numbers."""
    if not hasattr(t, "dim"):
        return
    for dim in _dims(t, index):
        _marks(t, "_dynamo_static_indices").add(dim)
        _marks(t, "_dynamo_weak_dynamic_indices").discard(dim)
