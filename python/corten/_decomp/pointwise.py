"""Pointwise operators by simpler ones."""

from __future__ import annotations

import math

import corten
from corten import ops

from ._register import opmath, register_decomposition

aten = ops.aten


@register_decomposition(aten.addcdiv.default)
@opmath
def addcdiv(self, tensor1, tensor2, *, value=1):
    """``self + value * tensor1 / tensor2``."""
    return aten.add.Tensor(self, aten.div.Tensor(aten.mul.Tensor(tensor1, value), tensor2))


@register_decomposition(aten.addcmul.default)
@opmath
def addcmul(self, tensor1, tensor2, *, value=1):
    """``self + value * tensor1 * tensor2``."""
    return aten.add.Tensor(self, aten.mul.Tensor(aten.mul.Tensor(tensor1, value), tensor2))


@register_decomposition(aten._prelu_kernel.default)
def _prelu_kernel(self, weight):
    """``self`` where it is positive, its product with a weight elsewhere."""
    return corten.where(self > 0, self, weight * self)


@register_decomposition(aten._prelu_kernel_backward.default)
def _prelu_kernel_backward(grad_output, self, weight):
    """The gradients of ``_prelu_kernel``."""
    return (
        corten.where(self > 0, grad_output, weight * grad_output),
        corten.where(self > 0, 0.0, self * grad_output),
    )


@register_decomposition(aten.celu.default)
@opmath
def celu(self, alpha=1.0):
    """Continuously differentiable exponential linear unit."""
    low = corten.expm1(self) if alpha == 1 else corten.expm1(self / alpha) * alpha
    return corten.where(self > 0, self, low)


@register_decomposition([aten.clamp_max.default])
def clamp_max(self, max):
    """``clamp`` with an upper bound."""
    return aten.clamp.default(self, None, max)


@register_decomposition([aten.clamp_min.default])
def clamp_min(self, min):
    """``clamp`` with a lower bound."""
    return aten.clamp.default(self, min)


@register_decomposition([aten.clamp_max.Tensor])
def clamp_max_tensor(self, max):
    """``clamp`` with an upper bound."""
    if self.dtype == max.dtype == corten.bool:
        return aten.minimum.default(self, max)
    return aten.clamp.Tensor(self, None, max)


@register_decomposition([aten.clamp_min.Tensor])
def clamp_min_tensor(self, min):
    """``clamp`` with a lower bound."""
    if self.dtype == min.dtype == corten.bool:
        return aten.maximum.default(self, min)
    return aten.clamp.Tensor(self, min)


def _floating(self):
    return self if self.is_floating_point() or self.is_complex() else self.to(corten.get_default_dtype())


@register_decomposition(aten.deg2rad.default)
def deg2rad(self):
    """Degrees as radians."""
    return _floating(self) * (math.pi / 180)


@register_decomposition(aten.rad2deg.default)
def rad2deg(self):
    """Radians as degrees."""
    return _floating(self) * (180 / math.pi)


@register_decomposition(aten.elu_backward.default)
@opmath
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    """The gradient of ``elu``."""
    neg, pos = alpha * scale, scale
    low = self_or_result <= 0
    if is_result:
        inner = grad_output * input_scale * (self_or_result + neg)
    else:
        inner = grad_output * input_scale * neg * corten.exp(self_or_result * input_scale)
    return corten.where(low, inner, grad_output * pos)


@register_decomposition([aten.floor_divide.default, aten.floor_divide.Scalar])
def floor_divide(self, other):
    """The quotient, rounded down."""
    return aten.div.Tensor_mode(self, other, rounding_mode="floor")


@register_decomposition(aten.frac.default)
def frac(self):
    """What is behind the point."""
    return self - corten.trunc(self)


