"""Greatest values of many samples."""

from __future__ import annotations

import math

import corten
from corten import Size

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant, is_one_number

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The Gumbel distribution of a location and a scale."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = corten.finfo(self.loc.dtype)
        if is_one_number(loc, scale):
            base = Uniform(limits.tiny, 1 - limits.eps, validate_args=validate_args)
        else:
            base = Uniform(
                corten.full_like(self.loc, limits.tiny),
                corten.full_like(self.loc, 1 - limits.eps),
                validate_args=validate_args,
            )
        transforms = [
            ExpTransform().inv, AffineTransform(loc=0, scale=-corten.ones_like(self.scale)),
            ExpTransform().inv, AffineTransform(loc=loc, scale=-self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self):
        return self.loc + self.scale * euler_constant

    @property
    def mode(self):
        return self.loc

    @property
    def stddev(self):
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self):
        return self.stddev.pow(2)

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)
