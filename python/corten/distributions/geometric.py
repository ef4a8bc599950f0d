"""Failures before the first success."""

from __future__ import annotations

import corten
from corten import Size
from corten.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from .distribution import ProbsOrLogits
from .utils import broadcast_all, is_one_number

__all__ = ["Geometric"]


class Geometric(ProbsOrLogits):
    """How many trials fail before one succeeds."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _events = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._set_one_of(probs, logits)
        given = probs if probs is not None else logits
        (value,) = broadcast_all(given)
        self.__dict__["probs" if probs is not None else "logits"] = value
        shape = Size() if is_one_number(given) else value.size()
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and probs is not None:
            valid = value > 0
            if not valid.all():
                invalid_value = value.data[~valid]
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{invalid_value}"
                )

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        return corten.zeros_like(self.probs)

    @property
    def variance(self):
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape=Size()):
        tiny = corten.finfo(self.probs.dtype).tiny
        with corten.no_grad():
            u = self.probs.new(self._extended_shape(sample_shape)).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone(memory_format=corten.contiguous_format)
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        return (
            binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
            / self.probs
        )
