"""Ready-made parametrisations."""

from __future__ import annotations

import corten
from corten.nn import functional as F
from corten.nn.modules.module import Module

from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _norm_except(tensor, dim):
    """The 2-norm over all dimensions but `dim`, kept as ones; over all of them for −1."""
    if dim == -1:
        return corten.linalg.vector_norm(tensor)
    dims = [d for d in range(tensor.dim()) if d != dim]
    return corten.linalg.vector_norm(tensor, dim=dims, keepdim=True) if dims else tensor.abs()


class _WeightNorm(Module):
    """Direction and length apart: ``g * v / |v|``."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight):
        return _norm_except(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Trains length and direction of a weight separately."""
    if getattr(module, name, None) is None:
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state_dict, prefix, *rest):
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


class _SpectralNorm(Module):
    """Divides a weight by an estimate of its largest singular value, refined at each use."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        rank = weight.ndim
        if dim >= rank or dim < -rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            rows, cols = matrix.size()
            u = matrix.new_empty(rows).normal_(0, 1)
            v = matrix.new_empty(cols).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1) if weight.ndim > 1 else weight

    @corten.no_grad()
    def _iterate(self, matrix, times):
        for _ in range(times):
            self._u = F.normalize(corten.mv(matrix, self._v), dim=0, eps=self.eps)
            self._v = F.normalize(corten.mv(matrix.t(), self._u), dim=0, eps=self.eps)

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: the buffers change at the next use, the graph must not.
        u, v = self._u.clone(), self._v.clone()
        return weight / corten.vdot(u, corten.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Keeps the largest singular value of a weight at 1."""
    from corten import nn

    weight = getattr(module, name, None)
    if not isinstance(weight, corten.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
        dim = 1 if isinstance(module, transposed) else 0
    step = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, step)
    return module


class _Orthogonal(Module):
    """An orthogonal (or semi-orthogonal) matrix from any matrix, times a fixed base."""

    def __init__(self, weight, kind, use_trivialization):
        super().__init__()
        self.kind = kind
        self.shape = weight.shape
        self.register_buffer("base", None)
        if use_trivialization:
            with corten.no_grad():
                self.base = _orthogonal_columns(weight)

    def forward(self, x):
        transposed = x.size(-2) < x.size(-1)
        x = x.mT if transposed else x
        rows, cols = x.size(-2), x.size(-1)
        if self.kind == "householder":
            q = corten.linalg.householder_product(x.tril(-1) + corten.eye(rows, cols, dtype=x.dtype),
                                                  _taus(x))
        else:
            skew = x.tril(-1)
            if rows != cols:
                skew = corten.cat([skew, skew.new_zeros(*x.shape[:-1], rows - cols)], dim=-1)
            skew = skew - skew.mH
            if self.kind == "matrix_exp":
                q = corten.linalg.matrix_exp(skew)
            else:
                eye = corten.eye(rows, dtype=x.dtype, device=x.device)
                q = corten.linalg.solve(eye - skew / 2, eye + skew / 2)
            q = q[..., :cols]
        if self.base is not None:
            q = self.base @ q if q.size(-2) == self.base.size(-1) else q
        return q.mT if transposed else q

    @corten.no_grad()
    def right_inverse(self, q):
        if self.base is None:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        self.base = _orthogonal_columns(q)
        return corten.zeros_like(q)


def _taus(x):
    """The factors that make columns below the diagonal into reflections."""
    below = x.tril(-1)
    return 2.0 / (1.0 + (below * below).sum(-2))


def _orthogonal_columns(weight):
    tall = weight.mT if weight.size(-2) < weight.size(-1) else weight
    q, r = corten.linalg.qr(tall, mode="complete")
    signs = corten.ones(q.size(-1), dtype=q.dtype, device=q.device)
    diagonal = r.diagonal(dim1=-2, dim2=-1).sign()
    signs[: diagonal.size(-1)] = diagonal
    return q * signs


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keeps a matrix orthogonal."""
    weight = getattr(module, name, None)
    if not isinstance(weight, corten.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    step = _Orthogonal(weight, orthogonal_map, use_trivialization)
    parametrize.register_parametrization(module, name, step, unsafe=True)
    return module
