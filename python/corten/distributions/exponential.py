"""Waiting times."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, is_one_number

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """The exponential distribution of a rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _events = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        shape = Size() if is_one_number(rate) else self.rate.size()
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.rate.reciprocal()

    @property
    def mode(self):
        return corten.zeros_like(self.rate)

    @property
    def stddev(self):
        return self.rate.reciprocal()

    @property
    def variance(self):
        return self.rate.pow(-2)

    def rsample(self, sample_shape=Size()):
        return self.rate.new(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 1 - corten.exp(-self.rate * value)

    def icdf(self, value):
        return -corten.log1p(-value) / self.rate

    def entropy(self):
        return 1.0 - corten.log(self.rate)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -corten.log(-x)
