"""Successes among trials."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .distribution import ProbsOrLogits
from .utils import broadcast_all

__all__ = ["Binomial"]


def _clamp_by_zero(x):
    """The positive part, with the gradient 1/2 at zero."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(ProbsOrLogits):
    """The number of successes among ``total_count`` trials."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _events = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._set_one_of(probs, logits)
        name, given = ("probs", probs) if probs is not None else ("logits", logits)
        self.total_count, value = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(value)
        self.__dict__[name] = value
        super().__init__(value.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with corten.no_grad():
            return corten.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        # n log(1 + exp(logits)), without overflow.
        normalizer = (
            n * _clamp_by_zero(self.logits)
            + n * corten.log1p(corten.exp(-corten.abs(self.logits)))
            - corten.lgamma(n + 1)
        )
        arrangements = corten.lgamma(value + 1) + corten.lgamma(n - value + 1)
        return value * self.logits - arrangements - normalizer

    def entropy(self):
        total_count = int(self.total_count.max())
        if not self.total_count.min() == total_count:
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `entropy`."
            )
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(corten.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        total_count = int(self.total_count.max())
        if not self.total_count.min() == total_count:
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        values = corten.arange(
            1 + total_count, dtype=self._param.dtype, device=self._param.device
        )
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
