"""Sums of waiting times."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, is_one_number

__all__ = ["Gamma"]


def _standard_gamma(concentration):
    return corten._standard_gamma(concentration)


class Gamma(ExponentialFamily):
    """The gamma distribution by concentration and rate."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _events = {"concentration": 0, "rate": 0}

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = Size() if is_one_number(concentration, rate) else self.concentration.size()
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=corten.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value):
        value = corten.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return (
            corten.xlogy(self.concentration, self.rate)
            + corten.xlogy(self.concentration - 1, value)
            - self.rate * value
            - corten.lgamma(self.concentration)
        )

    def entropy(self):
        return (
            self.concentration
            - corten.log(self.rate)
            + corten.lgamma(self.concentration)
            + (1.0 - self.concentration) * corten.digamma(self.concentration)
        )

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return corten.special.gammainc(self.concentration, self.rate * value)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return corten.lgamma(x + 1) + (x + 1) * corten.log(-y.reciprocal())
