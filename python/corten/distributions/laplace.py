"""Differences of two waiting times."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, is_one_number

__all__ = ["Laplace"]


class Laplace(Distribution):
    """Densities that fall exponentially to both sides of ``loc``."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _events = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = Size() if is_one_number(loc, scale) else self.loc.size()
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return 2 * self.scale.pow(2)

    @property
    def stddev(self):
        return (2**0.5) * self.scale

    def rsample(self, sample_shape=Size()):
        eps = corten.finfo(self.loc.dtype).eps
        u = self.loc.new(self._extended_shape(sample_shape)).uniform_(eps - 1, 1)
        return self.loc - self.scale * u.sign() * corten.log1p(-u.abs())

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -corten.log(2 * self.scale) - corten.abs(value - self.loc) / self.scale

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * corten.expm1(-away.abs() / self.scale)

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * term.sign() * corten.log1p(-2 * term.abs())

    def entropy(self):
        return 1 + corten.log(2 * self.scale)
