"""Divergences between distributions of different families."""

from __future__ import annotations

import math

import corten
from corten import inf

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import _infinite_like, register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant


def _no_overlap(p_type, q_type, parameter):
    """Registers that samples of the one lie outside of the support of the other."""

    def infinite(p, q):
        return _infinite_like(getattr(p, parameter))

    register_kl(p_type, q_type)(infinite)


for _p, _q, _parameter in (
    (Bernoulli, Poisson, None),
    (Beta, Pareto, "concentration1"),
    (ContinuousBernoulli, Pareto, "probs"),
    (Exponential, Beta, "rate"), (Exponential, ContinuousBernoulli, "rate"),
    (Exponential, Pareto, "rate"), (Exponential, Uniform, "rate"),
    (Gamma, Beta, "concentration"), (Gamma, ContinuousBernoulli, "concentration"),
    (Gamma, Pareto, "concentration"), (Gamma, Uniform, "concentration"),
    (Gumbel, Beta, "loc"), (Gumbel, ContinuousBernoulli, "loc"), (Gumbel, Exponential, "loc"),
    (Gumbel, Gamma, "loc"), (Gumbel, Pareto, "loc"), (Gumbel, Uniform, "loc"),
    (Laplace, Beta, "loc"), (Laplace, ContinuousBernoulli, "loc"), (Laplace, Exponential, "loc"),
    (Laplace, Gamma, "loc"), (Laplace, Pareto, "loc"), (Laplace, Uniform, "loc"),
    (Normal, Beta, "loc"), (Normal, ContinuousBernoulli, "loc"), (Normal, Exponential, "loc"),
    (Normal, Gamma, "loc"), (Normal, Pareto, "loc"), (Normal, Uniform, "loc"),
    (Pareto, Beta, "scale"), (Pareto, ContinuousBernoulli, "scale"), (Pareto, Uniform, "scale"),
    (Poisson, Bernoulli, "rate"), (Poisson, Binomial, "rate"),
):
    if _parameter is not None:
        _no_overlap(_p, _q, _parameter)
del _p, _q, _parameter


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p, q):
    return (
        -p.entropy() - p.mean * q.logits - corten.log1p(-q.probs) - q._cont_bern_log_norm()
    )


def _mean_logs_of_beta(p):
    total = (p.concentration1 + p.concentration0).digamma()
    return p.concentration1.digamma() - total, p.concentration0.digamma() - total


@register_kl(Beta, Exponential)
def _beta_exponential(p, q):
    share = p.concentration1 / (p.concentration1 + p.concentration0)
    return -p.entropy() - q.rate.log() + q.rate * share


@register_kl(Beta, Gamma)
def _beta_gamma(p, q):
    log_x, _ = _mean_logs_of_beta(p)
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return -p.entropy() + norm - (q.concentration - 1) * log_x + q.rate * p.mean


def _against_normal(p, q):
    """For any ``p`` with a mean and a variance."""
    square = p.variance + (p.mean - q.loc).pow(2)
    log_scale = 0.5 * (q.scale.pow(2) * (2 * math.pi)).log()
    return -p.entropy() + log_scale + 0.5 * square / q.scale.pow(2)


for _type in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Uniform):
    register_kl(_type, Normal)(_against_normal)
del _type


@register_kl(Laplace, Normal)
def _laplace_normal(p, q):
    return _against_normal(p, q)


@register_kl(Beta, Uniform)
def _beta_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    result[(q.low > 0) | (q.high < 1)] = inf
    return result


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p, q):
    return -p.entropy() - corten.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    outside = (q.low > 0) | (q.high < 1)
    return corten.where(outside, corten.ones_like(result) * inf, result)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p, q):
    ratio = q.rate / p.rate
    return (
        -q.concentration * corten.log(ratio) + ratio + q.concentration.lgamma()
        + q.concentration * euler_constant - (1 + euler_constant)
    )


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p, q):
    product = p.rate * q.scale
    location = q.loc / q.scale
    rest = corten.exp(location) * product / (product + 1)
    return product.log() - location + product.reciprocal() + rest - 1


