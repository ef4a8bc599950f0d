"""Transforms of vectors and matrices, and of parts of tensors."""

from __future__ import annotations

import math

import corten
from corten.nn import functional as F

from . import constraints
from .transforms import Transform, _sum_rightmost
from .utils import tril_matrix_to_vec, vec_to_tril_matrix


class CorrCholeskyTransform(Transform):
    """Vectors of D(D-1)/2 numbers to Cholesky factors of D×D correlation matrices.

    Each number becomes a partial correlation by tanh; a row is filled from the left, each entry
    taking its share of the squared length that is left.
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        x = corten.tanh(x)
        eps = corten.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        # The root of what is left of the row's length before each entry.
        left = (1 - partial**2).sqrt().cumprod(-1)
        partial = partial + corten.eye(partial.shape[-1], dtype=partial.dtype, device=partial.device)
        return partial * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        used = corten.cumsum(y * y, dim=-1)
        left = F.pad(1 - used[..., :-1], [1, 0], value=1)
        ratio = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (ratio.log1p() - ratio.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        left = 1 - (y * y).cumsum(dim=-1)
        rows = 0.5 * tril_matrix_to_vec(left, -2).log().sum(-1)
        slopes = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return rows + slopes

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(Transform):
    """Vectors to points of the simplex, all but a constant; not invertible."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def __eq__(self, other):
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Vectors of n numbers to points of the simplex with n + 1 coordinates.

    Each number says which share of what is left of a stick of length 1 is broken off.
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    def __eq__(self, other):
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    @staticmethod
    def _offset(x, size):
        return size + 1 - x.new_ones(size).cumsum(-1)

    def _call(self, x):
        from .transforms import SigmoidTransform

        share = SigmoidTransform()(x - self._offset(x, x.shape[-1]).log())
        left = (1 - share).cumprod(-1)
        return F.pad(share, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y):
        cropped = y[..., :-1]
        offset = y.shape[-1] - cropped.new_ones(cropped.shape[-1]).cumsum(-1)
        left = corten.clamp(1 - cropped.cumsum(-1), min=corten.finfo(y.dtype).tiny)
        return cropped.log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x, y):
        shifted = x - self._offset(x, x.shape[-1]).log()
        return (-shifted + F.logsigmoid(shifted) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(Transform):
    """Matrices to lower triangular ones with a positive diagonal, by its exponential."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other):
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices to positive definite ones, by their Cholesky factors."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other):
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(corten.linalg.cholesky(y))


class CatTransform(Transform):
    """Different transforms for parts of lengths ``lengths`` along a dimension."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        assert all(isinstance(part, Transform) for part in tseq)
        if cache_size:
            tseq = [part.with_cache(cache_size) for part in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms)
        self.dim = dim

    @property
    def event_dim(self):
        """The most dimensions that a part transforms together."""
        return max(part.event_dim for part in self.transforms)

    @property
    def length(self):
        """The size along the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, tensor):
        assert -tensor.dim() <= self.dim < tensor.dim()
        assert tensor.size(self.dim) == self.length
        return tensor.split(self.lengths, self.dim)

    def _call(self, x):
        parts = self._parts(x)
        return corten.cat([t(part) for t, part in zip(self.transforms, parts)], dim=self.dim)

    def _inverse(self, y):
        parts = self._parts(y)
        return corten.cat([t.inv(part) for t, part in zip(self.transforms, parts)], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = []
        for transform, before, after in zip(self.transforms, self._parts(x), self._parts(y)):
            term = transform.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(term, max(self.event_dim - transform.event_dim, 0)))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return corten.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @property
    def bijective(self):
        """Whether every part is invertible."""
        return all(part.bijective for part in self.transforms)

    @constraints.dependent_property
    def domain(self):
        """The domains of the parts."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        """The codomains of the parts."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """A transform for each index along a dimension."""

    def __init__(self, tseq, dim=0, cache_size=0):
        assert all(isinstance(part, Transform) for part in tseq)
        if cache_size:
            tseq = [part.with_cache(cache_size) for part in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, z):
        return [z.select(self.dim, place) for place in range(z.size(self.dim))]

    def _checked(self, z):
        assert -z.dim() <= self.dim < z.dim()
        assert z.size(self.dim) == len(self.transforms)
        return zip(self._slice(z), self.transforms)

    def _call(self, x):
        return corten.stack([t(part) for part, t in self._checked(x)], dim=self.dim)

    def _inverse(self, y):
        return corten.stack([t.inv(part) for part, t in self._checked(y)], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        pairs = zip(self._checked(x), self._slice(y))
        terms = [t.log_abs_det_jacobian(before, after) for (before, t), after in pairs]
        return corten.stack(terms, dim=self.dim)

    @property
    def bijective(self):
        """Whether every part is invertible."""
        return all(part.bijective for part in self.transforms)

    @constraints.dependent_property
    def domain(self):
        """The domains of the parts."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        """The codomains of the parts."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a univariate distribution, to (0, 1)."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        """The support of the distribution."""
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
