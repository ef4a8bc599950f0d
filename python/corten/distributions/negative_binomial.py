"""Successes before enough failures."""

from __future__ import annotations

import corten
from corten import Size
from corten.nn import functional as F

from . import constraints
from .distribution import ProbsOrLogits
from .gamma import Gamma
from .utils import broadcast_all, lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits):
    """The number of successes before ``total_count`` failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _events = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self._set_one_of(probs, logits)
        name, given = ("probs", probs) if probs is not None else ("logits", logits)
        self.total_count, value = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(value)
        self.__dict__[name] = value
        super().__init__(value.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * corten.exp(self.logits)

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        return self.mean / corten.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self):
        rate = corten.exp(-self.logits)
        return Gamma(concentration=self.total_count, rate=rate, validate_args=False)

    def sample(self, sample_shape=Size()):
        with corten.no_grad():
            return corten.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        unnormalized = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        log_count = -corten.lgamma(n + value) + corten.lgamma(1.0 + value) + corten.lgamma(n)
        # 0 failures: certainly no success, not 0/0.
        log_count = log_count.masked_fill(n + value == 0.0, 0.0)
        return unnormalized - log_count
