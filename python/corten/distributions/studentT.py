"""Normal numbers of an uncertain scale."""

from __future__ import annotations

import math

import corten
from corten import Size, inf, nan

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t distribution of ``df`` degrees of freedom."""

    arg_constraints = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(StudentT, _instance)
        batch_shape = Size(batch_shape)
        for name in ("df", "loc", "scale", "_chi2"):
            setattr(new, name, getattr(self, name).expand(batch_shape))
        Distribution.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self):
        mean = self.loc.clone(memory_format=corten.contiguous_format)
        mean[self.df <= 1] = nan
        return mean

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        variance = self.df.clone(memory_format=corten.contiguous_format)
        heavy = self.df > 2
        variance[heavy] = self.scale[heavy].pow(2) * self.df[heavy] / (self.df[heavy] - 2)
        variance[(self.df <= 2) & (self.df > 1)] = inf
        variance[self.df <= 1] = nan
        return variance

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * corten.rsqrt(squares / self.df))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        normalizer = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + corten.lgamma(0.5 * self.df)
            - corten.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * corten.log1p(y**2.0 / self.df) - normalizer

    def entropy(self):
        log_beta = (
            corten.lgamma(0.5 * self.df)
            + math.lgamma(0.5)
            - corten.lgamma(0.5 * (self.df + 1))
        )
        slope = corten.digamma(0.5 * (self.df + 1)) - corten.digamma(0.5 * self.df)
        return self.scale.log() + 0.5 * (self.df + 1) * slope + 0.5 * self.df.log() + log_beta
