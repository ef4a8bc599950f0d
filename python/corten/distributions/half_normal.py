"""Magnitudes of normal numbers."""

from __future__ import annotations

import math

import corten
from corten import inf

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfNormal"]


class _Half(TransformedDistribution):
    """The absolute value of a symmetric distribution around 0."""

    def __init__(self, scale, validate_args=None):
        base = self._base(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        owner = next(c for c in type(self).__mro__ if "_base" in vars(c))
        new = self._get_checked_instance(owner, _instance)
        return super().expand(batch_shape, _instance=new)

    def _get_checked_instance(self, cls, _instance=None):
        if cls is TransformedDistribution and type(self).__init__ is _Half.__init__:
            cls = type(self)
        return super()._get_checked_instance(cls, _instance)

    @property
    def scale(self):
        """The scale."""
        return self.base_dist.scale

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)


class HalfNormal(_Half):
    """The absolute value of a normal distribution around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _base = Normal

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self):
        return corten.zeros_like(self.scale)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return corten.where(value >= 0, log_prob, -inf)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
