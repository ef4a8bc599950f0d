"""Views of compressed tensors: dimensions exchanged, slices."""

from __future__ import annotations

import corten
from corten._utils import wrap_dim

from . import _entries
from ._compressed import (
    BSC, BSR, CSC, CSR, NAMES, CompressedTensor, assembled, batches, enabled, in_blocks, shell, values_of,
)
from ._layouts import entries

_TRANSPOSED = {CSR: CSC, CSC: CSR, BSR: BSC, BSC: BSR}


def linear(name, forward, backward):
    """An operator whose gradient may be dense or compressed; ``backward`` takes both."""

    def recorded(ctx, x, *args):
        ctx.args = args
        ctx.source = x.detach()
        return forward(x.detach(), *args)

    @enabled
    def backwards(ctx, grad):
        return backward(grad, ctx.source, *ctx.args), *(None for _ in ctx.args)

    members = {"forward": staticmethod(recorded), "backward": staticmethod(backwards)}
    function = type(corten.autograd.Function)(name, (corten.autograd.Function,), members)

    def operator(x, *args):
        if x.requires_grad and corten.is_grad_enabled():
            return function.apply(x, *args)
        return forward(x, *args)

    return operator


def _viewed(made, x):
    """Notes that a tensor looks at the memory of another one."""
    made._viewed = x.__dict__.get("_viewed", x)
    return made


def is_view(x):
    """Whether a tensor looks at the memory of another one."""
    return "_viewed" in x.__dict__


def base(x):
    """The tensor whose memory this one looks at, or ``None``."""
    return x.__dict__.get("_viewed")


CompressedTensor._is_view, CompressedTensor._base = is_view, property(base)


def _swapped(x, dim0, dim1):
    compressed, plain, values = x._parts
    size, start = list(x.shape), len(batches(x))
    size[dim0], size[dim1] = size[dim1], size[dim0]
    if dim0 == dim1:
        return shell(compressed, plain, values, size, x._kind)
    if dim0 < start:
        parts = (part.transpose(dim0, dim1) for part in x._parts)
        return shell(*parts, size, x._kind)
    if in_blocks(x._kind):
        values = values.transpose(start + 1, start + 2)
    return shell(compressed, plain, values, size, _TRANSPOSED[x._kind])


_swap = linear("Transpose", _swapped, lambda grad, x, dim0, dim1: grad.transpose(dim0, dim1))


def transposed(x, dim0, dim1):
    """Two dimensions of the same kind exchanged; rows for columns is a change of layout."""
    count, start = x.dim(), len(batches(x))
    dim0, dim1 = wrap_dim(dim0, count), wrap_dim(dim1, count)
    if x.dense_dim():
        raise RuntimeError(
            "transpose(): hybrid sparse compressed tensors with dense dimensions are not supported"
        )
    kinds = ["Batch" if d < start else "Sparse" for d in (dim0, dim1)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got "
            f"{dim0}({kinds[0]}) and {dim1}({kinds[1]})"
        )
    return _viewed(_swap(x, min(dim0, dim1), max(dim0, dim1)), x)


def matrix_transposed(x):
    """``t()``."""
    if x.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.dim()}D")
    return transposed(x, 0, 1)


def select(x, dim, index, name="select"):
    """One slice: of a batch or a dense dimension compressed, of rows or columns in coordinates."""
    start = len(batches(x))
    dim = wrap_dim(dim, x.dim())
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(
            f"{name}(): index {index} out of range for tensor of size {list(x.shape)} at dimension {dim}"
        )
    index %= x.shape[dim]
    size = [*x.shape[:dim], *x.shape[dim + 1:]]
    compressed, plain, _ = x._parts
    if dim < start:
        values = values_of(x).select(dim, index)
        made = assembled(values, compressed.select(dim, index), plain.select(dim, index), size, x._kind)
        return _viewed(made, x)
    if dim >= start + 2:
        # The entries have one dimension for rows and columns, and two more for blocks.
        values = values_of(x).select(dim + (1 if in_blocks(x._kind) else -1), index)
        return _viewed(assembled(values, compressed, plain, size, x._kind), x)
    if start:
        raise RuntimeError(
            f"{name}(): selecting sparse dimensions is not supported for batched sparse compressed "
            "tensors."
        )
    (_, row, column), values = entries(x)
    kept, other = (row == index, column) if dim == 0 else (column == index, row)
    return _entries._made(other[kept][None], values[kept], size, True)


def select_copy(x, dim, index, *, out=None):
    """A copy of one slice."""
    made = select(x, dim, index, "select_copy").clone()
    return made if out is None else out.copy_(made)


def get_item(x, index):
    """Slices by numbers, one dimension after the other."""
    dim = 0
    for one in index if isinstance(index, tuple) else (index,):
        if one == slice(None):
            dim += 1
        elif isinstance(one, int) and not isinstance(one, bool):
            x = x.select(dim, one)
        else:
            raise RuntimeError(f"Sparse {NAMES[x.layout][6:].upper()} tensors do not have strides")
    return x


def values(x):
    """The entries, as a view of them."""
    held = values_of(x)
    return held if held.requires_grad else held.view(held.shape)
