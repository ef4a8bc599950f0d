"""Points of the simplex made of normal numbers."""

from __future__ import annotations

from . import constraints
from .independent import Independent
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Normal numbers, one fewer than coordinates, through the stick-breaking transform."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(LogisticNormal, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def _normal(self):
        return self.base_dist.base_dist if isinstance(self.base_dist, Independent) else self.base_dist

    @property
    def loc(self):
        """The means of the normal numbers."""
        return self._normal.loc

    @property
    def scale(self):
        """The standard deviations of the normal numbers."""
        return self._normal.scale
