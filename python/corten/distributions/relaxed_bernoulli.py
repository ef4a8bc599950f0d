"""Differentiable stand-ins for coins."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .distribution import ProbsOrLogits
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs, is_one_number

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits):
    """Log odds plus logistic noise, over a temperature.

    C. Maddison, A. Mnih, Y. Teh, "The concrete distribution", 2017.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._set_one_of(probs, logits)
        given = probs if probs is not None else logits
        (value,) = broadcast_all(given)
        self.__dict__["probs" if probs is not None else "logits"] = value
        shape = Size() if is_one_number(given) else value.size()
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(LogitRelaxedBernoulli, _instance)
        new.temperature = self.temperature
        self._expand_into(new, Size(batch_shape), {"probs": 0, "logits": 0})
        return new

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniform = clamp_probs(corten.rand(shape, dtype=probs.dtype, device=probs.device))
        noise = uniform.log() - (-uniform).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value.mul(self.temperature)
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that approach a Bernoulli distribution as the temperature falls."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(RelaxedBernoulli, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def temperature(self):
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self):
        """Logarithms of odds."""
        return self.base_dist.logits

    @property
    def probs(self):
        """Probabilities of 1 in the limit."""
        return self.base_dist.probs
