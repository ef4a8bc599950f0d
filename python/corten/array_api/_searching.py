"""Functions of the standard that search, sort and choose elements, and sets of them."""

from __future__ import annotations

import collections

import corten
from corten import _C

from corten.array_api._array import wrapped
from corten.array_api._axes import axes_of, axis_of, kept_shape
from corten.array_api._dtypes import WIDE_UNSIGNED, as_ordered
from corten.array_api._elementwise import operands

_functions = _C._functions


def _in_order(x):
    """Numbers that are ordered as the elements are, of a data type that all can be done with."""
    if x.dtype in WIDE_UNSIGNED:
        return as_ordered(x)
    return x.to(corten.uint8) if x.dtype == corten.bool else x


def _extremum(compute, x, axis, keepdims):
    x = _in_order(x)
    if axis is not None:
        return wrapped(compute(x, axis_of(axis, x.ndim), keepdims))
    found = compute(x.reshape(-1), 0)
    return wrapped(found.reshape((1,) * x.ndim) if keepdims else found)


def argmax(x, /, *, axis=None, keepdims=False):
    """The positions of the greatest elements, the first of several."""
    return _extremum(_functions.argmax, x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """The positions of the least elements, the first of several."""
    return _extremum(_functions.argmin, x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements along axes are not zero."""
    axes = axes_of(axis, x.ndim)
    chosen = (x != 0).to(corten.int64)
    return wrapped(_functions.sum(chosen, axes, keepdims) if axes else chosen)


def nonzero(x, /):
    """The positions of elements that are not zero, one array for every axis."""
    if x.ndim == 0:
        raise ValueError("nonzero(): x must have at least one dimension")
    return tuple([wrapped(one) for one in _functions.nonzero(x).unbind(1)])


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where to insert ``x2`` into the sorted ``x1`` so that it stays sorted."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted(): side is 'left' or 'right', got {side!r}")
    one, other = operands("searchsorted", x1, x2)
    if sorter is not None:
        one = _functions.index_select(one, 0, sorter.to(corten.int64))
    one, other = _in_order(one).contiguous(), _in_order(other).contiguous()
    return wrapped(_functions.searchsorted(one, other, right=side == "right"))


def where(condition, x1, x2, /):
    """The elements of ``x1`` where the condition holds, others of ``x2``."""
    if not (isinstance(x1, corten.Tensor) or isinstance(x2, corten.Tensor)):
        from corten.array_api._creation import asarray

        x1 = asarray(x1, device=condition.device)
    one, other = operands("where", x1, x2)
    return wrapped(_functions.where(condition, one, other))


def take(x, indices, /, *, axis=None):
    """The elements at positions along an axis, which vectors need not name."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take(): axis is needed where x has not one dimension")
        axis = 0
    axis = axis_of(axis, x.ndim)
    places = _from_first(indices, x.shape[axis])
    taken = _functions.index_select(x, axis, places.reshape(-1))
    if places.ndim != 1:
        taken = taken.reshape(x.shape[:axis] + places.shape + x.shape[axis + 1:])
    return wrapped(taken)


def _from_first(indices, size):
    """Positions counted from the first, where those from the last are negative."""
    indices = indices.to(corten.int64)
    return _functions.where(indices < 0, indices + size, indices)


def take_along_axis(x, indices, /, *, axis=-1):
    """The elements at positions along an axis that differ along the others."""
    if x.ndim != indices.ndim:
        raise ValueError(
            f"take_along_axis(): x has {x.ndim} dimensions, indices have {indices.ndim}"
        )
    axis = axis_of(axis, x.ndim)
    shape = corten.broadcast_shapes(kept_shape(x.shape, (axis,)), kept_shape(indices.shape, (axis,)))
    whole = shape[:axis] + (x.shape[axis],) + shape[axis + 1:]
    chosen = shape[:axis] + (indices.shape[axis],) + shape[axis + 1:]
    places = _from_first(indices, x.shape[axis]).broadcast_to(chosen)
    return wrapped(_functions.gather(x.broadcast_to(whole), axis, places))


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements in order along an axis."""
    order = argsort(x, axis=axis, descending=descending, stable=stable)
    return wrapped(_functions.gather(x, axis_of(axis, x.ndim), order) if x.ndim else x.clone())


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The positions of elements in order along an axis."""
    if x.ndim == 0:
        return wrapped(_functions.zeros_like(x, dtype=corten.int64))
    x = _in_order(x)
    order = _functions.argsort(x, dim=axis_of(axis, x.ndim), descending=descending, stable=True)
    return wrapped(order)


_All = collections.namedtuple("unique_all_result", ("values", "indices", "inverse_indices", "counts"))
_Counts = collections.namedtuple("unique_counts_result", ("values", "counts"))
_Inverse = collections.namedtuple("unique_inverse_result", ("values", "inverse_indices"))


def _order(flat):
    """The stable order of elements; complex numbers are ordered by real, then imaginary parts."""
    if not flat.is_complex():
        return argsort(flat)
    imaginary = _functions.argsort(_functions.imag(flat), dim=0, stable=True)
    real = _functions.real(flat)[imaginary]
    return imaginary[_functions.argsort(real, dim=0, stable=True)]


def unique_all(x, /):
    """The values, where each is first, which of them every element is, and how many are equal.

    Every NaN is a value of its own.
    """
    flat = x.reshape(-1).resolve_conj()
    order = _order(flat)
    ordered = _functions.index_select(flat, 0, order)
    first = _functions.ones_like(ordered, dtype=corten.bool)
    first[1:] = _functions.ne(ordered[1:], ordered[:-1])
    starts = _functions.nonzero(first).reshape(-1)
    ends = _functions.cat([starts[1:], _functions.full_like(starts[:1], flat.shape[0])])
    inverse = _functions.empty_like(order)
    inverse[order] = _functions.cumsum(first, 0) - 1
    return _All(
        wrapped(_functions.index_select(ordered, 0, starts)),
        wrapped(_functions.index_select(order, 0, starts)),
        wrapped(inverse.reshape(x.shape)), wrapped(ends - starts),
    )


def unique_counts(x, /):
    """The values, and how many elements are equal to each."""
    found = unique_all(x)
    return _Counts(found.values, found.counts)


def unique_inverse(x, /):
    """The values, and which of them every element is."""
    found = unique_all(x)
    return _Inverse(found.values, found.inverse_indices)


def unique_values(x, /):
    """The values, in order."""
    return unique_all(x).values


__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "take",
    "take_along_axis", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]
