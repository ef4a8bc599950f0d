"""Points of the simplex."""

from __future__ import annotations

import corten
from corten import Size
from corten.autograd import Function
from corten.autograd.function import once_differentiable

from . import constraints
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


def _Dirichlet_backward(x, concentration, grad_output):
    total = concentration.sum(-1, True).expand_as(concentration)
    grad = corten._dirichlet_grad(x, concentration, total)
    return grad * (grad_output - (x * grad_output).sum(-1, True))


class _Dirichlet(Function):
    """Samples that move with the concentrations at fixed quantiles."""

    @staticmethod
    def forward(ctx, concentration):
        x = corten._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        x, concentration = ctx.saved_tensors
        return _Dirichlet_backward(x, concentration, grad_output)


class Dirichlet(ExponentialFamily):
    """Vectors of shares that sum to 1, by their concentrations."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _events = {"concentration": 1}

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (
            corten.xlogy(self.concentration - 1.0, value).sum(-1)
            + corten.lgamma(self.concentration.sum(-1))
            - corten.lgamma(self.concentration).sum(-1)
        )

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        flat = (self.concentration < 1).all(dim=-1)
        # All concentrations below 1: the density is greatest at a corner.
        mode[flat] = corten.nn.functional.one_hot(
            mode[flat].argmax(dim=-1), above.shape[-1]
        ).to(mode)
        return mode

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        count = self.concentration.size(-1)
        total = self.concentration.sum(-1)
        return (
            corten.lgamma(self.concentration).sum(-1)
            - corten.lgamma(total)
            - (count - total) * corten.digamma(total)
            - ((self.concentration - 1.0) * corten.digamma(self.concentration)).sum(-1)
        )

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - corten.lgamma(x.sum(-1))
