"""From one layout to another: dense, coordinates, compressed rows and columns, blocks."""

from __future__ import annotations

import math

import corten
from corten import _C

from . import _entries
from ._entries import check_not_traced, lacks_data
from ._compressed import (
    BSC, BSR, CSC, CSR, LAYOUTS, NAMES, CompressedTensor, assembled, batches, block, by_rows,
    coordinates, dense_of, enabled, in_blocks, shell, tiles, values_of, word,
)


class ToSparse(corten.autograd.Function):
    """A dense tensor compressed: its gradient is that of the result, wherever it has elements."""

    @staticmethod
    def forward(ctx, dense, layout, blocksize, start):
        return _compress(dense, layout, blocksize, start)

    @staticmethod
    @enabled
    def backward(ctx, grad):
        return grad if grad.layout == _C.strided else grad.to_dense(), None, None, None


# One name for each layout, as it is printed of results.
_RECORDED = {
    layout: type(ToSparse)(f"To{NAMES[layout]}", (ToSparse,), {}) for layout in LAYOUTS
}


def from_dense(dense, layout, blocksize=None, dense_dim=None):
    """The elements or blocks of a dense tensor that are not zero.

    Raises:
        RuntimeError: Batches have different numbers of them, or the blocks do not fit.
    """
    name = f"dense_to_{word(layout)}"
    dense_dim = 0 if dense_dim is None else dense_dim
    start = dense.dim() - 2 - dense_dim
    if dense.dim() < 2:
        raise IndexError(f"{name}: a matrix is expected, but got a tensor of {dense.dim()} dimensions")
    if not 0 <= dense_dim <= dense.dim() - 2:
        raise RuntimeError(
            f"{name}: dense_dim argument must be in [0,{dense.dim() - 2}] range, but {dense_dim} is "
            "given"
        )
    blocksize = _blocks(name, layout, blocksize, dense.shape[start:start + 2])
    if dense.requires_grad and corten.is_grad_enabled():
        return _RECORDED[layout].apply(dense, layout, blocksize, start)
    return _compress(dense, layout, blocksize, start)


def _blocks(name, layout, blocksize, size):
    """A checked size of blocks."""
    if not in_blocks(layout):
        if blocksize is not None:
            raise RuntimeError(
                f"dense_to_sparse: conversion from Strided to {NAMES[layout]} with blocksize argument "
                "given is not supported"
            )
        return 1, 1
    if blocksize is None:
        raise RuntimeError(
            f"dense_to_sparse: conversion from Strided to {NAMES[layout]} without blocksize argument "
            "given is not supported"
        )
    blocksize = (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)
    if len(blocksize) != 2:
        raise RuntimeError(
            f"{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}"
        )
    if min(blocksize) <= 0:
        raise RuntimeError(f"{name}: blocksize needs to be positive, but got {list(blocksize)}")
    if size[0] % blocksize[0] or size[1] % blocksize[1]:
        raise RuntimeError(
            f"{name}: tensor sparse size ({size[0]},{size[1]}) must be divisible by given blocksize "
            f"({blocksize[0]},{blocksize[1]})"
        )
    return blocksize


def _compress(dense, layout, blocksize, start):
    batch = tuple(dense.shape[:start])
    if 0 in batch:
        raise RuntimeError(
            f"to_{word(layout)}: Expected product of batch dimensions to be non-zero."
        )
    if lacks_data(dense):
        check_not_traced(dense)
        return _without_entries(dense, layout, blocksize, start)
    tiled = tiles(dense.detach(), blocksize, batch)
    filled = (tiled != 0).flatten(3).any(-1) if tiled.dim() > 3 else tiled != 0
    along = filled if by_rows(layout) else filled.transpose(1, 2)
    counts = along.sum(-1)
    if counts.size(0) > 1 and bool((counts.sum(-1) != counts[0].sum()).any()):
        raise RuntimeError("Expect the same number of specified elements per batch.")
    number, group, plain = along.nonzero().unbind(1)
    chosen = (number, group, plain) if by_rows(layout) else (number, plain, group)
    values = tiled[chosen]
    values = values if in_blocks(layout) else values[:, 0, 0]
    each = int(counts[0].sum()) if counts.size(0) else 0
    return shell(
        _ends(counts).reshape(*batch, -1), plain.reshape(*batch, each),
        values.reshape(*batch, each, *values.shape[1:]), dense.shape, layout,
    )


