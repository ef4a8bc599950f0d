"""Times until something wears out."""

from __future__ import annotations

import corten

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Powers of waiting times."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(corten.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Weibull, _instance)
        new.scale = self.scale.expand(batch_shape)
        new.concentration = self.concentration.expand(batch_shape)
        new.concentration_reciprocal = new.concentration.reciprocal()
        base = self.base_dist.expand(batch_shape)
        transforms = [
            PowerTransform(exponent=new.concentration_reciprocal),
            AffineTransform(loc=0, scale=new.scale),
        ]
        TransformedDistribution.__init__(new, base, transforms, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self):
        return self.scale * corten.exp(corten.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self):
        inner = (self.concentration - 1) / self.concentration
        return self.scale * inner ** self.concentration.reciprocal()

    @property
    def variance(self):
        second = corten.exp(corten.lgamma(1 + 2 * self.concentration_reciprocal))
        first = corten.exp(2 * corten.lgamma(1 + self.concentration_reciprocal))
        return self.scale.pow(2) * (second - first)

    def entropy(self):
        return (
            euler_constant * (1 - self.concentration_reciprocal)
            + corten.log(self.scale * self.concentration_reciprocal)
            + 1
        )
