"""Masked reductions of sparse tensors: the entries that a mask keeps, or all that are stored.

The entries of each result are laid side by side, padded with what changes nothing, and reduced by the
dense operator, so that every dtype that it takes and its gradient are taken here.
"""

from __future__ import annotations

import math

import corten
from corten.sparse._entries import _at, _coalesce, _flat, _made


def _by_coordinates(x):
    return x if x.layout == corten.sparse_coo else x.to_sparse()


def _arranged(x, layout):
    return x if layout == corten.sparse_coo else x.to_sparse(layout=layout)


def mask_like(input, mask):
    """A dense mask in the layout of the input."""
    if input.layout != corten.sparse_coo:
        return mask.to_sparse(layout=input.layout)
    return mask.to_sparse(input.sparse_dim())


def where(mask, input, fill_value):
    """The input at the places where the mask has a true entry: 0 where the input has none. Within the
    dense dimensions of an entry the value stands where the mask is false."""
    layout, mask = mask.layout, _coalesce(_by_coordinates(mask))
    indices, kept = mask._parts
    some = kept if kept.dim() == 1 else kept.flatten(1).any(1)
    indices, kept = indices[:, some], kept[some]
    values = _at(_by_coordinates(input), indices)
    if kept.dim() > 1:
        values = corten.where(kept, values, corten.as_tensor(fill_value, dtype=values.dtype))
    return _arranged(_made(indices, values, tuple(mask.shape), True), layout)


def _grouped(indices, values, size, kept, padding):
    """The entries with the same kept coordinates side by side: those coordinates, and a tensor of
    shape (groups, most entries, dense dimensions…)."""
    flat = _flat(indices[kept], [size[dim] for dim in kept])
    groups, group, counts = corten.unique(flat, return_inverse=True, return_counts=True)
    if not kept and not groups.numel():  # without entries everything that counts is the padding
        groups, counts = groups.new_zeros(1), counts.new_zeros(1)
    order = group.argsort(stable=True)
    rank = corten.empty_like(order)
    rank[order] = corten.arange(order.numel()) - (counts.cumsum(0) - counts)[group[order]]
    shape = (groups.numel(), max(int(counts.max()), 1) if counts.numel() else 1, *values.shape[1:])
    padded = values.new_full(shape, padding).index_put((group, rank), values)
    rows = []
    for dim in reversed(kept):
        rows.append(groups % size[dim])
        groups = groups.div(size[dim], rounding_mode="floor")
    places = corten.stack(rows[::-1]) if rows else indices.new_zeros((0, shape[0]))
    return places, padded


def _along(name, values, dims):
    """A dense reduction of values over some of their dimensions."""
    if name == "prod":
        for dim in sorted(dims, reverse=True):
            values = values.prod(dim)
        return values
    return getattr(corten, name)(values, dims) if dims else values


def _entries(name, input, mask):
    """The entries that count, with the number that changes nothing for those in dense dimensions
    that do not."""
    from ._ops import _fill_value, _input_mask

    padding = _fill_value(name, input)
    if mask is None:
        return _coalesce(input)._parts, padding
    mask = _input_mask(input, mask=mask)
    return where(mask, input, padding)._parts, padding


def reduced(name, input, dims, keepdim, dtype, mask):
    """The reduction over these dimensions, in the layout of the input."""
    layout = input.layout
    if layout != corten.sparse_coo and not keepdim:
        raise ValueError(
            f"masked {name}: reductions of {layout} tensors need keepdim=True, since the result is a "
            "matrix"
        )
    if layout == corten.sparse_coo and name == "mean":
        raise ValueError(
            f"masked mean expects strided or sparse_csr tensor (got {layout} tensor)"
        )
    if name not in ("sum", "mean") and mask is None:
        raise ValueError(f"masked {name} expects explicit mask for {str(layout)[6:]} tensor input")
    input = _by_coordinates(input)
    dims = dims if input.dim() else ()
    if name == "mean":
        return _mean(input, dims, keepdim, dtype, mask, layout)
    (indices, values), padding = _entries(name, input, mask)
    if dtype is not None and name in ("sum", "prod"):
        values = values.to(dtype)
    return _arranged(_reduce(name, indices, values, input, dims, keepdim, padding, dtype), layout)


def _reduce(name, indices, values, input, dims, keepdim, padding, dtype):
    count, size = indices.size(0), tuple(input.shape)
    kept = [dim for dim in range(count) if dim not in dims]
    inner = [dim - count + 1 for dim in dims if dim >= count]
    if len(kept) < count or count == 0:
        places, padded = _grouped(indices, values, size, kept, padding)
        values = _along(name, padded, [1, *(dim + 1 for dim in inner)])
    else:
        places, values = indices, _along(name, values, inner)
    values = values if dtype is None else values.to(dtype)
    if len(dims) == len(size):  # one number, of which 0 is not stored
        stored = values.detach() != 0
        places, values = places[:, stored], values[stored]
    if not keepdim:
        return _made(places, values, tuple(s for d, s in enumerate(size) if d not in dims), True)
    whole = iter(places)
    zeros = places.new_zeros(places.size(1))
    rows = [zeros if dim in dims else next(whole) for dim in range(count)]
    places = corten.stack(rows) if rows else places
    for dim in sorted(inner):
        values = values.unsqueeze(dim)
    return _made(places, values, tuple(1 if d in dims else s for d, s in enumerate(size)), True)


def _mean(input, dims, keepdim, dtype, mask, layout):
    """Sums divided by how many elements the mask keeps, or by how many there are."""
    (indices, values), _ = _entries("sum", input, mask)
    total = _reduce("sum", indices, values.to(dtype), input, dims, keepdim, 0, None)
    if mask is None:
        count = math.prod(input.shape[dim] for dim in dims)
    else:
        from ._ops import _input_mask

        counted = _at(_coalesce(_input_mask(input, mask=mask)), indices).to(corten.int64)
        count = _reduce("sum", indices, counted, input, dims, keepdim, 0, None)._parts[1]
    places, sums = total._parts
    return _arranged(_made(places, sums / count, tuple(total.shape), True), layout)
