"""Functions of the standard that reduce and accumulate elements."""

from __future__ import annotations

import corten
from corten import _C

from corten.array_api._array import wrapped
from corten.array_api._axes import axes_of, axis_of, kept_shape, together
from corten.array_api._dtypes import KIND_OF, WIDE_UNSIGNED, as_ordered, as_signed, from_ordered, from_signed
from corten.array_api._elementwise import subtract
from corten.array_api._manipulation import concat

_functions = _C._functions


def _type_of_sums(dtype, given):
    """The data type of sums and products: that of the elements, or the widest integer."""
    if given is not None:
        return given
    kind = KIND_OF.get(dtype)
    if kind == "unsigned integer":
        return corten.uint64
    return corten.int64 if kind in ("bool", "signed integer") else dtype


def _accumulated(x, dtype, compute):
    """A result of sums or products of numbers in the data type that they are asked for in."""
    dtype = _type_of_sums(x.dtype, dtype)
    x = x.to(dtype)
    if dtype in WIDE_UNSIGNED:
        return from_signed(compute(as_signed(x), corten.int64), dtype)
    return compute(x, dtype)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """Sums along axes. Integers are added as integers of 64 bits."""
    axes = axes_of(axis, x.ndim)

    def compute(tensor, dtype):
        return _functions.sum(tensor, axes, keepdims, dtype=dtype) if axes else tensor.clone()

    return wrapped(_accumulated(x, dtype, compute))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """Products along axes. Integers are multiplied as integers of 64 bits."""
    axes = axes_of(axis, x.ndim)

    def compute(tensor, dtype):
        if not axes:
            return tensor.clone()
        result = _functions.prod(together(tensor, axes), -1, dtype=dtype)
        return result.reshape(kept_shape(x.shape, axes)) if keepdims else result

    return wrapped(_accumulated(x, dtype, compute))


def _extremum(compute, x, axis, keepdims):
    axes = axes_of(axis, x.ndim)
    if not axes:
        return wrapped(x.clone())
    if x.dtype in WIDE_UNSIGNED:
        return wrapped(from_ordered(compute(as_ordered(x), axes, keepdims), x.dtype))
    return wrapped(compute(x, axes, keepdims))


def max(x, /, *, axis=None, keepdims=False):
    """The greatest elements along axes, NaN where one is."""
    return _extremum(_functions.amax, x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """The least elements along axes, NaN where one is."""
    return _extremum(_functions.amin, x, axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    """Arithmetic means along axes."""
    axes = axes_of(axis, x.ndim)
    return wrapped(_functions.mean(x, axes, keepdims) if axes else x.clone())


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variances along axes, sums of squares divided by the number of elements less ``correction``."""
    axes = axes_of(axis, x.ndim)
    count = 1
    for one in axes:
        count *= x.shape[one]
    if axes:
        result = _functions.var(x, axes, correction=0, keepdim=keepdims)
    else:
        result = _functions.square(x - x)
    if not correction:
        return wrapped(result)
    left = count - correction
    return wrapped(result * (count / left if left > 0 else float("nan") if count == 0 else float("inf")))


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Standard deviations along axes; see :func:`var`."""
    return wrapped(_functions.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims)))


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements along axes are true."""
    return _holds(_functions.all, x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Whether any element along axes is true."""
    return _holds(_functions.any, x, axis, keepdims)


def _holds(compute, x, axis, keepdims):
    axes, x = axes_of(axis, x.ndim), x.to(corten.bool)
    return wrapped(compute(x, axes, keepdims) if axes else x.clone())


def _running(compute, neutral, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("cumulative functions: axis is needed where x has not one dimension")
        axis = 0
    axis = axis_of(axis, x.ndim)
    result = _accumulated(x, dtype, lambda tensor, dtype: compute(tensor, axis, dtype=dtype))
    if include_initial:
        shape = kept_shape(x.shape, (axis,))
        first = _functions.full(shape, neutral, dtype=result.dtype, device=result.device)
        result = _functions.cat([first, result], axis)
    return wrapped(result)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of the elements up to each one, after a zero with ``include_initial``."""
    return _running(_functions.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Products of the elements up to each one, after a one with ``include_initial``."""
    return _running(_functions.cumprod, 1, x, axis, dtype, include_initial)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours along an axis, taken ``n`` times."""
    if n < 0:
        raise ValueError(f"diff(): n must not be negative, got {n}")
    axis = axis_of(axis, x.ndim)
    parts = [one for one in (prepend, x, append) if one is not None]
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        count = x.shape[axis]
        if count == 0:
            break
        later, earlier = x.narrow(axis, 1, count - 1), x.narrow(axis, 0, count - 1)
        x = later != earlier if x.dtype == corten.bool else subtract(later, earlier)
    return wrapped(x)


__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum",
    "var",
]
