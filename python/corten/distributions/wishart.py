"""Sums of squares of normal vectors."""

from __future__ import annotations

import math
import warnings
from numbers import Number

import corten
from corten import Size, nan

from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .multivariate_normal import _factor, _one_matrix
from .utils import lazy_property

__all__ = ["Wishart"]


def _mvdigamma(x, p):
    """The derivative of the multivariate log gamma function."""
    steps = corten.arange(p, dtype=x.dtype, device=x.device).div(2)
    return corten.digamma(x.unsqueeze(-1) - steps.expand(x.shape + (-1,))).sum(-1)


def _clamp_above_eps(x):
    return x.clamp(min=corten.finfo(x.dtype).eps)


class Wishart(ExponentialFamily):
    """Matrices X Xᵀ of ``df`` normal columns, by one of covariance, precision and factor."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self):
        """There must be more degrees of freedom than dimensions less one."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None,
        validate_args=None,
    ):
        name, param = _one_matrix(
            covariance_matrix, precision_matrix, scale_tril, error=AssertionError
        )
        if param.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
            )
        if isinstance(df, Number):
            batch_shape = Size(param.shape[:-2])
            self.df = corten.tensor(df, dtype=param.dtype, device=param.device)
        else:
            batch_shape = corten.broadcast_shapes(param.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = param.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        self.__dict__[name] = param.expand(batch_shape + (-1, -1))
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._batch_dims = [-(x + 1) for x in range(len(self._batch_shape))]
        self._unbroadcasted_scale_tril = _factor(name, param)
        self._set_chi2(batch_shape)

    def _set_chi2(self, batch_shape):
        """Row i of the factor of a sample has a chi of df - i degrees of freedom."""
        from .chi2 import Chi2

        steps = corten.arange(
            self._event_shape[-1], dtype=self._unbroadcasted_scale_tril.dtype,
            device=self._unbroadcasted_scale_tril.device,
        )
        self._dist_chi2 = Chi2(
            df=self.df.unsqueeze(-1) - steps.expand(tuple(batch_shape) + (-1,))
        )

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Wishart, _instance)
        batch_shape = Size(batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(
            batch_shape + self.event_shape
        )
        new._batch_dims = [-(x + 1) for x in range(len(batch_shape))]
        events = {"df": 0, "covariance_matrix": 2, "scale_tril": 2, "precision_matrix": 2}
        self._expand_into(new, batch_shape, events)
        new._set_chi2(batch_shape)
        return new

    def _expanded(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance."""
        return self._expanded(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance of the columns."""
        factor = self._unbroadcasted_scale_tril
        return self._expanded(factor @ factor.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        return self._expanded(corten.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self):
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor[factor <= 0] = nan
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        products = corten.einsum("...i,...j->...ij", diagonal, diagonal)
        return self.df.view(self._batch_shape + (1, 1)) * (covariance.pow(2) + products)

    def _bartlett_sampling(self, sample_shape=Size()):
        p = self._event_shape[-1]
        noise = _clamp_above_eps(self._dist_chi2.rsample(sample_shape).sqrt())
        noise = noise.diag_embed(dim1=-2, dim2=-1)
        i, j = corten.tril_indices(p, p, offset=-1)
        noise[..., i, j] = corten.randn(
            Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,),
            dtype=noise.dtype, device=noise.device,
        )
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.transpose(-2, -1)

    def rsample(self, sample_shape=Size(), max_try_correction=None):
        """Samples; singular ones are drawn again, ``max_try_correction`` times (10) at most."""
        tries = 10 if max_try_correction is None else max_try_correction
        # The first draw is not used: the numbers of one seed are those that programs expect.
        first = self._bartlett_sampling(Size(sample_shape))
        again = self._bartlett_sampling(Size(sample_shape)) if first.numel() else first
        sample, is_singular = again, self._is_singular(again)
        while tries > 1 and is_singular.any():
            tries -= 1
            warnings.warn("Singular sample detected.", stacklevel=2)
            again = self._bartlett_sampling(is_singular[is_singular].shape)
            sample = sample.clone()
            sample[is_singular] = again.reshape(sample[is_singular].shape)
            is_singular = self._is_singular(sample)
        return sample

    def _is_singular(self, sample):
        singular = ~self.support.check(sample)
        return singular.amax(self._batch_dims) if self._batch_shape else singular

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        return (
            -nu * (p * math.log(2) / 2 + factor.diagonal(dim1=-2, dim2=-1).log().sum(-1))
            - corten.mvlgamma(nu / 2, p=p)
            + (nu - p - 1) / 2 * corten.linalg.slogdet(value).logabsdet
            - corten.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1) / 2
        )

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        return (
            (p + 1) * (p * math.log(2) / 2 + factor.diagonal(dim1=-2, dim2=-1).log().sum(-1))
            + corten.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
            + p * nu / 2
        )

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        power = y + (p + 1) / 2
        return power * (-corten.linalg.slogdet(-2 * x).logabsdet + p * math.log(2)) + corten.mvlgamma(
            power, p=p
        )
