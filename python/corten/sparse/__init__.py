"""Sparse tensors, in coordinates or compressed by rows or columns: products, sums, conversions."""

from __future__ import annotations

import corten
from corten.sparse._compressed import CompressedTensor
from corten.sparse._compressed_products import mm_reduced as _mm_reduced
from corten.sparse._compressed_products import masked_product as _masked_product
from corten.sparse._compressed_products import sampled_addmm
from corten.sparse._coordinate import SparseTensor, _masked_mm
from corten.sparse._coordinate import sparse_coo_tensor, to_sparse  # noqa: F401
from corten.sparse._gradients import register as _register
from corten.sparse._invariants import (  # noqa: F401
    sparse_bsc_tensor, sparse_bsr_tensor, sparse_compressed_tensor, sparse_csc_tensor,
    sparse_csr_tensor,
)
from corten.sparse._operators import CLASSES as _CLASSES
from corten.sparse._operators import check_sparse_tensor_invariants, log_softmax, softmax
from corten.sparse import _compressed_forms  # noqa: F401  # isort: skip
from corten.sparse._forms import spdiags  # isort: skip
from corten.sparse._gradcheck import as_sparse_gradcheck
from corten.sparse.semi_structured import (
    SparseSemiStructuredTensor, SparseSemiStructuredTensorCUSPARSELT, SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

globals().update(_CLASSES)
_register()
__all__ = [
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
    "spdiags", "sum", "to_sparse_semi_structured", *_CLASSES,
]


def mm(sparse, dense, reduce=None):
    """The product of a sparse matrix ``(n, m)`` and a dense one ``(m, p)``, dense. With ``reduce``,
    for a matrix in the layout ``sparse_csr``, the sum, mean, greatest or least product of each row."""
    if reduce is not None:
        return _mm_reduced(sparse, dense, reduce)
    if isinstance(sparse, SparseTensor) or isinstance(dense, SparseTensor):
        return _masked_mm(sparse, dense)
    if isinstance(sparse, CompressedTensor) and sparse.layout == corten.sparse_csr:
        return _masked_product(sparse, dense)
    return corten.mm(sparse, dense)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """``beta * mat + alpha * (mat1 @ mat2)`` with a sparse ``mat1``."""
    if isinstance(mat1, CompressedTensor):
        if mat1.layout != corten.sparse_csr or isinstance(mat, CompressedTensor):
            return corten.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)
        return beta * mat + alpha * _masked_product(mat1, mat2)
    if not any(isinstance(x, SparseTensor) for x in (mat1, mat2)):
        return corten.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)
    return beta * mat + alpha * _masked_mm(mat1, mat2)


def sum(input, dim=None, dtype=None):
    """The sum of all the values, or over dimensions: then sparse, unless none is left."""
    if isinstance(input, CompressedTensor):
        return input.sum(dtype=dtype) if dim is None else input.sum(dim, dtype=dtype)
    if not isinstance(input, SparseTensor):
        raise RuntimeError("coalesce expected sparse coordinate tensor layout but got Strided")
    if dim is None:
        return input._parts[1].sum(dtype=dtype)
    dense = input.to_dense().sum(dim, dtype=dtype)
    return to_sparse(dense) if dense.dim() else dense
