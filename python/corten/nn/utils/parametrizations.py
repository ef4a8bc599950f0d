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
            self._v = F.normalize(corten.mv(matrix.mH, self._u), dim=0, eps=self.eps)

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
    """An orthogonal (unitary) matrix from any matrix, or its first columns; times a base, if any."""

    def __init__(self, weight, kind, use_trivialization):
        super().__init__()
        if kind == "householder" and weight.is_complex():
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.kind = kind
        self.shape = weight.shape
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x):
        transposed = x.size(-2) < x.size(-1)
        x = x.mT if transposed else x
        q = _of_reflections(x) if self.kind == "householder" else self._of_skew(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if transposed else q

    def _of_skew(self, x):
        """The exponential, or the Cayley transform, of the skew-Hermitian part below the diagonal."""
        rows, columns = x.shape[-2:]
        lower = x.tril()
        if rows != columns:
            rest = lower.new_zeros(rows, rows - columns).expand(*x.shape[:-2], -1, -1)
            lower = corten.cat([lower, rest], dim=-1)
        skew = lower - lower.mH
        if self.kind == "matrix_exp":
            q = corten.linalg.matrix_exp(skew)
        else:
            eye = corten.eye(rows, dtype=x.dtype, device=x.device)
            q = corten.linalg.solve(eye - skew / 2, eye + skew / 2)
        return q if rows == columns else q[..., :columns]

    @corten.no_grad()
    def right_inverse(self, q):
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        transposed = q.size(-2) < q.size(-1)
        tall = q.mT if transposed else q
        if not hasattr(self, "base"):
            if self.kind != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            reflections = _reflections(tall)
            return reflections.mT if transposed else reflections
        self.base = _square_orthogonal(tall)
        # The reflections of minus the identity are the identity: the base alone is left.
        inverse = corten.zeros_like(q)
        inverse.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return inverse


def _of_reflections(x):
    """The product of the Householder reflections below the diagonal, with the diagonal's signs."""
    below = x.tril(-1)
    tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
    q = corten.linalg.householder_product(below, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)


def _reflections(q):
    """The Householder reflections of a QR decomposition whose R has a positive diagonal."""
    packed, tau = corten.geqrf(q)
    diagonal = packed.diagonal(dim1=-2, dim2=-1)
    diagonal.sign_()
    diagonal[tau == 0.0] *= -1
    return packed


def _square_orthogonal(q):
    """An orthogonal matrix whose first columns are those of ``q``, as far as they are orthogonal."""
    rows, columns = q.shape[-2:]
    if rows == columns:
        eye = corten.eye(columns, dtype=q.dtype, device=q.device)
        if corten.allclose(q.mH @ q, eye, atol=10 * rows * corten.finfo(q.dtype).eps):
            return q.clone()
    else:
        size = (*q.shape[:-2], rows, rows - columns)
        q = corten.cat([q, corten.randn(size, dtype=q.dtype, device=q.device)], dim=-1)
    packed, tau = corten.geqrf(q)
    signs = packed.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return corten.linalg.householder_product(packed, tau) * signs


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
