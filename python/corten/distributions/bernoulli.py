"""Trials with two outcomes."""

from __future__ import annotations

import corten
from corten import Size, nan
from corten.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from .distribution import ProbsOrLogits
from .exp_family import ExponentialFamily
from .utils import broadcast_all, is_one_number

__all__ = ["Bernoulli"]


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability ``probs``, or with log odds ``logits``, and 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _events = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._set_one_of(probs, logits)
        given = probs if probs is not None else logits
        (value,) = broadcast_all(given)
        self.__dict__["probs" if probs is not None else "logits"] = value
        shape = Size() if is_one_number(given) else value.size()
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = nan
        return mode

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        with corten.no_grad():
            return corten.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = corten.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    @property
    def _natural_params(self):
        return (corten.logit(self.probs),)

    def _log_normalizer(self, x):
        return corten.log(1 + corten.exp(x))
