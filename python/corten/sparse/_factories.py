"""Tensors without entries: ``zeros`` and ``empty`` with a sparse layout."""

from __future__ import annotations

import corten
from corten import _C

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
        indices = corten.zeros((len(size), 0), dtype=corten.int64, device=device)
        return _entries._made(indices, corten.zeros((0,), dtype=dtype, device=device), size, True)
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
    *batch, rows, columns = size
    ends = corten.zeros((*batch, (rows if by_rows(layout) else columns) + 1), dtype=corten.int64, device=device)
    plain = corten.zeros((*batch, 0), dtype=corten.int64, device=device)
    return shell(ends, plain, corten.zeros((*batch, 0), dtype=dtype, device=device), size, layout)
