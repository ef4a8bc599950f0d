"""Distributions of transformed samples."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Samples of a base distribution after one or several transforms."""

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event_dim = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{transform.domain.event_dim}, but got {base_shape}."
            )
        shape = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(shape)
        if base_shape != expanded:
            base_batch = expanded[:len(expanded) - len(base_distribution.event_shape)]
            base_distribution = base_distribution.expand(base_batch)
        # Batch dimensions of the base that a transform mixes belong to one event.
        missing = transform.domain.event_dim - base_event_dim
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist = base_distribution
        event_dim = max(
            transform.codomain.event_dim,
            transform.codomain.event_dim + base_event_dim - transform.domain.event_dim,
        )
        cut = len(shape) - event_dim
        super().__init__(Size(shape[:cut]), Size(shape[cut:]), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(TransformedDistribution, _instance)
        batch_shape = Size(batch_shape)
        new.transforms = self.transforms
        shape = batch_shape + self.event_shape
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        base_batch = shape[:len(shape) - len(self.base_dist.event_shape)]
        new.base_dist = self.base_dist.expand(base_batch)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self.event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    @property
    def has_rsample(self):
        """Whether the base has it."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape=Size()):
        with corten.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=Size()):
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x):
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self.event_shape)
        log_prob = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            slope = t.log_abs_det_jacobian(x, y)
            log_prob = log_prob - _sum_rightmost(slope, event_dim - t.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value):
        """The probability from the other side where the transforms fall."""
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._transformed(self.base_dist.icdf(self._monotonize_cdf(value)))
