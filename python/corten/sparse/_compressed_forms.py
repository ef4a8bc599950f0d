"""Other forms of compressed tensors: copies, new sizes, tensors like them; checks of their parts."""

from __future__ import annotations

import math

import corten
from corten._overriding import as_operator

from . import _entries
from ._compressed import (
    BSC, BSR, CSC, CSR, NAMES, OPERATORS, CompressedTensor, batches, by_rows, in_blocks, shell,
)
from ._compressed_operators import _become, _given_form
from ._factories import compressed_with_dims, sparse_without_entries
from ._invariants import check, check_indices


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
    _entries.before(x)  # refuses leaves
    return _become(x, other.to(x.device, x.dtype))


def _check_resized(x, size):
    """That a tensor may be given another size; whether its rows, not its columns, change in number."""
    if x.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if in_blocks(x._kind) or x.dense_dim():
        raise NotImplementedError(f"resize_ of a {NAMES[x._kind]} tensor with blocks or dense dimensions")
    if len(size) < 2:
        raise RuntimeError(
            f"torch.resize_: Only batched sparse CSR matrices are supported, but got size {list(size)}"
        )
    name, kind = ("columns", "CSR") if by_rows(x._kind) else ("rows", "CSC")
    place = -1 if by_rows(x._kind) else -2
    if size[place] < x.shape[place]:
        raise RuntimeError(
            f"torch.resize_: Resizing {name} of sparse {kind} tensors to a smaller value is not "
            f"supported. The original number of {name} is {x.shape[place]} while the requested new number "
            f"of {name} is {size[place]}."
        )


def _resize(x, *size, memory_format=None):
    """More or fewer rows, which are empty, or more columns; for columns as rows likewise. Further
    batches have the places of the first one, and zeros there."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    _check_resized(x, size)
    compressed, plain, values = x._parts
    batch, lines = size[:-2], size[-2] if by_rows(x._kind) else size[-1]
    ends = compressed.reshape(-1, compressed.shape[-1])[:, :lines + 1]
    kept = ends[:, -1]
    if (kept != kept[:1]).any():
        raise RuntimeError("torch.resize_: the batches would have different numbers of entries")
    more = lines + 1 - ends.shape[1]
    ends = corten.cat([ends, kept[:, None].expand(len(kept), more)], 1)
    each = int(kept[0]) if len(kept) else 0
    plain = plain.reshape(len(kept), -1)[:, :each]
    values = values.reshape(len(kept), -1)[:, :each]
    count = math.prod(batch)
    missing = max(count - len(kept), 0)
    parts = [
        corten.cat([part[:count], part[:1].expand(missing, part.shape[1])]) for part in (ends, plain)
    ]
    parts.append(corten.cat([values[:count], values.new_zeros((missing, each))]))
    parts = [part.reshape(*batch, part.shape[1]) for part in parts]
    return _given_form(x, shell(*parts, size, x._kind))


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
    _entries.before(x)  # refuses leaves
    (compressed, plain, values), dtype = template._parts, x._parts[0].dtype
    new = values.new_zeros(values.shape, dtype=x.dtype)
    shared = min(new.numel(), x._parts[2].numel())
    new.view(-1)[:shared] = x._parts[2].reshape(-1)[:shared]
    parts = compressed.to(dtype, copy=True), plain.to(dtype, copy=True), new
    return _given_form(x, shell(*parts, tuple(template.shape), x._kind))


def _empty_like(x, *, layout=None, **options):
    if layout not in (None, x._kind):
        raise RuntimeError(
            "empty_like with different sparse layout is not supported (self is "
            f"{NAMES[x._kind]} but you requested {NAMES[layout]})"
        )
    return _same_places(x, **options)


_same_places = OPERATORS["empty_like"]


def _zeros_like(x, *, layout=None, dtype=None, device=None, requires_grad=False, **options):
    """A tensor without entries in any sparse layout."""
    if layout in (None, x._kind):
        return _without_entries(x, dtype=dtype, device=device, requires_grad=requires_grad)
    if layout == corten.strided:
        return _empty_like(x, layout=layout)  # refuses
    dtype, device = dtype or x.dtype, x.device if device is None else device
    if layout == corten.sparse_coo:
        made = sparse_without_entries(x.shape, x.dense_dim(), dtype, device)
    else:
        blocksize = x.block() if in_blocks(x._kind) else ()
        made = compressed_with_dims(
            0, x.dense_dim(), x.shape, blocksize, x._parts[0].dtype, dtype=dtype, layout=layout,
            device=device,
        )
    return made.requires_grad_(requires_grad)


_without_entries = OPERATORS["zeros_like"]


def _set_item(x, index, value):
    raise TypeError("Cannot assign to a sparse tensor")


OPERATORS.update({
    "setitem": _set_item, "copy_": _copy, "resize_": _resize, "resize_as_sparse_": _resize_as,
    "empty_like": _empty_like, "zeros_like": _zeros_like,
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


_validate_compressed_sparse_indices = check_indices
_validate_sparse_csr_tensor_args = _validator(CSR)
_validate_sparse_csc_tensor_args = _validator(CSC)
_validate_sparse_bsr_tensor_args = _validator(BSR)
_validate_sparse_bsc_tensor_args = _validator(BSC)


@as_operator
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


@as_operator
def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    if input.dim() > 1:
        raise RuntimeError(
            f"Input is supposed to be a vector, but got {input.dim()} dimensional tensor."
        )
    counts = corten.bincount(input.reshape(-1), minlength=size)
    ends = corten.cat([counts.new_zeros(1), counts.cumsum(0)])
    return ends.to(corten.int32 if out_int32 else corten.int64)
