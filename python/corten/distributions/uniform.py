"""Equal chances over an interval."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, is_one_number

__all__ = ["Uniform"]


class Uniform(Distribution):
    """The uniform distribution over ``[low, high)``."""

    has_rsample = True
    _events = {"low": 0, "high": 0}

    @property
    def arg_constraints(self):
        """Each bound is on its side of the other."""
        return {
            "low": constraints.less_than(self.high), "high": constraints.greater_than(self.low),
        }

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        shape = Size() if is_one_number(low, high) else self.low.size()
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def mode(self):
        return corten.nan * self.high

    @property
    def stddev(self):
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self):
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        uniform = corten.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + uniform * (self.high - self.low)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return corten.log(inside) - corten.log(self.high - self.low)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return corten.log(self.high - self.low)
