"""Shares between 0 and 1."""

from __future__ import annotations

from numbers import Real

import corten
from corten import Size

from . import constraints
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """The first share of a Dirichlet distribution with two concentrations."""

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        if isinstance(concentration1, Real) and isinstance(concentration0, Real):
            both = corten.tensor([float(concentration1), float(concentration0)])
        else:
            both = corten.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Beta, _instance)
        batch_shape = Size(batch_shape)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        Distribution.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(corten.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    def _concentration(self, place):
        result = self._dirichlet.concentration[..., place]
        return corten.tensor([result]) if isinstance(result, Real) else result

    @property
    def concentration1(self):
        """What pulls towards 1."""
        return self._concentration(0)

    @property
    def concentration0(self):
        """What pulls towards 0."""
        return self._concentration(1)

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return corten.lgamma(x) + corten.lgamma(y) - corten.lgamma(x + y)
