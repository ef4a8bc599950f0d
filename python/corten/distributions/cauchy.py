"""Ratios of two normal numbers."""

from __future__ import annotations

import math

import corten
from corten import Size, inf, nan

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, is_one_number

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """The Cauchy distribution with its median ``loc`` and half its width at half maximum."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _events = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = Size() if is_one_number(loc, scale) else self.loc.size()
        super().__init__(shape, validate_args=validate_args)

    def _filled(self, value):
        like = self.loc
        return corten.full(self._extended_shape(), value, dtype=like.dtype, device=like.device)

    @property
    def mean(self):
        return self._filled(nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return self._filled(inf)

    def rsample(self, sample_shape=Size()):
        eps = self.loc.new(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = ((value - self.loc) / self.scale) ** 2
        return -math.log(math.pi) - self.scale.log() - distance.log1p()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return corten.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return corten.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()