@register_decomposition(aten.gelu_backward.default)
@opmath
def gelu_backward(grad_output, self, *, approximate="none"):
    """The gradient of ``gelu``."""
    if approximate == "tanh":
        square = self * self
        inner = math.sqrt(2) * (2 / math.sqrt(math.pi)) * 0.5 * (self + square * self * 0.044715)
        tanh = corten.tanh(inner)
        left = 0.5 * self
        first = 0.5 * (1 + tanh)
        slope = 1 - tanh * tanh
        inner_slope = (math.sqrt(2) * (2 / math.sqrt(math.pi)) * 0.5) * (1 + 3 * 0.044715 * square)
        return grad_output * (first + left * slope * inner_slope)
    cdf = 0.5 * (1 + corten.erf(self * math.sqrt(0.5)))
    pdf = corten.exp(self * self * -0.5) * (math.sqrt(0.5) * (2 / math.sqrt(math.pi)) * 0.5)
    return grad_output * (cdf + self * pdf)


@register_decomposition(aten.hardshrink.default)
def hardshrink(self, lambd=0.5):
    """0 where the magnitude is small."""
    return corten.where(corten.abs(self) <= lambd, 0, self)


@register_decomposition(aten.hardsigmoid.default)
@opmath
def hardsigmoid(self):
    """A piecewise linear sigmoid."""
    return aten.clamp.default(aten.clamp.default(self + 3, 0), None, 6) / 6


@register_decomposition(aten.hardsigmoid_backward.default)
@opmath
def hardsigmoid_backward(grad_output, self):
    """The gradient of ``hardsigmoid``."""
    return corten.where((self > -3.0) & (self < 3.0), grad_output * (1.0 / 6.0), 0.0)


@register_decomposition(aten.hardswish.default)
@opmath
def hardswish(self):
    """``self * hardsigmoid(self)``."""
    return self * aten.clamp.default(aten.clamp.default(self + 3, 0), None, 6) / 6


@register_decomposition(aten.hardswish_backward.default)
@opmath
def hardswish_backward(grad_output, self):
    """The gradient of ``hardswish``."""
    low = self <= -3
    inside = corten.where(self < 3, grad_output * ((self / 3) + 0.5), grad_output)
    return corten.where(low, 0.0, inside)


@register_decomposition(aten.hardtanh_backward.default)
@opmath
def hardtanh_backward(grad_output, self, min_val, max_val):
    """The gradient of ``hardtanh``."""
    return corten.where((self <= min_val) | (self >= max_val), 0.0, grad_output)


@register_decomposition(aten.heaviside.default)
def heaviside(self, values):
    """0, 1, or ``values`` where ``self`` is 0."""
    at_zero = self == 0
    low = corten.logical_or(self < 0, corten.isnan(self))
    step = corten.where(low, 0, 1)
    return corten.where(at_zero, values, step if step.dtype == values.dtype else step.to(values.dtype))


@register_decomposition(aten.isfinite.default)
def isfinite(self):
    """Whether elements are neither infinite nor NaN."""
    if self.is_complex():
        return isfinite(self.real) & isfinite(self.imag)
    if not self.is_floating_point():
        return aten.full_like.default(
            self, True, dtype=corten.bool, pin_memory=False, memory_format=corten.preserve_format
        )
    finite = corten.abs(self) != math.inf
    return (self == self) * finite


@register_decomposition(aten.isneginf.default)
def isneginf(self):
    """Whether elements are minus infinity."""
    return aten.eq.Scalar(self, -math.inf)


@register_decomposition(aten.isposinf.default)
def isposinf(self):
    """Whether elements are infinity."""
    return aten.eq.Scalar(self, math.inf)


@register_decomposition(aten.leaky_relu_backward.default)
@opmath
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    """The gradient of ``leaky_relu``."""
    return corten.where(self > 0, grad_output, grad_output * negative_slope)


@register_decomposition([aten.lerp.Scalar, aten.lerp.Tensor])
def lerp(self, end, weight):
    """``self + weight * (end - self)``, from the nearer end."""
    if not isinstance(weight, corten.Tensor):
        weight = aten.full.default(
            [], weight, dtype=self.dtype, layout=corten.strided, device=self.device, pin_memory=False
        )
    far = corten.abs(weight) >= 0.5
    scale = corten.where(far, weight - 1, weight)
    base = corten.where(far, end, self)
    return scale * (end - self) + base


@register_decomposition(aten.log_sigmoid_backward.default)
@opmath
def log_sigmoid_backward(grad_output, self, buffer):
    """The gradient of ``logsigmoid``."""
    negative = self < 0
    slope = corten.where(negative, 1, 0)
    sign = corten.where(negative, 1, -1)
    small = corten.exp(-corten.abs(self))
    return grad_output * (slope - sign * (small / (1 + small)))


