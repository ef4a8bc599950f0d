"""Axes of arrays, as functions of the standard are given them."""

from __future__ import annotations


def axis_of(axis, ndim):
    """An axis counted from the first.

    Raises:
        IndexError: There is no such axis.
    """
    if not -ndim <= axis < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {axis})"
        )
    return axis % ndim


def axes_of(axis, ndim):
    """Axes counted from the first: one, several, or for ``None`` all.

    Raises:
        IndexError: There is no such axis.
        ValueError: An axis is named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(axis_of(one, ndim) for one in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"an axis is named twice in {axis}")
    return axes


def together(tensor, axes):
    """The tensor with some axes made one, its last."""
    kept = [dim for dim in range(tensor.ndim) if dim not in axes]
    count = 1
    for axis in axes:
        count *= tensor.shape[axis]
    shape = [tensor.shape[dim] for dim in kept]
    return tensor.permute(*kept, *axes).reshape(*shape, count) if tensor.ndim else tensor.reshape(count)


def kept_shape(shape, axes):
    """A shape in which axes have one element."""
    return tuple(1 if dim in axes else size for dim, size in enumerate(shape))