@register_kl(Gamma, Exponential)
def _gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p, q):
    product = p.rate * q.scale
    location = q.loc / q.scale
    start = (
        (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma()
        - p.concentration
    )
    middle = product.log() + p.concentration / product
    rest = corten.exp(location) * (1 + product.reciprocal()).pow(-p.concentration) - location
    return start + middle + rest


@register_kl(Normal, Gumbel)
def _normal_gumbel(p, q):
    location = p.loc / q.scale
    square = (p.scale / q.scale).pow(2)
    shift = q.loc / q.scale
    rest = corten.exp(-location + 0.5 * square + shift)
    return (location - shift) + rest - (
        0.5 * (1 + math.log(2 * math.pi)) + (p.scale / q.scale).log()
    )


@register_kl(Normal, Laplace)
def _normal_laplace(p, q):
    away = p.loc - q.loc
    ratio = away / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * corten.exp(-0.5 * ratio.pow(2))
    mean = near + away * corten.erf(math.sqrt(0.5) * ratio)
    return -p.entropy() + corten.log(2 * q.scale) + mean / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p, q):
    product = p.scale * q.rate
    result = (p.alpha / product).log() - p.alpha.reciprocal() + (
        p.alpha * product / (p.alpha - 1)
    ) - 1
    result[p.alpha <= 1] = inf
    return result


@register_kl(Pareto, Gamma)
def _pareto_gamma(p, q):
    shared = p.scale.log() + p.alpha.reciprocal()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    mean = p.alpha * p.scale * q.rate / (p.alpha - 1)
    result = p.alpha.log() - shared + norm + (1 - q.concentration) * shared + mean - 1
    result[p.alpha <= 1] = inf
    return result


@register_kl(Pareto, Normal)
def _pareto_normal(p, q):
    deviation = 2 * q.scale.pow(2)
    mean = p.scale * p.alpha / (p.alpha - 1)
    result = (
        (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
        - p.alpha.reciprocal() - 1
        + (p.variance + (mean - q.loc).pow(2)) / deviation
    )
    result[p.alpha <= 2] = inf
    return result


@register_kl(Uniform, Beta)
def _uniform_beta(p, q):
    length = p.high - p.low
    log_x = (_x_log_x(p.high) - _x_log_x(p.low) - length) / length
    log_rest = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high) - length) / length
    norm = (
        q.concentration1.lgamma() + q.concentration0.lgamma()
        - (q.concentration1 + q.concentration0).lgamma()
    )
    result = (
        -length.log() + norm - (q.concentration1 - 1) * log_x - (q.concentration0 - 1) * log_rest
    )
    result[(p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)] = inf
    return result


def _x_log_x(x):
    return x * x.log()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p, q):
    result = -p.entropy() - p.mean * q.logits - corten.log1p(-q.probs) - q._cont_bern_log_norm()
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return corten.where(outside, corten.ones_like(result) * inf, result)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    result[p.low < q.support.lower_bound] = inf
    return result


@register_kl(Uniform, Gamma)
def _uniform_gamma(p, q):
    length = p.high - p.low
    log_x = (_x_log_x(p.high) - _x_log_x(p.low) - length) / length
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    result = (
        -length.log() + norm - (q.concentration - 1) * log_x + q.rate * (p.high + p.low) / 2
    )
    result[p.low < q.support.lower_bound] = inf
    return result


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p, q):
    length = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    mean = 0.5 * (high + low)
    return length.log() + mean - length * (corten.exp(-high) - corten.exp(-low))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p, q):
    length = p.high - p.low
    log_x = (_x_log_x(p.high) - _x_log_x(p.low) - length) / length
    result = log_x * (q.alpha + 1) - (q.alpha * q.scale.pow(q.alpha) * length).log()
    result[p.low < q.support.lower_bound] = inf
    return result