@register_decomposition(aten.log_sigmoid_forward.default)
@opmath
def log_sigmoid_forward(self):
    """``log(sigmoid(self))``, and an empty buffer."""
    least = corten.minimum(_zero(self), self)
    small = corten.exp(-corten.abs(self))
    return least - corten.log1p(small), aten.new_empty.default(self, [0])


def _zero(self):
    return aten.full.default(
        [], 0, dtype=self.dtype, layout=corten.strided, device=self.device, pin_memory=False
    )


@register_decomposition(aten.logaddexp.default)
def logaddexp(self, other):
    """``log(exp(self) + exp(other))``."""
    if self.is_complex():
        return _logaddexp_complex(self, other)
    more = self >= other
    high, low = corten.where(more, self, other), corten.where(more, other, self)
    same = corten.logical_and(corten.logical_not(corten.isfinite(self)), self == other)
    return corten.where(same, self, high + corten.log1p(corten.exp(low - high)))


def _logaddexp_complex(self, other):
    """The sum from the number with the greater real part; NaN in both parts where one is NaN."""
    more = self.real >= other.real
    high, low = corten.where(more, self, other), corten.where(more, other, self)
    same = corten.logical_and(corten.logical_not(corten.isfinite(self.real)), self.real == other.real)
    at_ends = corten.where(low.real < 0, low, corten.log(corten.exp(low) + corten.exp(high)))
    made = corten.where(same, at_ends, high + corten.log1p(corten.exp(low - high)))
    nan = aten.scalar_tensor.default(
        complex(math.nan, math.nan), dtype=self.dtype, layout=corten.strided, device=self.device
    )
    return corten.where(corten.isnan(low), nan, made)


@register_decomposition(aten.logaddexp2.default)
def logaddexp2(self, other):
    """``log2(2**self + 2**other)``."""
    more = self >= other
    high, low = corten.where(more, self, other), corten.where(more, other, self)
    same = corten.logical_and(corten.isinf(self), self == other)
    return corten.where(same, self, high + corten.log1p(corten.exp2(low - high)) * (1 / math.log(2)))


@register_decomposition(aten.logit.default)
@opmath
def logit(self, eps=None):
    """``log(self / (1 - self))``."""
    self = _floating(self)
    if eps is not None:
        self = corten.where(self < eps, eps, corten.where(self > 1 - eps, 1 - eps, self))
    return corten.log(self / (1 - self))


@register_decomposition([aten.masked_fill.Scalar, aten.masked_fill.Tensor])
def masked_fill(self, mask, value):
    """``value`` where the mask is true."""
    if isinstance(value, corten.Tensor):
        return corten.where(mask, value.to(self.dtype), self)
    kind = float if self.is_floating_point() else complex if self.is_complex() else int
    return corten.where(mask, kind(value) if self.dtype != corten.bool else bool(value), self)


@register_decomposition(aten.mish.default)
@opmath
def mish(self):
    """``self * tanh(softplus(self))``."""
    return self * corten.tanh(softplus(self))


@register_decomposition(aten.mish_backward.default)
@opmath
def mish_backward(grad_output, self):
    """The gradient of ``mish``."""
    tanh = corten.tanh(softplus(self))
    return grad_output * (tanh + self * corten.sigmoid(self) * (1 - tanh * tanh))


@register_decomposition(aten.nan_to_num.default)
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """Numbers in place of NaN and of infinities."""
    if not (self.is_floating_point() or self.is_complex()):
        return aten.clone.default(self)
    if self.is_complex():
        return corten.complex(nan_to_num(self.real, nan, posinf, neginf), nan_to_num(self.imag, nan, posinf, neginf))
    limits = corten.finfo(self.dtype)
    made = corten.where(corten.isnan(self), 0.0 if nan is None else nan, self)
    made = corten.where(aten.eq.Scalar(self, -math.inf), limits.min if neginf is None else neginf, made)
    return corten.where(aten.eq.Scalar(self, math.inf), limits.max if posinf is None else posinf, made)


