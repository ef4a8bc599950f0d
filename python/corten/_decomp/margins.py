"""Margin losses, norms and special functions by simpler operators."""

from __future__ import annotations

import math

import corten
from corten import ops

from ._register import opmath, register_decomposition
from .pointwise import xlog1py, xlogy
from .reductions import _reduced, linalg_vector_norm

aten = ops.aten


@register_decomposition(aten.multi_margin_loss.default)
@opmath
def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=1):
    """How much other classes come nearer to the right one than a margin."""
    rows = corten.atleast_2d(self)
    if self.numel() == 0:
        return NotImplemented
    classes = rows.shape[1]
    if weight is not None and weight.numel() != classes:
        return NotImplemented
    target = corten.atleast_1d(target)
    column = target.unsqueeze(1)
    loss = (margin - corten.gather(rows, 1, column) + rows).clamp(0)
    loss = loss if p == 1 else loss * loss
    if weight is not None:
        loss = loss * aten.index.Tensor(weight, [target]).unsqueeze(1)
    others = corten.arange(classes, device=self.device) != column
    loss = corten.where(others, loss, 0)
    if reduction == 1:
        return aten.mean.default(loss)
    if reduction == 2:
        return aten.sum.dim_IntList(loss, []) / classes
    loss = aten.mean.dim(loss, [1])
    return loss if self.dim() > 1 and target.dim() else loss.squeeze(0) if self.dim() < 2 else loss


@register_decomposition(aten.multilabel_margin_loss_forward.default)
@opmath
def multilabel_margin_loss_forward(self, target, reduction):
    """How much other classes come nearer to the right ones than 1, and which ones are right.

    A row of targets ends before its first negative one.
    """
    if self.numel() == 0:
        return NotImplemented
    rows, labels = corten.atleast_2d(self), corten.atleast_2d(target)
    count = rows.shape[1]
    places = corten.arange(count, device=self.device)
    ends = aten.amin.default(corten.where(labels == -1, places, count), [-1], True)
    valid = places < ends
    right = corten.gather(rows, -1, corten.where(valid, labels, 0))
    is_right = (places == corten.where(valid, labels, -1).unsqueeze(-1)).any(1)
    loss = (1.0 - right.T.unsqueeze(-1) + rows).clamp(0) / count
    loss = corten.where(is_right, 0, loss)
    loss = corten.where(valid.T.unsqueeze(-1), loss, 0)
    loss = aten.sum.dim_IntList(loss, [0, -1])
    if reduction:
        loss = _reduced(loss, reduction)
    elif self.dim() < 2:
        loss = loss.squeeze(0)
    return loss, is_right.to(self.dtype).reshape(target.shape)


@register_decomposition(aten.glu_backward.default)
@opmath
def glu_backward(grad_output, self, dim):
    """The gradients of both halves of ``glu``."""
    dim %= self.dim()
    half = self.shape[dim] // 2
    left, right = self.narrow(dim, 0, half), self.narrow(dim, half, half)
    gate = corten.sigmoid(right)
    return aten.cat.default([gate * grad_output, (1.0 - gate) * gate * left * grad_output], dim)


@register_decomposition(aten.mvlgamma.default)
@opmath
def mvlgamma(self, p):
    """The logarithm of the gamma function of matrices."""
    self = self if self.is_floating_point() else self.to(corten.get_default_dtype())
    steps = corten.arange(1 - p, 1, dtype=self.dtype, device=self.device) * 0.5
    made = aten.sum.dim_IntList(corten.lgamma(self.unsqueeze(-1) + steps), [-1])
    return made + math.log(math.pi) * 0.25 * p * (p - 1)


@register_decomposition(aten.special_log_ndtr.default)
@opmath
def log_ndtr(self):
    """The logarithm of the normal distribution function."""
    self = self if self.is_floating_point() else self.to(corten.get_default_dtype())
    scaled = self * math.sqrt(0.5)
    low = corten.log(corten.special.erfcx(-scaled) / 2) - scaled * scaled
    return corten.where(self < 1.0, low, corten.log1p(-corten.erfc(scaled) / 2))


def _number(value, like):
    dtype = like.dtype if like.is_floating_point() or like.is_complex() else corten.get_default_dtype()
    return aten.scalar_tensor.default(value, dtype=dtype, layout=corten.strided, device=like.device)


@register_decomposition([aten.xlogy.Scalar_Other, aten.xlogy.Scalar_Self])
def xlogy_number(self, other):
    """``self * log(other)``, one of them a number."""
    return _with_number(xlogy, self, other)


@register_decomposition([aten.special_xlog1py.other_scalar, aten.special_xlog1py.self_scalar])
def xlog1py_number(self, other):
    """``self * log1p(other)``, one of them a number."""
    return _with_number(xlog1py, self, other)


def _with_number(function, self, other):
    if isinstance(self, corten.Tensor):
        return function(self, _number(other, self))
    return function(_number(self, other), other)


# Norms

@register_decomposition([aten.norm.Scalar, aten.norm.ScalarOpt_dtype])
def norm(self, p=2, *, dtype=None):
    """The norm of all elements."""
    return _norm(self, p, None, False, dtype)


@register_decomposition([aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dim_dtype])
def norm_dims(self, p, dim, keepdim=False, *, dtype=None):
    """The norm along dimensions."""
    return _norm(self, p, dim, keepdim, dtype)


def _norm(self, p, dim, keepdim, dtype):
    if self.layout != corten.strided:
        return NotImplemented
    return linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)
