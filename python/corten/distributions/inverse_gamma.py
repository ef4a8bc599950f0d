"""Reciprocals of gamma numbers."""

from __future__ import annotations

import corten

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The reciprocal of a gamma distribution by concentration and rate."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, power, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(InverseGamma, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def concentration(self):
        """The concentration of the gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self):
        """The rate of the gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self):
        return corten.where(
            self.concentration > 1, self.rate / (self.concentration - 1), corten.inf
        )

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        c = self.concentration
        finite = self.rate.square() / ((c - 1).square() * (c - 2))
        return corten.where(c > 2, finite, corten.inf)

    def entropy(self):
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()
