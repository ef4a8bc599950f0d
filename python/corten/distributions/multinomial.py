"""Counts of categories."""

from __future__ import annotations

import corten
from corten import Size, inf

from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each category came up in ``total_count`` draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.batch_shape
        events = self._categorical.param_shape[-1:]
        super().__init__(shape, events, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Multinomial, _instance)
        batch_shape = Size(batch_shape)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        new._binomial = self._binomial.expand(batch_shape + self._event_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def logits(self):
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self):
        """The probability of each category."""
        return self._categorical.probs

    @property
    def param_shape(self):
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        sample_shape = Size(sample_shape)
        drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape)
        # The draws last, to be counted.
        order = list(range(drawn.dim()))
        order.append(order.pop(0))
        drawn = drawn.permute(*order)
        counts = drawn.new(self._extended_shape(sample_shape)).zero_()
        counts.scatter_add_(-1, drawn, corten.ones_like(drawn))
        return counts.type_as(self.probs)

    def entropy(self):
        n = corten.tensor(self.total_count)
        one = self._categorical.entropy()
        support = self._binomial.enumerate_support(expand=False)[1:]
        probs = corten.exp(self._binomial.log_prob(support))
        repeats = (probs * corten.lgamma(support + 1)).sum([0, -1])
        return n * one - corten.lgamma(n + 1) + repeats

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone(memory_format=corten.contiguous_format)
        logits[(value == 0) & (logits == -inf)] = 0
        arrangements = corten.lgamma(value.sum(-1) + 1) - corten.lgamma(value + 1).sum(-1)
        return arrangements + (logits * value).sum(-1)
