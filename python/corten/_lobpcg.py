"""``lobpcg``: a few eigenvalues at one end of the spectrum, from products with the matrix only.

The locally optimal block preconditioned conjugate gradient method of A. Knyazev (2001): in every
step the best approximations within the span of the current ones, the preconditioned residuals and
the last step. The basis of that span is kept orthonormal, as in J. Duersch et al. (2018).
"""

from __future__ import annotations

import corten
from corten._overriding import dispatch, overridden

__all__ = ["lobpcg"]

_EPSILON = {corten.float32: 1.2e-07, corten.float64: 2.23e-16}


def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None,
           method=None, tracker=None, ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """The ``k`` largest eigenvalues of a symmetric matrix, or the smallest, and their vectors.

    With ``B``, which is positive definite, of the problem ``A x = λ B x``. ``X`` has the first
    approximations, ``n`` their number, ``iK`` is a preconditioner; ``tracker`` is called in every
    step with the state. ``A`` may be sparse; gradients are those of a dense ``A`` without ``B``.

    Raises:
        ValueError: The matrix has fewer than ``3 n`` rows.
    """
    if overridden(A, B, X, iK):
        return dispatch(lobpcg, (A, B, X, iK), locals())
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(f"A and B must have same shape, got {A.shape} vs {B.shape}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = X.shape[-1] if X is not None else k if n is None else n
    if A.shape[-1] < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={A.shape[-1]}) is "
            f"smaller than 3 x the number of requested eigenpairs (={n})"
        )
    dtype = A.dtype if A.dtype.is_floating_point else corten.float32
    options = {
        "k": k, "n": n, "niter": 1000 if niter is None else niter,
        "tol": _EPSILON[dtype] ** 0.5 if tol is None else tol,
        "largest": largest is None or largest, "iK": iK, "tracker": tracker,
        "rounds": (ortho_iparams or {}).get("ortho_i_max", 3),
    }
    if A.requires_grad or (B is not None and B.requires_grad):
        return _Differentiable.apply(A, B, X, options)
    return _of_batch(A, B, X, options)


def _of_batch(A, B, X, options):
    if A.dim() == 2:
        return _Iteration(A, B, X, options).run()
    batch = A.shape[:-2]
    flat = [None if M is None else M.reshape(-1, *M.shape[-2:]) for M in (A, B, X)]
    found = [
        _Iteration(*(None if M is None else M[place] for M in flat), options).run()
        for place in range(len(flat[0]))
    ]
    values, vectors = (corten.stack(part) for part in zip(*found))
    return values.reshape(*batch, -1), vectors.reshape(*batch, *vectors.shape[-2:])


