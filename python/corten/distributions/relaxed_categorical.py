"""Differentiable stand-ins for categories."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """Logarithms of points of the simplex: logits plus Gumbel noise, over a temperature.

    C. Maddison, A. Mnih, Y. Teh, "The concrete distribution", 2017.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # with exponentials that sum to 1
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape, events = self._categorical.batch_shape, self._categorical.param_shape[-1:]
        super().__init__(shape, events, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        batch_shape = Size(batch_shape)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @property
    def param_shape(self):
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def logits(self):
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self):
        """The probability of each category in the limit."""
        return self._categorical.probs

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        uniform = corten.rand(shape, dtype=self.logits.dtype, device=self.logits.device)
        gumbel = -((-(clamp_probs(uniform).log())).log())
        scores = (self.logits + gumbel) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value):
        n = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        log_scale = corten.full_like(self.temperature, float(n)).lgamma() - self.temperature.log().mul(
            -(n - 1)
        )
        score = logits - value.mul(self.temperature)
        score = (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1)
        return score + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex that approach its corners as the temperature falls."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def temperature(self):
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self):
        """Logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self):
        """The probability of each category in the limit."""
        return self.base_dist.probs
