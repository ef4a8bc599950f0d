"""Divergences between distributions of one family."""

from __future__ import annotations

import corten
from corten import inf
from corten.nn import functional as F

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .kl import _infinite_like, kl_divergence, register_kl
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    ones[q.probs == 0] = inf
    ones[p.probs == 0] = 0
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    zeros[q.probs == 1] = inf
    zeros[p.probs == 1] = 0
    return ones + zeros


@register_kl(Beta, Beta)
def _beta(p, q):
    total_p = p.concentration1 + p.concentration0
    total_q = q.concentration1 + q.concentration0
    norm_q = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    norm_p = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    ones = (p.concentration1 - q.concentration1) * corten.digamma(p.concentration1)
    zeros = (p.concentration0 - q.concentration0) * corten.digamma(p.concentration0)
    return norm_q - norm_p + ones + zeros + (total_q - total_p) * corten.digamma(total_p)


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (
        p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    )
    more = p.total_count > q.total_count
    kl[more] = _infinite_like(kl[more])
    return kl


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms[(q.probs == 0).expand_as(terms)] = inf
    terms[(p.probs == 0).expand_as(terms)] = 0
    return terms.sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    slope = p.mean * (p.logits - q.logits)
    norm_p = p._cont_bern_log_norm() + corten.log1p(-p.probs)
    norm_q = -q._cont_bern_log_norm() - corten.log1p(-q.probs)
    return slope + norm_p + norm_q


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    totals = total_p.lgamma() - total_q.lgamma()
    norms = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    away = p.concentration - q.concentration
    slopes = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return totals - norms + (away * slopes).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    rates = q.concentration * (p.rate / q.rate).log()
    norms = corten.lgamma(q.concentration) - corten.lgamma(p.concentration)
    slopes = (p.concentration - q.concentration) * corten.digamma(p.concentration)
    return rates + norms + slopes + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio = p.scale / q.scale
    p_loc, q_loc = p.loc / q.scale, q.loc / q.scale
    start = ratio.log() - p_loc + q_loc
    rest = corten.exp(-p_loc + (1 + ratio).lgamma() + q_loc)
    return -start + ratio * euler_constant + rest - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - corten.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio = p.scale / q.scale
    away = (p.loc - q.loc).abs()
    near = ratio * corten.exp(-away / p.scale)
    return -ratio.log() + away / q.scale + near - 1


def _squared_norm(matrix):
    """The sum of squares of each matrix."""
    return matrix.reshape(matrix.shape[:-2] + (-1,)).pow(2).sum(-1)


def _solve(factor, right):
    batch = corten.broadcast_shapes(factor.shape[:-2], right.shape[:-2])
    n = factor.shape[-1]
    right = right.expand(batch + right.shape[-2:])
    return corten.linalg.solve_triangular(factor.expand(batch + (n, n)), right, upper=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p, q):
    _same_events(p, q, "Low Rank Multivariate Normals")
    dets = q._log_det() - p._log_det()
    squares = q._mahalanobis(q.loc - p.loc)
    # The trace of inv(Wq Wqᵀ + Dq) (Wp Wpᵀ + Dp), term by term of Woodbury's identity.
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    a = _solve(q._capacitance_tril, scaled)
    diagonals = (p._unbroadcasted_cov_diag / q._unbroadcasted_cov_diag).sum(-1)
    term2 = _squared_norm(
        p._unbroadcasted_cov_factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    )
    term3 = _squared_norm(a * p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2))
    term4 = _squared_norm(a.matmul(p._unbroadcasted_cov_factor))
    trace = diagonals + term2 - term3 - term4
    return 0.5 * (dets + squares + trace - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_and_low_rank(p, q):
    _same_events(p, q, "(Low Rank) Multivariate Normals")
    dets = q._log_det() - 2 * p._half_log_det()
    squares = q._mahalanobis(q.loc - p.loc)
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    a = _solve(q._capacitance_tril, scaled)
    term1 = _squared_norm(
        p._unbroadcasted_scale_tril * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    )
    trace = term1 - _squared_norm(a.matmul(p._unbroadcasted_scale_tril))
    return 0.5 * (dets + squares + trace - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_and_full(p, q):
    _same_events(p, q, "(Low Rank) Multivariate Normals")
    dets = 2 * q._half_log_det() - p._log_det()
    squares = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    factor = _solve(q._unbroadcasted_scale_tril, p._unbroadcasted_cov_factor)
    diagonal = _solve(
        q._unbroadcasted_scale_tril, corten.diag_embed(p._unbroadcasted_cov_diag.sqrt())
    )
    trace = _squared_norm(factor) + _squared_norm(diagonal)
    return 0.5 * (dets + squares + trace - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _full(p, q):
    _same_events(p, q, "Multivariate Normals")
    trace = _squared_norm(_solve(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril))
    squares = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    half_dets = q._half_log_det() - p._half_log_det()
    return half_dets + 0.5 * (trace + squares - p.event_shape[0])


def _same_events(p, q, what):
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {what} with different event shapes cannot be computed"
        )


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    away = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + away - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    scales = p.scale / q.scale
    ratio = q.alpha / p.alpha
    result = q.alpha * scales.log() - ratio.log() + ratio - 1
    result[p.support.lower_bound < q.support.lower_bound] = inf
    return result


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    result[(q.low > p.low) | (q.high < p.high)] = inf
    return result


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    # F. Chyzak and F. Nielsen, 2019.
    numerator = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return numerator - (4 * p.scale * q.scale).log()