@register_decomposition(aten.rsub.Tensor)
def rsub_tensor(self, other, *, alpha=1):
    """``other - alpha * self``."""
    return aten.sub.Tensor(other, self, alpha=alpha)


@register_decomposition(aten.rsub.Scalar)
def rsub(self, other, alpha=1):
    """``other - alpha * self``."""
    return aten.sub.Tensor(other, self if alpha == 1 else self * alpha)


@register_decomposition(aten.sgn.default)
def sgn(self):
    """The sign."""
    if self.is_complex():
        size = corten.abs(self)
        return corten.where(size == 0, 0, self / size)
    return corten.sign(self)


@register_decomposition(aten.sigmoid_backward.default)
@opmath
def sigmoid_backward(grad_output, output):
    """The gradient of ``sigmoid``."""
    return grad_output * _conj(output * (1 - output))


@register_decomposition(aten.tanh_backward.default)
@opmath
def tanh_backward(grad_output, output):
    """The gradient of ``tanh``."""
    return grad_output * _conj(1 - output * output)


def _conj(value):
    return value.conj().resolve_conj() if value.is_complex() else value


@register_decomposition(aten.silu.default)
@opmath
def silu(self):
    """``self * sigmoid(self)``."""
    return self * corten.sigmoid(self)


@register_decomposition(aten.silu_backward.default)
@opmath
def silu_backward(grad_output, self):
    """The gradient of ``silu``."""
    sigmoid = corten.sigmoid(self)
    return grad_output * sigmoid * (1 + self * (1 - sigmoid))


@register_decomposition(aten.sinc.default)
def sinc(self):
    """``sin(pi * self) / (pi * self)``."""
    angle = _floating(self) * math.pi
    return corten.where(angle == 0, 1, corten.sin(angle) / angle)


@register_decomposition(aten.softplus.default)
@opmath
def softplus(self, beta=1, threshold=20):
    """A smooth ``relu``."""
    scaled = self if beta == 1 else self * beta
    made = corten.log1p(corten.exp(scaled))
    return corten.where(scaled > threshold, self, made if beta == 1 else made / beta)


@register_decomposition(aten.softplus_backward.default)
@opmath
def softplus_backward(grad_output, self, beta, threshold):
    """The gradient of ``softplus``."""
    power = (self * beta).exp()
    return corten.where((self * beta) > threshold, grad_output, grad_output * power / (power + 1.0))


@register_decomposition(aten.softshrink.default)
@opmath
def softshrink(self, lambd=0.5):
    """Nearer to 0 by ``lambd``."""
    return corten.where(corten.abs(self) > lambd, self - corten.sign(self) * lambd, self * 0)


@register_decomposition(aten.special_entr.default)
def entr(self):
    """``-self * log(self)``."""
    self = _floating(self)
    edge = corten.where(self == 0, corten.zeros_like(self), -math.inf)
    return corten.where(corten.isnan(self), self, corten.where(self > 0, -self * corten.log(self), edge))


@register_decomposition([aten.special_xlog1py.default])
def xlog1py(self, other):
    """``self * log1p(other)``, 0 where ``self`` is."""
    made = corten.where(self == 0, 0, self * corten.log1p(other))
    return corten.where(corten.isnan(other), math.nan, made)


@register_decomposition([aten.xlogy.Tensor])
def xlogy(self, other):
    """``self * log(other)``, 0 where ``self`` is."""
    made = corten.where(self == 0, 0, self * corten.log(other))
    return corten.where(corten.isnan(other), math.nan, made)


@register_decomposition(aten.threshold.default)
def threshold(self, threshold, value):
    """``value`` where ``self`` is not above the threshold."""
    return corten.where(self <= threshold, value, self)


@register_decomposition(aten.threshold_backward.default)
def threshold_backward(grad_output, self, threshold):
    """The gradient of ``threshold``."""
    return corten.where(self <= threshold, 0, grad_output)


@register_decomposition(aten.fill.Scalar)
def fill_scalar(self, value):
    """One number everywhere."""
    return corten.full_like(self, value)


@register_decomposition(aten.special_ndtr.default)
def ndtr(self):
    """The normal distribution function."""
    return (1 + corten.erf(_floating(self) * math.sqrt(0.5))) * 0.5
