"""Views of jagged tensors, and tensors put together."""

from __future__ import annotations

import corten
from corten._C import Tensor

from ._jagged import NestedInt, NestedTensor, like, made, wrapped


def _inner(name, x, dim):
    """A dimension of the values that is not the one along which items differ."""
    dim = wrapped(x, dim)
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if dim == x._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return dim - 1


def _after(x, dim):
    """The differing dimension when one of the values is gone."""
    return x._ragged_idx - (dim < x._ragged_idx - 1)


def _transpose(func, x, dim0, dim1):
    dim0, dim1 = wrapped(x, dim0), wrapped(x, dim1)
    if dim0 == dim1:
        return x
    if 0 in (dim0, dim1):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    places = {dim0: dim1, dim1: dim0}
    ragged = places.get(x._ragged_idx, x._ragged_idx)
    return like(x, x._values.transpose(dim0 - 1, dim1 - 1), ragged)


def _permute(func, x, *dims):
    dims = dims[0] if isinstance(dims[0], (tuple, list)) else dims
    dims = [wrapped(x, dim) for dim in dims]
    if len(dims) != x.dim() or sorted(dims) != list(range(x.dim())):
        raise ValueError(
            f"permute(): number of dimensions in the tensor input ({x.dim()}) does not match the "
            f"length of the desired ordering of dimensions ({len(dims)})."
        )
    if dims[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return like(x, x._values.permute([dim - 1 for dim in dims[1:]]), dims.index(x._ragged_idx))


def _unsqueeze(func, x, dim):
    count = x.dim() + 1
    place = dim % count
    if place == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return like(x, x._values.unsqueeze(place - 1), x._ragged_idx + (place <= x._ragged_idx))


def _squeeze(func, x, *dims):
    if not dims:
        raise RuntimeError("squeeze(): For NestedTensors, dim must be specified. ")
    dims = dims[0] if isinstance(dims[0], (tuple, list)) else dims
    places = sorted(_inner("squeeze", x, dim) for dim in dims)
    places = [place for place in places if x._values.size(place) == 1]
    ragged = x._ragged_idx - sum(place < x._ragged_idx - 1 for place in places)
    return like(x, x._values.squeeze(places) if places else x._values, ragged)


def _view(name):
    def operator(func, x, *size):
        size = size[0] if size and isinstance(size[0], (tuple, list)) else size
        shape, ragged = list(size), x._ragged_idx
        refusal = RuntimeError(
            f"view(): cannot view shape {tuple(x.shape)} as {list(size)}"
        )
        if not shape or shape[0] not in (len(x), -1) or x._lengths is not None:
            raise refusal
        place = _ragged_place(x, shape)
        if place is None or not _same_before(x, shape, place):
            raise refusal
        rows = x._values.size(ragged - 1)
        inner = [rows if d == place else n for d, n in enumerate(shape)][1:]
        return like(x, getattr(x._values, name)(inner), place)

    return operator


def _ragged_place(x, shape):
    """Where the differing dimension is in a shape: its own size, or -1."""
    for dim, size in enumerate(shape):
        if isinstance(size, NestedInt):
            return dim if size == x.shape[x._ragged_idx] else None
    # Without it -1 stands for it, if all the others are given.
    return shape.index(-1, 1) if -1 in shape[1:] else None


def _same_before(x, shape, place):
    """Whether the sizes before the differing dimension multiply to what they were."""
    before, after = 1, 1
    for size in shape[1:place]:
        before *= size
    for size in x._values.shape[:x._ragged_idx - 1]:
        after *= size
    return before == after and not any(isinstance(size, NestedInt) for size in shape[place + 1:])


def _unflatten(func, x, dim, sizes):
    place = _inner("unflatten", x, dim)
    ragged = x._ragged_idx + (len(sizes) - 1) * (place < x._ragged_idx - 1)
    return like(x, x._values.unflatten(place, sizes), ragged)


def _flatten(func, x, start_dim=0, end_dim=-1):
    first, last = wrapped(x, start_dim), wrapped(x, end_dim)
    if first == 0 or first <= x._ragged_idx <= last:
        raise RuntimeError("flatten(): not supported for NestedTensor on dim=0 or the ragged dim")
    ragged = x._ragged_idx - (last - first) * (first < x._ragged_idx)
    return like(x, x._values.flatten(first - 1, last - 1), ragged)


def _select(func, x, dim, index):
    dim = wrapped(x, dim)
    if dim == 0:
        count = len(x)
        if not -count <= index < count:
            raise IndexError("tuple index out of range")
        return x.unbind()[index]
    place = _inner("select", x, dim)
    return like(x, x._values.select(place, index), _after(x, place))


def _getitem(func, x, index):
    items = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [item for item in items if not isinstance(item, Tensor)]:
        place = next(i for i, item in enumerate(items) if item is Ellipsis)
        taken = sum(item is not None for item in items) - 1
        items[place:place + 1] = [slice(None)] * (x.dim() - taken)
    if items and type(items[0]) is int:
        found = _select(func, x, 0, items[0])
        return found[tuple(items[1:])] if items[1:] else found
    whole = slice(None)
    kept = items[0] == whole if items and isinstance(items[0], slice) else not items
    if not kept:
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    return _inner_index(x, items[1:])


def _inner_index(x, items):
    """Numbers, slices and None behind the first dimension."""
    whole, dim, found = slice(None), 1, x
    for item in items:
        if item is None:
            found, dim = found.unsqueeze(dim), dim + 1
        elif type(item) is int:
            found = _select(None, found, dim, item)
        elif isinstance(item, slice):
            if item != whole:
                place = _inner("slice", found, dim)
                found = like(found, found._values[(whole,) * place + (item,)])
            dim += 1
        else:
            raise NotImplementedError("aten.index.Tensor")
    return found


def _narrow(func, x, dim, start, length):
    return like(x, x._values.narrow(_inner("narrow", x, dim), start, length))


def _pieces(name):
    def operator(func, x, size, dim=0):
        dim = wrapped(x, dim)
        if dim == 0 and name == "chunk":
            return _groups(x, size)
        if dim == x._ragged_idx:
            raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
        place = _inner(name, x, dim)
        return tuple(like(x, part) for part in getattr(x._values, name)(size, place))

    return operator


def _groups(x, count):
    """Parts with some of the items each."""
    items = x.unbind()
    each = -(-len(items) // count)
    place = x._ragged_idx - 1
    found = []
    for start in range(0, len(items), each):
        group = items[start:start + each]
        ends = corten.tensor([0, *(item.size(place) for item in group)]).cumsum(0)
        found.append(made(corten.cat(group, place), ends, None, x._ragged_idx))
    return tuple(found)


def _joined(name):
    def operator(func, tensors, dim=0):
        nested = [x for x in tensors if isinstance(x, NestedTensor)]
        first = nested[0]
        if len(nested) != len(tensors) or any(x.shape[x._ragged_idx] != first.shape[first._ragged_idx]
                                              for x in nested):
            raise RuntimeError(f"{name}(): expected all tensors to have the same ragged structure")
        if name == "stack":
            place = dim % (first.dim() + 1)
            if place == 0:
                raise RuntimeError("stack(): not supported for NestedTensor on dim=0")
            ragged = first._ragged_idx + (place <= first._ragged_idx)
            return like(first, func([x._values for x in nested], place - 1), ragged)
        place = _inner(name, first, dim)
        return like(first, func([x._values for x in nested], place))

    return operator


def _expand(func, x, *size):
    size = list(size[0] if isinstance(size[0], (tuple, list)) else size)
    ragged = x._ragged_idx
    if len(size) != x.dim() or size[0] not in (-1, len(x)) or \
            size[ragged] not in (-1, x.shape[ragged]):
        raise RuntimeError(f"expand(): cannot expand shape {tuple(x.shape)} -> {size}")
    size[ragged] = -1
    return like(x, x._values.expand(size[1:]))


OPERATORS = {
    "transpose": _transpose, "swapaxes": _transpose, "swapdims": _transpose, "permute": _permute,
    "mT": lambda func, x: _transpose(func, x, -2, -1), "unsqueeze": _unsqueeze,
    "squeeze": _squeeze, "view": _view("view"), "reshape": _view("reshape"),
    "unflatten": _unflatten, "flatten": _flatten, "select": _select, "__getitem__": _getitem,
    "narrow": _narrow, "chunk": _pieces("chunk"), "split": _pieces("split"),
    "split_with_sizes": _pieces("split_with_sizes"), "cat": _joined("cat"),
    "concat": _joined("cat"), "concatenate": _joined("cat"), "stack": _joined("stack"),
    "unbind": lambda func, x, dim=0: iter(x.unbind(dim)) if func is Tensor.__iter__
    else x.unbind(dim), "expand": _expand,
    "expand_as": lambda func, x, other: _expand(func, x, other.shape),
    "view_as": lambda func, x, other: _view("view")(func, x, other.shape),
    "reshape_as": lambda func, x, other: _view("reshape")(func, x, other.shape),
}
