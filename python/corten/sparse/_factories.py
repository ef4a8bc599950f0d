"""Tensors without entries: ``zeros`` and ``empty`` with a sparse layout."""

from __future__ import annotations

import corten
from corten import _C
from corten._utils import scalar_type

from . import _entries
from ._compressed import LAYOUTS, NAMES, by_rows, in_blocks, shell


def without_entries(name, size, dtype, layout, device):
    """A tensor of zeros in a sparse layout; ``name`` is the function that was called.

    Raises:
        RuntimeError: The layout is one of blocks, of which the size is not known, or the tensor is no
            matrix and no batch of matrices.
    """
    size = tuple(size)
    dtype = corten.get_default_dtype() if dtype is None else dtype
    if min(size, default=0) < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(size)}: {list(size)}"
        )
    if layout == _C.sparse_coo:
        return sparse_without_entries(size, 0, dtype, device)
    if layout not in LAYOUTS:
        raise RuntimeError(f"torch.{name}: the layout {layout} has no kernel on the CPU")
    if len(size) < 2:
        raise RuntimeError(
            f"torch.{name}: Only batched sparse compressed (non-block) tensors are supported, but got "
            f"size {list(size)}"
        )
    if in_blocks(layout):
        raise RuntimeError(
            f"{name}_sparse_compressed expected sparse compressed (non-block) tensor layout but got "
            f"{NAMES[layout]}"
        )
    return compressed_with_dims(0, 0, size, (), corten.int64, dtype=dtype, layout=layout, device=device)


def sparse_without_entries(size, dense_dim, dtype, device):
    """A tensor of zeros in coordinate format."""
    count = len(size) - dense_dim
    indices = corten.zeros((count, 0), dtype=corten.int64, device=device)
    values = corten.zeros((0, *size[count:]), dtype=dtype, device=device)
    return _entries._made(indices, values, size, True)


def compressed_with_dims(nnz, dense_dim, size, blocksize, index_dtype, *, dtype=None, layout=None,
                         device=None, pin_memory=False):
    """A compressed tensor with room for ``nnz`` entries, of which all parts are 0.

    Raises:
        RuntimeError: The numbers do not fit together.
    """
    _check_dims(nnz, dense_dim, size, blocksize, layout)
    if index_dtype not in (corten.int32, corten.int64):
        raise RuntimeError(f"indices dtype must be Int or Long, but got {scalar_type(index_dtype)}")
    start = len(size) - dense_dim - 2
    batch, place = tuple(size[:start]), 0 if by_rows(layout) else 1
    lines = size[start + place] // (blocksize[place] if blocksize else 1)
    ends = corten.zeros((*batch, lines + 1), dtype=index_dtype, device=device)
    plain = corten.zeros((*batch, nnz), dtype=index_dtype, device=device)
    shape = (*batch, nnz, *blocksize, *size[start + 2:])
    return shell(ends, plain, corten.zeros(shape, dtype=dtype, device=device), tuple(size), layout)


def _check_dims(nnz, dense_dim, size, blocksize, layout):
    def require(holds, message):
        if not holds:
            raise RuntimeError(f"sparse_compressed_tensor_with_dims: {message}")

    require(
        layout in LAYOUTS,
        f"expected sparse compressed tensor layout but got {NAMES.get(layout, 'none')}",
    )
    require(nnz >= 0, f"nnz must be non-negative, got {nnz}")
    require(
        len(size) >= dense_dim + 2,
        f"dimensionality must be at least dense_dim(={dense_dim}) + sparse_dim(=2), but got {len(size)}",
    )
    if not in_blocks(layout):
        require(
            not blocksize, f"blocksize cannot be specified for non-block layout {NAMES[layout]}"
        )
        return
    require(
        len(blocksize) == 2, f"blocksize needs to be a tuple of size 2, but got {len(blocksize)}"
    )
    for place, length in enumerate(blocksize):
        at = len(size) - dense_dim - 2 + place
        require(
            length > 0 and size[at] % length == 0,
            f"dimension {at} must be multiple of blocksize[{place}](={length}) but got {size[at]}",
        )