class _Iteration:
    """The state of the method: approximations ``X`` of the vectors and ``E`` of the values, the
    residuals ``R``, the last step ``P``; counts in ``ivars``, norms in ``fvars``, the relative
    residuals in ``tvars["rerr"]``."""

    def __init__(self, A, B, X, options):
        rows, n = A.shape[-1], options["n"]
        if X is None:
            dtype = A.dtype if A.dtype.is_floating_point else corten.float32
            X = corten.randn((rows, n), dtype=dtype, device=A.device)
        if tuple(X.shape) != (rows, n):
            raise AssertionError(f"X shape mismatch: got {X.shape}, expected {(rows, n)}")
        self.A, self.B, self.options = A, B, options
        self.X, self.P = X, X[:, :0]
        self.iparams = {"m": rows, "n": n, "k": options["k"], "niter": options["niter"]}
        self.fparams, self.bparams = {"tol": options["tol"]}, {"largest": options["largest"]}
        self.ivars = {"istep": 0, "converged_count": 0, "iterations_left": options["niter"]}
        self.fvars, self.bvars, self.tvars = {}, {}, {}

    def run(self):
        """The values and vectors that were asked for."""
        with corten.no_grad():
            self._begin()
            while self.ivars["iterations_left"] and not self._has_converged():
                self._step()
        k = self.options["k"]
        return self.E[:k], self.X[:, :k]

    def _times_b(self, V):
        return V if self.B is None else self.B @ V

    def _begin(self):
        X_norm = self.X.norm()
        self.fvars = {
            "X_norm": float(X_norm), "A_norm": float((self.A @ self.X).norm() / X_norm),
            "B_norm": float(self._times_b(self.X).norm() / X_norm),
        }
        self.X = self._basis(self.X)
        self._rotate(self.X, 0)

    def _step(self):
        self.ivars["istep"] += 1
        self.ivars["iterations_left"] -= 1
        iK = self.options["iK"]
        W = self.R if iK is None else iK @ self.R
        known = corten.cat([self.X, self.P], 1)
        added = self._basis(W, known)
        if added.shape[1] == 0:
            self.ivars["iterations_left"] = 0  # nothing is left that could make it better
        self._rotate(corten.cat([known, added], 1), self.X.shape[1])
        if self.options["tracker"] is not None:
            self._has_converged()
            self.options["tracker"](self)

    def _rotate(self, S, count):
        """The best approximations in the span of an orthonormal basis, whose first ``count``
        columns are the current ones; the next step is what they gain from the others."""
        values, Z = corten.linalg.eigh(S.mT @ (self.A @ S))
        if self.options["largest"]:
            values, Z = values.flip(-1), Z.flip(-1)
        kept = min(self.options["n"], Z.shape[1])
        self.E, best = values[:kept], Z[:, :kept]
        self.X = S @ best
        if count:
            gain = best.clone()
            gain[:count] = 0
            self.P = S @ self._orthonormal(gain, best)
        self.R = self.A @ self.X - self._times_b(self.X) * self.E

    @staticmethod
    def _orthonormal(V, known):
        """A basis of ``V`` beside orthonormal columns, without what is lost to rounding."""
        # What is left of a short column may be mostly rounding: the second time it has length 1, and
        # loses next to nothing if it is not.
        for least in (1e3 * _EPSILON[V.dtype], 0.5):
            V, sizes, _ = corten.linalg.svd(V - known @ (known.mT @ V), full_matrices=False)
            V = V[:, sizes > least]
        return V

    def _basis(self, V, known=None):
        """A basis of the columns, orthonormal with respect to ``B`` and to known columns."""
        limit = V.shape[0] * _EPSILON[V.dtype]
        for place in range(max(2, self.options["rounds"])):
            if V.shape[1] == 0:
                break
            if known is not None:
                V = V - known @ (known.mT @ self._times_b(V))
            gram = V.mT @ self._times_b(V)
            if place:  # of length 1 before: what is much shorter now lies within the known ones
                kept = gram.diagonal() > 0.01
                V, gram = V[:, kept], gram[kept][:, kept]
                if V.shape[1] == 0:
                    break
            scale = gram.diagonal().clamp(min=1e-300 if V.dtype == corten.float64 else 1e-38).rsqrt()
            sizes, U = corten.linalg.eigh(gram * scale * scale[:, None])
            good = sizes > limit * sizes.max()
            V = (V * scale) @ U[:, good] * sizes[good].rsqrt()
        return V

    def _has_converged(self):
        X_norms = self.X.norm(dim=0)
        errors = self.R.norm(dim=0)
        scale = X_norms * (self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"])
        self.tvars["rerr"] = errors / scale
        # Values count in order: a later one may still change places with an earlier one. Without
        # a division, which a matrix of zeros does not allow.
        passed = (errors <= self.options["tol"] * scale).tolist() + [False]
        self.ivars["converged_count"] = passed.index(False)
        return passed.index(False) >= self.options["k"]


class _Differentiable(corten.autograd.Function):
    """Gradients of the values and vectors of a dense symmetric matrix."""

    @staticmethod
    def forward(ctx, A, B, X, options):
        values, vectors = _of_batch(A, B, X, options)
        ctx.save_for_backward(A, values, vectors)
        ctx.plain = B is None
        return values, vectors

    @staticmethod
    def backward(ctx, of_values, of_vectors):
        A, values, U = ctx.saved_tensors
        if A.layout != corten.strided:
            raise ValueError(
                "lobpcg.backward does not support sparse input yet. Note that lobpcg.forward does "
                "though."
            )
        if not ctx.plain:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        gaps = values[..., None, :] - values[..., :, None]
        gaps.diagonal(dim1=-2, dim2=-1).fill_(float("inf"))
        inner = (U.mT @ of_vectors) / gaps + corten.diag_embed(of_values)
        grad = U @ inner @ U.mT
        return grad + _outside(A, values, U, of_vectors) @ U.mT, None, None, None


def _outside(A, values, U, grad):
    """What the vectors that were not computed contribute: ``(λ I - A)`` is solved on the space that
    is orthogonal to ``U``, where it is not singular."""
    rows = A.shape[-1]
    identity = corten.eye(rows, dtype=A.dtype, device=A.device)
    inside = U @ U.mT
    away = identity - inside
    shifted = values[..., :, None, None] * identity - A[..., None, :, :]
    matrix = away[..., None, :, :] @ shifted @ away[..., None, :, :] + inside[..., None, :, :]
    wanted = (away @ grad).mT[..., None]
    return corten.linalg.solve(matrix, wanted)[..., 0].mT
