"""Reductions of jagged tensors: over all, over dimensions of items, over the items' lengths."""

from __future__ import annotations

import corten
from corten import _C

from . import _padding
from ._jagged import like, wrapped

NAMES = frozenset(_C._ops_tagged("jagged_reduction"))


def reduced(name, func, input, dim=None, *args, **kwargs):
    """The result of a reduction.

    Raises:
        RuntimeError: It is over dimensions that cannot go together.
    """
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        row, _, _ = _padding.places(input)
        return func(_padding.rows(input)[row], **kwargs)
    several = isinstance(dim, (tuple, list))
    dims = [wrapped(input, one) for one in (dim if several else [dim])]
    ragged = input._ragged_idx
    keepdim = args[0] if args else kwargs.pop("keepdim", False)
    if ragged not in dims:
        if 0 in dims:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not "
                "supported for nested tensors"
            )
        return _of_items(func, input, dims, several, keepdim, kwargs)
    if 0 in dims:
        return _of_all_rows(func, input, dims, keepdim, kwargs)
    if len(dims) > 1:
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested "
            "tensors"
        )
    return _of_lengths(name, func, input, several, keepdim, kwargs)


def _of_items(func, input, dims, several, keepdim, kwargs):
    inner = [dim - 1 for dim in dims]
    found = func(input._values, inner if several else inner[0], keepdim, **kwargs)
    ragged = input._ragged_idx - (0 if keepdim else sum(dim < input._ragged_idx for dim in dims))
    if isinstance(found, tuple):
        return type(found)(like(input, part, ragged) for part in found)
    return like(input, found, ragged)


def _of_all_rows(func, input, dims, keepdim, kwargs):
    row, _, _ = _padding.places(input)
    rows = _padding.rows(input)[row]
    # The rows stand for the first two dimensions: the others are in their order behind them.
    others = [dim for dim in range(1, input.dim()) if dim != input._ragged_idx]
    inner = [0, *(1 + others.index(dim) for dim in dims if dim in others)]
    found = func(rows, inner, False, **kwargs)
    if keepdim:
        for dim in sorted(dims):
            found = found.unsqueeze(dim)
    return found


def _of_lengths(name, func, input, several, keepdim, kwargs):
    ragged = input._ragged_idx
    source = input if input._lengths is None else input.contiguous()
    if name in ("sum", "mean"):
        dense = corten.sum(_padding.padded(source, 0), ragged, keepdim, **kwargs)
        if name == "sum":
            return dense
        shape = [-1] + [1] * (dense.dim() - 1)
        counts = corten.tensor(source._seqlens(), device=dense.device).reshape(shape)
        return dense / counts
    dense = _padding.padded(source, _neutral(name, source.dtype))
    return func(dense, [ragged] if several else ragged, keepdim, **kwargs)


def _neutral(name, dtype):
    """What changes nothing."""
    if name in ("prod", "all"):
        return 1
    if name == "any":
        return 0
    least = name in ("amax", "max", "argmax")
    if dtype == corten.bool:
        return not least
    if dtype.is_floating_point:
        return float("-inf") if least else float("inf")
    limits = corten.iinfo(dtype)
    return limits.min if least else limits.max
