"""Angles."""

from __future__ import annotations

import math

import corten
from corten import Size

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


def _log_modified_bessel_fn(x, order=0):
    """The logarithm of the modified Bessel function of order 0 or 1 at ``x`` > 0."""
    scaled = corten.special.i0e if order == 0 else corten.special.i1e
    return scaled(x).log() + x


class VonMises(Distribution):
    """Angles around ``loc`` with densities exp(concentration · cos).

    Sampled by rejection from a wrapped Cauchy distribution (D. Best and N. Fisher, 1979), in
    double precision.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(), validate_args)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (
            self.concentration * corten.cos(value - self.loc)
            - math.log(2 * math.pi)
            - _log_modified_bessel_fn(self.concentration, order=0)
        )

    @lazy_property
    def _loc(self):
        return self.loc.to(corten.double)

    @lazy_property
    def _concentration(self):
        return self.concentration.to(corten.double)

    @lazy_property
    def _proposal_r(self):
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        r = (1 + rho**2) / (2 * rho)
        # For small concentrations that is 0/0; this is its series.
        return corten.where(kappa < 1e-5, 1 / kappa + kappa, r)

    def sample(self, sample_shape=Size()):
        with corten.no_grad():
            shape = self._extended_shape(sample_shape)
            x = corten.empty(shape, dtype=self._loc.dtype, device=self.loc.device)
            return self._drawn(x).to(self.loc.dtype)

    def _drawn(self, x):
        kappa, r = self._concentration, self._proposal_r
        done = corten.zeros(x.shape, dtype=corten.bool, device=self.loc.device)
        while not done.all():
            u1, u2, u3 = corten.rand((3,) + x.shape, dtype=x.dtype, device=self.loc.device).unbind()
            z = corten.cos(math.pi * u1)
            f = (1 + r * z) / (r + z)
            c = kappa * (r - f)
            accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
            if accept.any():
                x = corten.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
        return (x + math.pi + self._loc) % (2 * math.pi) - math.pi

    def expand(self, batch_shape, _instance=None):
        try:
            return super().expand(batch_shape)
        except NotImplementedError:
            validate_args = self.__dict__.get("_validate_args")
            loc, concentration = (
                self.loc.expand(batch_shape), self.concentration.expand(batch_shape)
            )
            return type(self)(loc, concentration, validate_args=validate_args)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @lazy_property
    def variance(self):
        ratio = _log_modified_bessel_fn(self.concentration, order=1) - _log_modified_bessel_fn(
            self.concentration, order=0
        )
        return 1 - ratio.exp()
