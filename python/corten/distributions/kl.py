"""Kullback–Leibler divergences between distributions, by their classes."""

from __future__ import annotations

import functools
import warnings

import corten
from corten import inf

from .distribution import Distribution
from .exp_family import ExponentialFamily
from .independent import Independent
from .transformed_distribution import TransformedDistribution
from .utils import _sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

#: Functions by the classes that they were registered for.
_KL_REGISTRY = {}
#: The function of each pair of classes that was asked for.
_KL_MEMOIZE = {}


def register_kl(type_p, type_q):
    """Decorates the function of two distributions of these classes, or derived ones. The classes may be
    of other libraries.

    Raises:
        TypeError: A class is none.
    """
    for given, name in ((type_p, "type_p"), (type_q, "type_q")):
        if not isinstance(given, type):
            raise TypeError(f"Expected {name} to be a class but got {given!r}")

    def decorator(fun):
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun

    return decorator


@functools.total_ordering
class _Match:
    """A tuple of classes; of two that match, the more derived one is the lesser."""

    def __init__(self, *types):
        self.types = types

    def __eq__(self, other):
        return self.types == other.types

    __hash__ = None

    def __le__(self, other):
        for mine, theirs in zip(self.types, other.types):
            if not issubclass(mine, theirs):
                return False
            if mine is not theirs:
                break
        return True


def _dispatch_kl(type_p, type_q):
    """The most specific function, by the first class and by the second one."""
    matches = [
        (p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not matches:
        return NotImplemented
    left_p, left_q = min(_Match(*m) for m in matches).types
    right_q, right_p = min(_Match(*reversed(m)) for m in matches).types
    left, right = _KL_REGISTRY[left_p, left_q], _KL_REGISTRY[right_p, right_q]
    if left is not right:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left_p.__name__}, {right_q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return left


def kl_divergence(p, q):
    """The divergence of ``q`` from ``p``, of shape ``batch_shape``.

    Raises:
        NotImplementedError: No function was registered for the classes.
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    fun = _KL_MEMOIZE[pair]
    if fun is NotImplemented:
        raise NotImplementedError(
            "No KL(p || q) is implemented for p type "
            f"{p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return fun(p, q)


def _infinite_like(tensor):
    return corten.full_like(tensor, inf)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """The Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    p_params = [param.detach().requires_grad_() for param in p._natural_params]
    p_normalizer = p._log_normalizer(*p_params)
    slopes = corten.autograd.grad(p_normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - p_normalizer
    for theirs, mine, slope in zip(q._natural_params, p_params, slopes):
        result -= _sum_rightmost((theirs - mine) * slope, len(q.event_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


from . import _kl_between_families, _kl_within_families  # noqa: E402, F401
