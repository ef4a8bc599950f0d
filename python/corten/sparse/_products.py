"""Products of sparse matrices under their old names: hspmm, dsmm, sspaddmm."""

from __future__ import annotations

import corten
from corten._overriding import as_operator

from ._entries import SparseTensor, _coalesce, _made


def _product(name, mat1, mat2):
    """The product of a sparse matrix and a dense one, dense, of the rows that have entries."""
    if not isinstance(mat1, SparseTensor):
        raise NotImplementedError(f"{name}: the first matrix must be sparse")
    return corten.mm(mat1, mat2)


def _filled_rows(mat):
    """The numbers of the rows with entries."""
    return corten.unique(_coalesce(mat)._parts[0][0])


@as_operator
def hspmm(mat1, mat2):
    """The product of a sparse matrix and a dense one, sparse with dense rows."""
    dense, rows = _product("hspmm", mat1, mat2), _filled_rows(mat1)
    return _made(rows[None], dense[rows], dense.shape, True)


@as_operator
def hsmm(mat1, mat2):
    """See :func:`hspmm`."""
    return hspmm(mat1, mat2)


@as_operator
def dsmm(mat1, mat2):
    """The product of a sparse matrix, or a dense one, and a dense one."""
    return corten.mm(mat1, mat2)


@as_operator
def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """``beta * input + alpha * (mat1 @ mat2)`` of sparse ``input`` and ``mat1``, sparse: the entries
    of both."""
    if not isinstance(mat1, SparseTensor):
        raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    if not isinstance(input, SparseTensor):
        raise RuntimeError("sspaddmm: expected 'self' to be a sparse tensor")
    dense, rows = _product("sspaddmm", mat1, mat2), _filled_rows(mat1)
    if dense.shape != input.shape:
        raise RuntimeError(
            f"sspaddmm: Argument #1: Expected dim 0 size {dense.shape[0]}, got {input.shape[0]}"
            if dense.shape[0] != input.shape[0] else
            f"sspaddmm: Argument #1: Expected dim 1 size {dense.shape[1]}, got {input.shape[1]}"
        )
    columns = corten.arange(dense.shape[1], device=dense.device)
    places = corten.stack([
        rows[:, None].expand(-1, len(columns)).reshape(-1),
        columns[None].expand(len(rows), -1).reshape(-1),
    ])
    indices, values = input._parts
    return _made(
        corten.cat([indices, places], 1),
        corten.cat([beta * values, alpha * dense[rows].reshape(-1)]), dense.shape, False,
    )


@as_operator
def saddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """See :func:`sspaddmm`."""
    return sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)
