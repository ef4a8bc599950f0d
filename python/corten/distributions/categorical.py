"""One of several categories."""

from __future__ import annotations

import corten
from corten import Size, nan

from . import constraints
from .distribution import Distribution, ProbsOrLogits

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits):
    """An index, by probabilities or unnormalised logarithms along the last dimension."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _events = {"probs": 1, "logits": 1}

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._set_one_of(probs, logits)
        name, value = ("probs", probs) if probs is not None else ("logits", logits)
        if value.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = value.size()[-1]
        Distribution.__init__(self, value.size()[:-1], validate_args=validate_args)

    def _expand_into(self, new, batch_shape, events):
        new._num_events = self._num_events
        super()._expand_into(new, batch_shape, events)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    def _undefined(self):
        shape, like = self._extended_shape(), self.probs
        return corten.full(shape, nan, dtype=like.dtype, device=like.device)

    @property
    def mean(self):
        return self._undefined()

    @property
    def mode(self):
        return self.probs.argmax(dim=-1)

    @property
    def variance(self):
        return self._undefined()

    def sample(self, sample_shape=Size()):
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = corten.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        value, log_pmf = corten.broadcast_tensors(value, self.logits)
        return log_pmf.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        # Impossible categories count as 0 · (the least number), not 0 · -inf.
        logits = corten.clamp(self.logits, min=corten.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = corten.arange(
            self._num_events, dtype=corten.long, device=self._param.device
        )
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