def _without_entries(dense, layout, blocksize, start):
    """What stands for a tensor of as many entries as nobody knows: one of none."""
    batch, lines = tuple(dense.shape[:start]), dense.shape[start if by_rows(layout) else start + 1]
    lines //= blocksize[0 if by_rows(layout) else 1]
    places = {"dtype": corten.int64, "device": dense.device}
    each = tuple(blocksize) if in_blocks(layout) else ()
    return shell(
        corten.zeros((*batch, lines + 1), **places), corten.empty((*batch, 0), **places),
        dense.detach().new_empty((*batch, 0, *each, *dense.shape[start + 2:])), dense.shape, layout,
    )


def _ends(counts):
    """Where the entries of every row end, after a zero."""
    return corten.cat([counts.new_zeros((counts.size(0), 1)), counts.cumsum(-1)], -1)


def arranged(places, values, size, layout, start, dtype=corten.int64, summed=False):
    """Entries at ``places`` (batch, row, column), in any order, as a tensor in a layout; values at
    the same place are added up with ``summed``."""
    batch, rows, columns = tuple(size[:start]), *_grid(size, layout, start, values)
    groups, width = (rows, columns) if by_rows(layout) else (columns, rows)
    number, row, column = places
    group, plain = (row, column) if by_rows(layout) else (column, row)
    flat = (number * groups + group) * width + plain
    if summed:
        flat, inverse = corten.unique(flat, return_inverse=True)
        kind, values = values.dtype, _entries._for_sums(values)
        total = values.new_zeros((flat.numel(), *values.shape[1:]))
        values = total.index_add(0, inverse, values).to(kind)
    else:
        flat, order = flat.sort(stable=True)
        values = values[order]
    count = math.prod(batch)
    counts = flat.div(max(width, 1), rounding_mode="floor").bincount(minlength=count * groups)
    counts = counts.reshape(count, groups)
    if count and bool((counts.sum(-1) != counts[0].sum()).any()):
        raise RuntimeError("Expect the same number of specified elements per batch.")
    each = flat.numel() // count if count else 0
    return assembled(
        values.reshape(*batch, each, *values.shape[1:]), _ends(counts).to(dtype).reshape(*batch, -1),
        (flat % max(width, 1)).to(dtype).reshape(*batch, each), size, layout,
    )


def _grid(size, layout, start, values):
    height, width = values.shape[1:3] if in_blocks(layout) else (1, 1)
    return size[start] // max(height, 1), size[start + 1] // max(width, 1)


def flat_values(x):
    """The entries of all batches one behind the other."""
    values, start = values_of(x), len(batches(x))
    return values.flatten(0, start) if start else values


def entries(x):
    """Places and values of single numbers; blocks are taken apart."""
    (number, row, column), values = coordinates(x), flat_values(x)
    if not in_blocks(x._kind):
        return (number, row, column), values
    height, width = block(x)
    shape = (row.numel(), height, width)
    down = corten.arange(height, device=row.device)[:, None]
    right = corten.arange(width, device=row.device)
    row = (row[:, None, None] * height + down).expand(shape).reshape(-1)
    column = (column[:, None, None] * width + right).expand(shape).reshape(-1)
    number = number[:, None, None].expand(shape).reshape(-1)
    return (number, row, column), values.flatten(0, 2)


def blocks_of(places, values, size, layout, start, blocksize, dtype):
    """Single numbers gathered to the blocks they lie in."""
    number, row, column = places
    height, width = blocksize
    rows, columns = size[start] // height, size[start + 1] // width
    flat = (number * rows + row.div(height, rounding_mode="floor")) * columns + column.div(
        width, rounding_mode="floor"
    )
    found, inverse = corten.unique(flat, return_inverse=True)
    made = values.new_zeros((found.numel(), height, width, *values.shape[1:]))
    made = made.index_put((inverse, row % height, column % width), values)
    rest = found.div(max(columns, 1), rounding_mode="floor")
    where = rest.div(max(rows, 1), rounding_mode="floor"), rest % max(rows, 1), found % max(columns, 1)
    return arranged(where, made, size, layout, start, dtype)


def to_coordinates(x):
    """The entries in coordinate format; batches are sparse dimensions."""
    (number, row, column), values = entries(x)
    where = []
    for size in reversed(batches(x)):
        where.append(number % size)
        number = number.div(size, rounding_mode="floor")
    indices = corten.stack([*where[::-1], row, column])
    return _entries._made(indices, values, x.shape, x._kind == CSR)


