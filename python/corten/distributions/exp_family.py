"""Exponential families."""

from __future__ import annotations

import corten

from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Densities exp(t(x)·θ - F(θ) + k(x)) with natural parameters θ and the log normaliser F."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        """The mean of k."""
        raise NotImplementedError

    def entropy(self):
        """F(θ) - θ·∇F(θ) minus the mean of k: the gradient of F is the mean of t."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        slopes = corten.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for param, slope in zip(params, slopes):
            result = result - (param * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
