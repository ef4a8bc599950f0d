"""Functions of the standard that arrange elements anew."""

from __future__ import annotations

import corten
from corten import _C

from corten.array_api._array import wrapped
from corten.array_api._axes import axes_of, axis_of
from corten.array_api._dtypes import result_type

_functions = _C._functions


def broadcast_arrays(*arrays):
    """The arrays, all of the shape that they broadcast to."""
    shape = corten.broadcast_shapes(*(one.shape for one in arrays))
    return [broadcast_to(one, shape) for one in arrays]


def broadcast_to(x, /, shape):
    """A view of the array of a shape that it broadcasts to."""
    shape = tuple(shape)
    if corten.broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"broadcast_to(): {tuple(x.shape)} does not broadcast to {shape}")
    return wrapped(_functions.broadcast_to(x, shape))


def concat(arrays, /, *, axis=0):
    """The arrays joined along an axis, or one after the other where it is ``None``."""
    arrays = _of_one_type(arrays)
    if axis is None:
        arrays, axis = [one.reshape(-1) for one in arrays], 0
    axis = axis_of(axis, arrays[0].ndim)
    return wrapped(_functions.cat(arrays, axis))


def _of_one_type(arrays):
    dtype = result_type(*arrays)
    return [one.to(dtype) for one in arrays]


def stack(arrays, /, *, axis=0):
    """The arrays joined along a new axis."""
    arrays = _of_one_type(arrays)
    return wrapped(_functions.stack(arrays, axis_of(axis, arrays[0].ndim + 1)))


def unstack(x, /, *, axis=0):
    """The arrays that an axis joins."""
    return tuple([wrapped(one) for one in _functions.unbind(x, axis_of(axis, x.ndim))])


def expand_dims(x, /, axis=0):
    """A view with a new axis of one element."""
    return wrapped(_functions.unsqueeze(x, axis_of(axis, x.ndim + 1)))


def squeeze(x, /, axis):
    """A view without axes of one element.

    Raises:
        ValueError: An axis has another number of elements.
    """
    axes = axes_of(axis, x.ndim)
    for one in axes:
        if x.shape[one] != 1:
            raise ValueError(f"squeeze(): axis {one} has {x.shape[one]} elements, not 1")
    return wrapped(_functions.squeeze(x, axes)) if axes else wrapped(x)


def flip(x, /, *, axis=None):
    """The array with the order along axes reversed, along all for ``None``."""
    return wrapped(_functions.flip(x, axes_of(axis, x.ndim)))


def moveaxis(x, source, destination, /):
    """A view with axes at other places."""
    source, destination = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError("moveaxis(): source and destination must have the same number of axes")
    return wrapped(_functions.movedim(x, source, destination))


def permute_dims(x, /, axes):
    """A view with the axes in another order."""
    return wrapped(_functions.permute(x, tuple(axes)))


def repeat(x, repeats, /, *, axis=None):
    """The array with every element along an axis repeated, of the array as a list for ``None``."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = axis_of(axis, x.ndim)
    if isinstance(repeats, corten.Tensor):
        repeats = repeats.to(corten.int64)
        if repeats.ndim == 0 or repeats.numel() == 1:
            repeats = repeats.reshape(()).expand(x.shape[axis])
    return wrapped(_functions.repeat_interleave(x, repeats, axis))


def reshape(x, /, shape, *, copy=None):
    """The array with another shape, one size of which may be -1.

    Raises:
        ValueError: ``copy`` is ``False`` and a copy is needed.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if copy:
        return wrapped(x.clone().reshape(shape))
    if copy is None:
        return wrapped(_functions.reshape(x, shape))
    try:
        return wrapped(x.view(shape))
    except RuntimeError as error:
        raise ValueError("reshape(): the shape needs a copy") from error


def roll(x, /, shift, *, axis=None):
    """The array with elements moved along axes, those at the end to the beginning."""
    if axis is None:
        return wrapped(_functions.roll(x.reshape(-1), _only(shift)).reshape(x.shape))
    axes = axes_of(axis, x.ndim)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    return wrapped(_functions.roll(x, shifts, axes))


def _only(shift):
    return sum(shift) if isinstance(shift, (tuple, list)) else shift


def tile(x, repetitions, /):
    """The array repeated along its axes."""
    return wrapped(_functions.tile(x, tuple(repetitions)))


__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims",
    "repeat", "reshape", "roll", "squeeze", "stack", "tile", "unstack",
]
