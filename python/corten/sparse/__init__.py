"""Sparse tensors in coordinate format: products with dense ones, sums, conversions."""

from __future__ import annotations

import corten
from corten.sparse._coordinate import SparseTensor, sparse_coo_tensor, to_sparse  # noqa: F401
from corten.sparse._gradients import register as _register
from corten.sparse._operators import CLASSES as _CLASSES
from corten.sparse._operators import check_sparse_tensor_invariants, log_softmax, softmax

globals().update(_CLASSES)
_register()
__all__ = ["addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "softmax", "sum", *_CLASSES]


def mm(sparse, dense, reduce=None):
    """The product of a sparse matrix ``(n, m)`` and a dense one ``(m, p)``, dense."""
    if reduce is not None:
        raise NotImplementedError("only sums of products")
    return corten.mm(sparse, dense)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """``beta * mat + alpha * (mat1 @ mat2)`` with a sparse ``mat1``."""
    return beta * mat + alpha * corten.mm(mat1, mat2)


def sum(input, dim=None, dtype=None):
    """The sum of all the values, or over dimensions: then sparse, unless none is left."""
    if dim is None:
        return input._values().sum() if dtype is None else input._values().sum(dtype=dtype)
    dense = input.to_dense().sum(dim, dtype=dtype)
    return to_sparse(dense) if dense.dim() else dense