def converted(x, layout, blocksize=None, dense_dim=None):
    """A compressed tensor in another layout.

    Raises:
        RuntimeError: There is no way from blocks to numbers or to other blocks.
    """
    old, name = x._kind, f"to_{word(layout)}"
    caller = "to_sparse" if old == layout else "sparse_compressed_to_sparse"
    if dense_dim is not None and dense_dim != x.dense_dim():
        raise RuntimeError(
            f"{name}: conversion from {NAMES[old]} to {NAMES[layout]} with dense_dim argument given "
            "is not supported"
        )
    if in_blocks(old) and not in_blocks(layout):
        raise RuntimeError(
            f"sparse_compressed_{name}: expected SparseCsr or SparseCsc layout but got {NAMES[old]}"
        )
    if in_blocks(old):
        blocksize = block(x) if blocksize is None else blocksize
        blocksize = (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)
        if blocksize != block(x):
            raise RuntimeError(
                f"{caller}: conversion from {NAMES[old]} to {NAMES[layout]} with blocksize changed from "
                f"{list(block(x))} to {list(blocksize)} is not supported"
            )
    if old == layout:
        return x
    start, dtype = len(batches(x)), x._parts[0].dtype
    if in_blocks(old) or not in_blocks(layout):
        return arranged(coordinates(x), flat_values(x), x.shape, layout, start, dtype)
    if start:
        raise RuntimeError(
            f"{caller}: conversion from {NAMES[old]} to {NAMES[layout]} for batched inputs is not "
            "supported"
        )
    blocksize = _blocks(name, layout, blocksize, x.shape[start:start + 2])
    return blocks_of(*entries(x), x.shape, layout, start, blocksize, dtype)


def _from_coordinates(x, layout, blocksize, dense_dim):
    x = x.coalesce()
    indices, values = x._parts
    if indices.size(0) != 2:
        raise RuntimeError(
            f"coo_to_{word(layout)}: conversion from Sparse to {NAMES[layout]} for input tensors with "
            "sparse_dim()!=2 is not supported"
        )
    places = corten.zeros_like(indices[0]), indices[0], indices[1]
    if not in_blocks(layout):
        return arranged(places, values, x.shape, layout, 0)
    blocksize = _blocks(f"to_{word(layout)}", layout, blocksize, x.shape[:2])
    return blocks_of(places, values, x.shape, layout, 0, blocksize, corten.int64)


def to_layout(x, layout, blocksize=None, dense_dim=None):
    """A tensor of any layout in one of the compressed layouts."""
    if isinstance(x, CompressedTensor):
        return converted(x, layout, blocksize, dense_dim)
    if isinstance(x, _entries.SparseTensor):
        return _from_coordinates(x, layout, blocksize, dense_dim)
    return from_dense(x, layout, blocksize, dense_dim)


def to_sparse(x, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """``Tensor.to_sparse`` of compressed tensors: by default to coordinates."""
    if sparse_dim is not None and sparse_dim != 2:
        raise RuntimeError(
            f"sparse_compressed_to_sparse: conversion from {NAMES[x._kind]} to Sparse with sparse_dim "
            "argument !=2 is not supported"
        )
    if layout in LAYOUTS:
        return converted(x, layout, blocksize, dense_dim)
    return to_coordinates(x)


def to_dense(x, dtype=None, *, masked_grad=None):
    """``Tensor.to_dense`` of compressed tensors."""
    if dtype is not None:
        raise RuntimeError(f"dtype argument is not supported by {word(x._kind)}_to_dense")
    if masked_grad is False and x.requires_grad and corten.is_grad_enabled():
        return _with_all_places(x)
    return dense_of(x)


def _of_all_places(grad, x):
    blocksize = block(x) if in_blocks(x._kind) else None
    return (to_layout(grad, x._kind, blocksize, x.dense_dim()),)


_with_all_places = _entries.recorded("ToDense", lambda x: dense_of(x), _of_all_places)


def _conversion(layout):
    if in_blocks(layout):
        def method(self, blocksize, dense_dim=None):
            return to_layout(self, layout, blocksize, dense_dim)
    else:
        def method(self, dense_dim=None):
            return to_layout(self, layout, None, dense_dim)
    method.__name__ = f"to_{word(layout)}"
    method.__doc__ = f"The entries that are not zero, in the layout {word(layout)}."
    return method


#: The methods that lead to compressed layouts.
METHODS = {made.__name__: made for made in map(_conversion, (CSR, CSC, BSR, BSC))}
