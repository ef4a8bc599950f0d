"""Other forms of compressed tensors: copies, new sizes, tensors like them; checks of their parts."""

from __future__ import annotations

import corten
from corten import _C
from corten._C import Tensor

from ._compressed import (
    BSC, BSR, CSC, CSR, NAMES, OPERATORS, CompressedTensor, _C_plain, batches, by_rows, in_blocks, shell,
)
from ._compressed_operators import _become
from ._invariants import check


def _copy(x, other, non_blocking=False):
    """The values of another tensor with as many entries, at its places."""
    if not isinstance(x, CompressedTensor):
        raise RuntimeError("copy_sparse_compressed_ expected sparse compressed tensor layout but got "
                           f"{NAMES[x.layout]}")
    if x._kind != other.layout:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different layouts is not "
            f"supported. self layout is {NAMES[x._kind]} and src layout is {NAMES[other.layout]}"
        )
    if x._nnz() != other._nnz():
        raise RuntimeError(
            "torch.copy_: only sparse compressed tensors with the same number of specified elements "
            "are supported."
        )
    dim = len(batches(x)) + (0 if by_rows(x._kind) else 1)
    if x.dim() != other.dim() or x.shape[dim] != other.shape[dim]:
        raise RuntimeError(
            f"torch.copy_: expected shapes of self and src to match along dimension {dim} for "
            f"{NAMES[x._kind]} layout but the corresponding dimensions of self and src are "
            f"{x.shape[dim]} and {other.shape[dim]}, respectively."
        )
    if x.block() != other.block():
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different block sizes is not "
            f"supported. self and src block sizes are {list(x.block())} and {list(other.block())}, "
            "respectively."
        )
    if x.shape != other.shape:
        raise RuntimeError("torch.copy_: only same size tensors are supported.")
    return _become(x, other)


def _given_form(x, parts, size):
    """Gives a tensor other parts and another size."""
    if x.requires_grad:
        raise RuntimeError("a sparse tensor that requires a gradient cannot be resized")
    made = shell(*parts, size, x._kind)
    with _C_plain():
        Tensor.data.__set__(x, made)
    return _become(x, made)


def _resize(x, *size, memory_format=None):
    """More or fewer rows, which are empty, or more columns; for columns as rows likewise."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if in_blocks(x._kind) or batches(x) or x.dense_dim():
        raise NotImplementedError(f"resize_ of a {NAMES[x._kind]} tensor with blocks, batches or dense "
                                  "dimensions")
    if len(size) != 2:
        raise RuntimeError(
            f"torch.resize_: Only batched sparse CSR matrices are supported, but got size {list(size)}"
        )
    rows = by_rows(x._kind)
    (lines, width), (_, before) = (size, x.shape) if rows else (size[::-1], tuple(x.shape)[::-1])
    if width < before:
        raise RuntimeError(
            f"torch.resize_: Resizing {'columns' if rows else 'rows'} of sparse {'CSR' if rows else 'CSC'} "
            f"tensors to a smaller value is not supported. The original number of "
            f"{'columns' if rows else 'rows'} is {before} while the requested new number of "
            f"{'columns' if rows else 'rows'} is {width}."
        )
    compressed, plain, values = x._parts
    ends = compressed[:lines + 1]
    more = ends[-1].expand(lines + 1 - ends.numel())
    kept = int(ends[-1])
    return _given_form(x, (corten.cat([ends, more]), plain[:kept], values[:kept]), size)


def _resize_as(x, template):
    """The size and the places of another tensor; new values are 0."""
    if not isinstance(template, CompressedTensor):
        raise RuntimeError(
            "resize_as_sparse_compressed_: src  expected sparse compressed tensor layout but got "
            f"{NAMES[template.layout]}"
        )
    if x._kind != template._kind:
        raise RuntimeError(
            "resize_as_sparse_compressed_tensor_: self and src must have the same layout, but got: self "
            f"({NAMES[x._kind]}) and source ({NAMES[template._kind]})"
        )
    compressed, plain, values = template._parts
    new = values.new_zeros(values.shape, dtype=x.dtype)
    shared = min(new.numel(), x._parts[2].numel())
    new.view(-1)[:shared] = x._parts[2].reshape(-1)[:shared]
    return _given_form(x, (compressed.clone(), plain.clone(), new), tuple(template.shape))


def _empty_like(x, *, layout=None, **options):
    if layout not in (None, x._kind):
        raise RuntimeError(
            "empty_like with different sparse layout is not supported (self is "
            f"{NAMES[x._kind]} but you requested {NAMES[layout]})"
        )
    return _same_places(x, **options)


_same_places = OPERATORS["empty_like"]


def _select_copy(x, dim, index, *, out=None):
    """A copy of one slice, which is not compressed."""
    made = OPERATORS["select"](x, dim, index)
    made = made.clone() if made.layout == _C.strided else made.to_sparse()
    return made if out is None else out.copy_(made)


def _set_item(x, index, value):
    raise TypeError("Cannot assign to a sparse tensor")


OPERATORS.update({
    "setitem": _set_item, "copy_": _copy, "resize_": _resize, "resize_as_sparse_": _resize_as, "empty_like": _empty_like,
    "select_copy": _select_copy,
})
for _name in ("copy_", "resize_", "resize_as_sparse_"):
    setattr(CompressedTensor, _name, OPERATORS[_name])
del _name


def _validate_sparse_compressed_tensor_args(compressed_indices, plain_indices, values, size, layout):
    check(compressed_indices, plain_indices, values, tuple(size), layout)


def _validator(layout):
    def validate(compressed_indices, plain_indices, values, size):
        check(compressed_indices, plain_indices, values, tuple(size), layout)

    return validate


_validate_sparse_csr_tensor_args = _validator(CSR)
_validate_sparse_csc_tensor_args = _validator(CSC)
_validate_sparse_bsr_tensor_args = _validator(BSR)
_validate_sparse_bsc_tensor_args = _validator(BSC)


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    counts = crow_indices.diff(dim=-1)
    rows = corten.arange(counts.numel(), device=counts.device).repeat_interleave(counts.reshape(-1))
    lines = counts.shape[-1]
    places = [(rows % lines).reshape(col_indices.shape), col_indices]
    if col_indices.dim() > 1:
        rest = rows.div(lines, rounding_mode="floor")
        outer = []
        for size in reversed(col_indices.shape[:-1]):
            outer.append(rest % size)
            rest = rest.div(size, rounding_mode="floor")
        places = [*outer[::-1], *(place.reshape(-1) for place in places)]
    if transpose:
        places[-2], places[-1] = places[-1], places[-2]
    return corten.stack([place.to(corten.int32 if out_int32 else corten.int64) for place in places])


def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    counts = corten.bincount(input, minlength=size)
    ends = corten.cat([counts.new_zeros(1), counts.cumsum(0)])
    return ends.to(corten.int32 if out_int32 else corten.int64)
