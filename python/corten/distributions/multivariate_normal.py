"""Normal vectors."""

from __future__ import annotations

import math

import corten
from corten import Size

from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(matrix, vector):
    """Products of matrices ``(..., n, m)`` and vectors ``(..., m)``."""
    return corten.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor, x):
    """Squared lengths of L⁻¹x for factors ``(..., n, n)``; each factor is used once for all of the
    vectors that go with it."""
    n = x.size(-1)
    batch = factor.shape[:-2]
    outer = x.dim() - factor.dim() + 1
    old = x.shape[:outer]
    # Dimensions of x over which a factor is repeated go to the front.
    shape, repeated, kept = list(old), [], []
    for place, (own, given) in enumerate(zip(batch, x.shape[outer:-1])):
        repeated.append(len(shape))
        kept.append(len(shape) + 1)
        shape += [given // own, own]
    shape.append(n)
    grouped = x.reshape(shape)
    order = [*range(outer), *repeated, *kept, len(shape) - 1]
    grouped = grouped.permute(order)
    flat_factor = factor.reshape(-1, n, n)
    flat = grouped.reshape(-1, flat_factor.size(0), n).permute(1, 2, 0)
    solved = corten.linalg.solve_triangular(flat_factor, flat, upper=False)
    squares = solved.pow(2).sum(-2).t()
    grouped = squares.reshape(grouped.shape[:-1])
    back = [*range(outer)]
    for place in range(len(batch)):
        back += [outer + place, outer + len(batch) + place]
    return grouped.permute(back).reshape(x.shape[:-1])


def _precision_to_scale_tril(precision):
    """The Cholesky factor of the inverse, by reversing rows and columns."""
    factor = corten.linalg.cholesky(corten.flip(precision, (-2, -1)))
    inverse = corten.transpose(corten.flip(factor, (-2, -1)), -2, -1)
    identity = corten.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return corten.linalg.solve_triangular(inverse, identity, upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors by mean and one of covariance, precision and Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _events = {
        "loc": 1, "_unbroadcasted_scale_tril": None, "covariance_matrix": 2,
        "precision_matrix": 2, "scale_tril": 2,
    }

    def __init__(
        self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None,
        validate_args=None,
    ):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = _one_matrix(covariance_matrix, precision_matrix, scale_tril)
        what = f"{name} matrix" if name == "scale_tril" else name
        if matrix.dim() < 2:
            raise ValueError(
                f"{what} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = corten.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(batch_shape + (-1, -1))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _factor(name, matrix)

    def _expand_into(self, new, batch_shape, events):
        events = {name: count for name, count in events.items() if count is not None}
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        super()._expand_into(new, batch_shape, events)

    def _expanded(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance."""
        return self._expanded(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._expanded(corten.matmul(factor, factor.mT))

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        return self._expanded(corten.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        squares = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + squares) - self._half_log_det()

    def entropy(self):
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)


def _one_matrix(covariance_matrix, precision_matrix, scale_tril, error=ValueError):
    """The one that was given, with its name."""
    given = {
        "covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
        "precision_matrix": precision_matrix,
    }
    given = [(name, matrix) for name, matrix in given.items() if matrix is not None]
    if len(given) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return given[0]


def _factor(name, matrix):
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return corten.linalg.cholesky(matrix)
    return _precision_to_scale_tril(matrix)
