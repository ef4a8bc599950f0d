"""Mixtures of distributions of one family."""

from __future__ import annotations

import corten
from corten import Size

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One component, chosen by a categorical distribution, out of the last batch dimension."""

    arg_constraints = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        chosen = mixture_distribution.batch_shape
        components = component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(chosen), reversed(components)):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({chosen}) is not compatible with "
                    f"`component_distribution.batch_shape`({components})"
                )
        weights = mixture_distribution.logits.shape[-1]
        count = component_distribution.batch_shape[-1]
        if weights is not None and count is not None and weights != count:
            raise ValueError(
                f"`mixture_distribution component` ({weights}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({count})"
            )
        self._num_component = weights
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(components, event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(
            batch_shape + (self._num_component,)
        )
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        event_shape = new._component_distribution.event_shape
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self):
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self):
        """The components."""
        return self._component_distribution

    def _weights(self):
        return self._pad_mixture_dimensions(self.mixture_distribution.probs)

    def _mixed(self, values):
        """The weighted sum over components."""
        return corten.sum(self._weights() * values, dim=-1 - self._event_ndims)

    @property
    def mean(self):
        return self._mixed(self.component_distribution.mean)

    @property
    def variance(self):
        # The mean of the variances plus the variance of the means.
        within = self._mixed(self.component_distribution.variance)
        away = self.component_distribution.mean - self._pad(self.mean)
        return within + self._mixed(away.pow(2.0))

    def cdf(self, x):
        values = self.component_distribution.cdf(self._pad(x))
        return corten.sum(values * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self.component_distribution.log_prob(self._pad(x))
        weights = corten.log_softmax(self.mixture_distribution.logits, dim=-1)
        return corten.logsumexp(log_prob + weights, dim=-1)

    def sample(self, sample_shape=Size()):
        with corten.no_grad():
            batch = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + Size([1] * (self._event_ndims + 1)))
            index = index.repeat(Size([1] * len(chosen.shape)) + Size([1]) + self.event_shape)
            return corten.gather(samples, batch, index).squeeze(batch)

    def _pad(self, x):
        """A dimension for components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x):
        missing = len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        if not self.mixture_distribution.batch_shape:
            missing = 0
        shape = x.shape
        return x.reshape(shape[:-1] + Size(missing * [1]) + shape[-1:] + Size(self._event_ndims * [1]))

    def __repr__(self):
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
