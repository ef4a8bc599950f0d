"""Intensities between 0 and 1."""

from __future__ import annotations

import math

import corten
from corten import Size
from corten.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from .distribution import Distribution, ProbsOrLogits
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, is_one_number, lazy_property, probs_to_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Densities proportional to p^x (1-p)^(1-x) over [0, 1].

    Near p = 1/2, between ``lims``, where the normaliser is 0/0, its Taylor series is used.
    G. Loaiza-Ganem and J. Cunningham, "The continuous Bernoulli", 2019.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True
    _events = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._set_one_of(probs, logits)
        given = probs if probs is not None else logits
        (value,) = broadcast_all(given)
        if probs is not None:
            if validate_args is not None and not self.arg_constraints["probs"].check(value).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(value)
        else:
            self.logits = value
        self._lims = lims
        shape = Size() if is_one_number(given) else value.size()
        Distribution.__init__(self, shape, validate_args=validate_args)

    def _expand_into(self, new, batch_shape, events):
        new._lims = self._lims
        super()._expand_into(new, batch_shape, events)

    @lazy_property
    def logits(self):
        """Logarithms of odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        """The parameter p."""
        return clamp_probs(corten.sigmoid(self.logits))

    def _outside_unstable_region(self):
        return corten.max(
            corten.le(self.probs, self._lims[0]), corten.gt(self.probs, self._lims[1])
        )

    def _cut_probs(self):
        """The parameters, those of the unstable region moved to its border."""
        border = self._lims[0] * corten.ones_like(self.probs)
        return corten.where(self._outside_unstable_region(), self.probs, border)

    def _cont_bern_log_norm(self):
        """log of 2 artanh(1 - 2p) / (1 - 2p)."""
        cut = self._cut_probs()
        below = corten.where(corten.le(cut, 0.5), cut, corten.zeros_like(cut))
        above = corten.where(corten.ge(cut, 0.5), cut, corten.ones_like(cut))
        log_norm = corten.log(
            corten.abs(corten.log1p(-cut) - corten.log(cut))
        ) - corten.where(
            corten.le(cut, 0.5), corten.log1p(-2.0 * below), corten.log(2.0 * above - 1.0)
        )
        x = corten.pow(self.probs - 0.5, 2)
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return corten.where(self._outside_unstable_region(), log_norm, taylor)

    @property
    def mean(self):
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (corten.log1p(-cut) - corten.log(cut))
        x = self.probs - 0.5
        taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * corten.pow(x, 2)) * x
        return corten.where(self._outside_unstable_region(), exact, taylor)

    @property
    def stddev(self):
        return corten.sqrt(self.variance)

    @property
    def variance(self):
        cut = self._cut_probs()
        exact = cut * (cut - 1.0) / corten.pow(1.0 - 2.0 * cut, 2) + 1.0 / corten.pow(
            corten.log1p(-cut) - corten.log(cut), 2
        )
        x = corten.pow(self.probs - 0.5, 2)
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return corten.where(self._outside_unstable_region(), exact, taylor)

    def sample(self, sample_shape=Size()):
        with corten.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(corten.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        likelihood = -binary_cross_entropy_with_logits(logits, value, reduction="none")
        return likelihood + self._cont_bern_log_norm()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        inside = (
            corten.pow(cut, value) * corten.pow(1.0 - cut, 1.0 - value) + cut - 1.0
        ) / (2.0 * cut - 1.0)
        bounded = corten.where(self._outside_unstable_region(), inside, value)
        at_least = corten.where(corten.le(value, 0.0), corten.zeros_like(value), bounded)
        return corten.where(corten.ge(value, 1.0), corten.ones_like(value), at_least)

    def icdf(self, value):
        cut = self._cut_probs()
        exact = (
            corten.log1p(-cut + value * (2.0 * cut - 1.0)) - corten.log1p(-cut)
        ) / (corten.log(cut) - corten.log1p(-cut))
        return corten.where(self._outside_unstable_region(), exact, value)

    def entropy(self):
        log_q, log_p = corten.log1p(-self.probs), corten.log(self.probs)
        return self.mean * (log_q - log_p) - self._cont_bern_log_norm() - log_q

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        """log((e^x - 1) / x), by its Taylor series near zero."""
        limits = self._lims[0] - 0.5, self._lims[1] - 0.5
        outside = corten.max(corten.le(x, limits[0]), corten.gt(x, limits[1]))
        cut = corten.where(outside, x, limits[0] * corten.ones_like(x))
        exact = corten.log(corten.abs(corten.special.expm1(cut))) - corten.log(corten.abs(cut))
        taylor = 0.5 * x + corten.pow(x, 2) / 24.0 - corten.pow(x, 4) / 2880.0
        return corten.where(outside, exact, taylor)
