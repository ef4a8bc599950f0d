"""Ratios of variances."""

from __future__ import annotations

import corten
from corten import Size, nan

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all, is_one_number

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The ratio of two means of squares of ``df1`` and ``df2`` normal numbers."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        shape = Size() if is_one_number(df1, df2) else self.df1.size()
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(FisherSnedecor, _instance)
        batch_shape = Size(batch_shape)
        for name in ("df1", "df2", "_gamma1", "_gamma2"):
            setattr(new, name, getattr(self, name).expand(batch_shape))
        Distribution.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self):
        df2 = self.df2.clone(memory_format=corten.contiguous_format)
        df2[df2 <= 2] = nan
        return df2 / (df2 - 2)

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        mode[self.df1 <= 2] = nan
        return mode

    @property
    def variance(self):
        df2 = self.df2.clone(memory_format=corten.contiguous_format)
        df2[df2 <= 4] = nan
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (
            self.df1 * (df2 - 2).pow(2) * (df2 - 4)
        )

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        above = self._gamma1.rsample(sample_shape).view(shape)
        below = self._gamma2.rsample(sample_shape).view(shape)
        tiny = corten.finfo(below.dtype).tiny
        below.clamp_(min=tiny)
        return (above / below).clamp_(min=tiny)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        half1, half2 = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        normalizer = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        slope = half1 * ratio.log() + (half1 - 1) * corten.log(value)
        return normalizer + slope - (half1 + half2) * corten.log1p(ratio * value)
