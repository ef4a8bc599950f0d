"""Normal vectors with few common causes."""

from __future__ import annotations

import math

import corten
from corten import Size

from . import constraints
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(factor, diagonal):
    """The Cholesky factor of I + Wᵀ D⁻¹ W."""
    rank = factor.size(-1)
    scaled = factor.mT / diagonal.unsqueeze(-2)
    product = corten.matmul(scaled, factor).contiguous()
    product.view(-1, rank * rank)[:, ::rank + 1] += 1
    return corten.linalg.cholesky(product)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance W Wᵀ + diag(D); costs grow with the columns of W only.

    By the matrix determinant lemma and Woodbury's identity.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        loc_ = loc.unsqueeze(-1)
        diagonal_ = cov_diag.unsqueeze(-1)
        try:
            loc_, self.cov_factor, diagonal_ = corten.broadcast_tensors(
                loc_, cov_factor, diagonal_
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc_[..., 0], diagonal_[..., 0]
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        self._expand_into(new, Size(batch_shape), {"loc": 1, "cov_diag": 1, "cov_factor": 2})
        return new

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @lazy_property
    def variance(self):
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    def _expanded(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance: D^½ times that of I + D^-½ W Wᵀ D^-½."""
        n = self._event_shape[0]
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        product = corten.matmul(scaled, scaled.mT).contiguous()
        product.view(-1, n * n)[:, ::n + 1] += 1
        return self._expanded(root * corten.linalg.cholesky(product))

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        diagonal = corten.diag_embed(self._unbroadcasted_cov_diag)
        return self._expanded(corten.matmul(factor, factor.mT) + diagonal)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        inverse = self._unbroadcasted_cov_diag.reciprocal()
        scaled = self._unbroadcasted_cov_factor.mT * inverse.unsqueeze(-2)
        a = corten.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._expanded(corten.diag_embed(inverse) - corten.matmul(a.mT, a))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        common = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        own = _standard_normal(shape, **options)
        return (
            self.loc
            + _batch_mv(self._unbroadcasted_cov_factor, common)
            + self._unbroadcasted_cov_diag.sqrt() * own
        )

    def _log_det(self):
        return 2 * self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(
            -1
        ) + self._unbroadcasted_cov_diag.log().sum(-1)

    def _mahalanobis(self, difference):
        factor, diagonal = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        projected = _batch_mv(factor.mT / diagonal.unsqueeze(-2), difference)
        straight = (difference.pow(2) / diagonal).sum(-1)
        return straight - _batch_mahalanobis(self._capacitance_tril, projected)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        squares = self._mahalanobis(value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + squares)

    def entropy(self):
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = 0.5 * (constant + self._log_det())
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)
