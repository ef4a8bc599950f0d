"""Shares with an elementary distribution function."""

from __future__ import annotations

import corten
from corten import nan

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moments(a, b, n):
    """The mean of the power ``n``: b B(1 + n/a, b)."""
    first = 1 + n / a
    return corten.exp(b.log() + corten.lgamma(first) + corten.lgamma(b) - corten.lgamma(first + b))


class Kumaraswamy(TransformedDistribution):
    """The distribution function 1 - (1 - x^a)^b with a = concentration1, b = concentration0."""

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            corten.full_like(self.concentration0, 0), corten.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self):
        return _moments(self.concentration1, self.concentration0, 1)

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * (-b).log1p() - (-a * b).log1p()
        log_mode[(b < 1) | (a < 1)] = nan
        return log_mode.exp()

    @property
    def variance(self):
        return _moments(self.concentration1, self.concentration0, 2) - self.mean.pow(2)

    def entropy(self):
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = corten.digamma(self.concentration0 + 1) + euler_constant
        logs = corten.log(self.concentration1) + corten.log(self.concentration0)
        return t0 + t1 * harmonic - logs
