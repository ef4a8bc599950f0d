"""Counts of rare events."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, is_one_number

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """The Poisson distribution of a rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _events = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        shape = Size() if is_one_number(rate) else self.rate.size()
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return self.rate.floor()

    @property
    def variance(self):
        return self.rate

    def sample(self, sample_shape=Size()):
        with corten.no_grad():
            return corten.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (corten.log(self.rate),)

    def _log_normalizer(self, x):
        return corten.exp(x)
