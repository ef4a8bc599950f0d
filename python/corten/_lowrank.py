"""Singular values of large matrices by random projections (Halko, Martinsson and Tropp, "Finding
structure with randomness", 2009, algorithm 5.1)."""

from __future__ import annotations

import corten
from corten._overriding import dispatch, overridden


def _basis(A, q, niter, M):
    """Orthonormal columns that nearly span the range of ``A - M``."""

    def applied(matrix, shift, columns):
        product = matrix @ columns
        return product if shift is None else product - shift @ columns

    adjoint_shift = None if M is None else M.mH
    start = corten.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = corten.linalg.qr(applied(A, M, start)).Q
    for _ in range(niter):
        Q = corten.linalg.qr(applied(A.mH, adjoint_shift, Q)).Q
        Q = corten.linalg.qr(applied(A, M, Q)).Q
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """The ``q`` largest singular values of ``A - M``, approximately, with their vectors."""
    if overridden(A, M):
        return dispatch(svd_lowrank, (A, M), locals())
    q = 6 if q is None else q
    rows, columns = A.shape[-2:]
    if M is not None:
        M = M.broadcast_to(A.size())
    wide = rows < columns
    if wide:
        A, M = A.mH, None if M is None else M.mH
    Q = _basis(A, q, niter, M)
    B = (A.mH @ Q).mH if A.is_sparse else Q.mH @ A
    if M is not None:
        B = B - Q.mH @ M
    U, S, Vh = corten.linalg.svd(B, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """The ``q`` principal components of the rows of ``A``, approximately."""
    if overridden(A):
        return dispatch(pca_lowrank, (A,), locals())
    smallest = min(A.shape[-2:])
    if q is None:
        q = min(6, smallest)
    elif not 0 <= q <= smallest:
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={smallest}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center and A.is_sparse:
        if A.dim() != 2:
            raise ValueError("pca_lowrank input is expected to be 2-dimensional tensor")
        means = corten.sparse.sum(A, dim=0).to_dense() / A.shape[0]
        return svd_lowrank(A, q, niter=niter, M=means.expand(A.shape))
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter=niter)
