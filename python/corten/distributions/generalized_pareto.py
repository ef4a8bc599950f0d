"""What lies over a high threshold."""

from __future__ import annotations

import corten
from corten import Size, inf

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, is_one_number

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Excesses over ``loc``; ``concentration`` 0 is the exponential distribution."""

    arg_constraints = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }
    has_rsample = True
    _events = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        one = is_one_number(loc, scale, concentration)
        super().__init__(Size() if one else self.loc.size(), validate_args=validate_args)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(corten.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _is_exponential(self):
        return corten.isclose(self.concentration, corten.zeros_like(self.concentration))

    def _safe_concentration(self, exponential):
        return corten.where(exponential, corten.ones_like(self.concentration), self.concentration)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        exponential = self._is_exponential()
        c = self._safe_concentration(exponential)
        slope = corten.where(exponential, z, (1 / c + 1) * corten.log1p(z * c))
        return -self.scale.log() - slope

    def log_survival_function(self, value):
        """The logarithm of the probability of more than ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        exponential = self._is_exponential()
        c = self._safe_concentration(exponential)
        return corten.where(exponential, -z, -corten.log1p(c * z) / c)

    def log_cdf(self, value):
        """The logarithm of :meth:`cdf`."""
        return corten.log1p(-corten.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return corten.exp(self.log_cdf(value))

    def icdf(self, value):
        exponential = self._is_exponential()
        c = self._safe_concentration(exponential)
        log_survival = corten.log1p(-value)
        powered = corten.expm1(-c * log_survival) / c
        return self.loc + self.scale * corten.where(exponential, -log_survival, powered)

    def _z(self, x):
        return (x - self.loc) / self.scale

    @property
    def mean(self):
        finite = self.concentration < 1
        c = corten.where(finite, self.concentration, 0.5)
        return corten.where(finite, self.loc + self.scale / (1 - c), inf)

    @property
    def variance(self):
        finite = self.concentration < 0.5
        c = corten.where(finite, self.concentration, 0.25)
        return corten.where(finite, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), inf)

    def entropy(self):
        answer = corten.log(self.scale) + self.concentration + 1
        return corten.broadcast_to(answer, self._batch_shape)

    @property
    def mode(self):
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        lower, upper = self.loc, self.loc - self.scale / self.concentration
        return constraints.greater_than_eq(lower) if (self.concentration >= 0).all() else (
            constraints.interval(lower, upper)
        )
