"""Magnitudes of Cauchy numbers."""

from __future__ import annotations

import math

import corten
from corten import inf

from . import constraints
from .cauchy import Cauchy
from .half_normal import _Half

__all__ = ["HalfCauchy"]


class HalfCauchy(_Half):
    """The absolute value of a Cauchy distribution around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _base = Cauchy

    @property
    def mean(self):
        shape, like = self._extended_shape(), self.scale
        return corten.full(shape, math.inf, dtype=like.dtype, device=like.device)

    @property
    def mode(self):
        return corten.zeros_like(self.scale)

    @property
    def variance(self):
        return self.base_dist.variance

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value = corten.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return corten.where(value >= 0, log_prob, -inf)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
