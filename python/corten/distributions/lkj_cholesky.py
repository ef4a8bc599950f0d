"""Cholesky factors of random correlation matrices."""

from __future__ import annotations

import math

import corten
from corten import Size

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Factors of correlation matrices with densities det^(concentration - 1).

    D. Lewandowski, D. Kurowicka, H. Joe, "Generating random correlation matrices based on vines
    and extended onion method", 2009; sampled by the onion method, row by row.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        options = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        # Row i of the factor has squared length below the diagonal ~ Beta(i/2, ·).
        marginal = self.concentration + 0.5 * (self.dim - 2)
        offset = corten.arange(self.dim - 1, **options)
        offset = corten.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        shape = self.concentration.size()
        super().__init__(shape, Size((dim, dim)), validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand(batch_shape + (self.dim,))
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape=Size()):
        lengths = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = corten.randn(
            self._extended_shape(sample_shape), dtype=lengths.dtype, device=lengths.device
        ).tril(-1)
        directions = normal / normal.norm(dim=-1, keepdim=True)
        directions[..., 0, :].fill_(0.0)
        factor = corten.sqrt(lengths) * directions
        eps = corten.finfo(factor.dtype).tiny
        diagonal = corten.clamp(1 - corten.sum(factor**2, dim=-1), min=eps).sqrt()
        factor += corten.diag_embed(diagonal)
        return factor

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = corten.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = corten.sum(order * diagonal.log(), dim=-1)
        last = self.dim - 1
        alpha = self.concentration + 0.5 * last
        normalizer = (
            0.5 * last * math.log(math.pi)
            + corten.mvlgamma(alpha - 0.5, last)
            - corten.lgamma(alpha) * last
        )
        return unnormalized - normalizer
