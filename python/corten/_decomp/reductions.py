"""Reductions, losses and normalisations by simpler operators."""

from __future__ import annotations

import math

import corten
from corten import ops

from ._register import opmath, register_decomposition

aten = ops.aten


@register_decomposition(aten._log_softmax_backward_data.default)
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of ``log_softmax``."""
    grad, value = _wide(grad_output), _wide(output)
    made = grad - corten.exp(value) * aten.sum.dim_IntList(grad, [dim], True)
    return made if made.dtype == input_dtype else made.to(input_dtype)


@register_decomposition(aten._softmax_backward_data.default)
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of ``softmax``."""
    grad, value = _wide(grad_output), _wide(output)
    product = grad * value
    made = product - value * aten.sum.dim_IntList(product, [dim], True)
    return made if made.dtype == input_dtype else made.to(input_dtype)


def _wide(value):
    return value.to(corten.float32) if value.dtype in (corten.float16, corten.bfloat16) else value


@register_decomposition(aten._safe_softmax.default)
def _safe_softmax(self, dim, dtype=None):
    """``softmax``, 0 where all elements are minus infinity."""
    made = corten.softmax(self, dim, dtype=dtype)
    masked = corten.logical_not(aten.any.dim(corten.logical_not(aten.eq.Scalar(self, -math.inf)), dim, True))
    return corten.where(masked, _zeros_like(made), made)


def _zeros_like(value):
    return aten.full_like.default(value, 0, pin_memory=False, memory_format=corten.preserve_format)


@register_decomposition(aten.all.default)
def all_default(self):
    """Whether all elements are true."""
    return _all(self, lambda value: aten.any.dims(value))


@register_decomposition(aten.all.dim)
def all_dim(self, dim, keepdim=False):
    """Whether all elements along a dimension are true."""
    return _all(self, lambda value: aten.any.dim(value, dim, keepdim))


@register_decomposition(aten.all.dims)
def all_dims(self, dim=None, keepdim=False):
    """Whether all elements along some dimensions are true."""
    return _all(self, lambda value: aten.any.dims(value, dim, keepdim))


def _all(self, any_of):
    made = corten.logical_not(any_of(corten.logical_not(self)))
    return made.to(corten.uint8) if self.dtype == corten.uint8 else made


@register_decomposition(aten.aminmax.default)
def aminmax(self, *, dim=None, keepdim=False):
    """The least and the greatest element."""
    dims = [] if dim is None else [dim]
    return aten.amin.default(self, dims, keepdim), aten.amax.default(self, dims, keepdim)


@register_decomposition(aten.count_nonzero.default)
def count_nonzero(self, dim=None):
    """How many elements are not 0."""
    return aten.sum.dim_IntList(self != 0, None if dim is None else [dim])


@register_decomposition(aten.count_nonzero.dim_IntList)
def count_nonzero_dims(self, dim):
    """How many elements along some dimensions are not 0."""
    return aten.sum.dim_IntList(self != 0, dim)


@register_decomposition(aten.sum.default)
def sum_default(self, *, dtype=None):
    """The sum of all elements."""
    return aten.sum.dim_IntList(self, [], dtype=dtype)


@register_decomposition(aten.nansum.default)
def nansum(self, dim=None, keepdim=False, *, dtype=None):
    """The sum without elements that are NaN."""
    dims = [] if dim is None else list(dim)
    return aten.sum.dim_IntList(corten.where(corten.isnan(self), 0, self), dims, keepdim, dtype=dtype)


@register_decomposition(aten.dot.default)
def dot(self, tensor):
    """The sum of products."""
    return aten.sum.dim_IntList(self * tensor, [])


@register_decomposition(aten.vdot.default)
def vdot(self, other):
    """The sum of products, the first factors conjugated."""
    first = self.conj().resolve_conj() if self.is_complex() else self
    return aten.sum.dim_IntList(first * other, [])


@register_decomposition(aten.mv.default)
@opmath
def mv(self, vec):
    """A matrix times a vector."""
    return aten.sum.dim_IntList(self * vec, [1])


@register_decomposition(aten.logsumexp.default)
def logsumexp(self, dim, keepdim=False):
    """``log(sum(exp(self)))``."""
    self = self if self.is_floating_point() or self.is_complex() else self.to(corten.get_default_dtype())
    if self.numel() == 0:
        return corten.log(aten.sum.dim_IntList(corten.exp(self), dim, keepdim))
    most = aten.amax.default(self.real if self.is_complex() else self, dim, True)
    most = corten.where(corten.abs(most) == math.inf, 0.0, most)
    outside = most if keepdim else aten.squeeze.dims(most, dim)
    return corten.log(aten.sum.dim_IntList(corten.exp(self - most), dim, keepdim)) + outside


@register_decomposition(aten.linalg_vector_norm.default)
def linalg_vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    """The norm of vectors."""
    value = self if dtype is None else self.to(dtype)
    dims = dim if dim is None or dim else None
    if ord in (math.inf, -math.inf) and value.numel() == 0:
        return NotImplemented
    value = corten.abs(value) if value.is_complex() else value
    wide = _wide(value)
    if ord == math.inf:
        made = aten.amax.default(corten.abs(wide), dims or [], keepdim)
    elif ord == -math.inf:
        made = aten.amin.default(corten.abs(wide), dims or [], keepdim)
    elif ord == 0:
        made = aten.sum.dim_IntList(corten.ne(wide, 0), dims, keepdim, dtype=wide.dtype)
    else:
        even = ord % 2 == 0
        power = aten.pow.Tensor_Scalar(wide if even else corten.abs(wide), ord)
        made = aten.pow.Tensor_Scalar(aten.sum.dim_IntList(power, dims, keepdim), 1.0 / ord)
    return made if made.dtype == value.dtype else made.to(value.dtype)


@register_decomposition(aten.std.correction)
def std(self, dim=None, *, correction=None, keepdim=False):
    """The standard deviation."""
    return _root(aten.var.correction(self, dim, correction=_one(correction), keepdim=keepdim))


@register_decomposition(aten.std_mean.correction)
def std_mean(self, dim=None, *, correction=None, keepdim=False):
    """The standard deviation and the mean."""
    var, mean = aten.var_mean.correction(self, dim, correction=_one(correction), keepdim=keepdim)
    return _root(var), mean


def _one(correction):
    return 1.0 if correction is None else float(correction)


def _root(var):
    return corten.sqrt(var)


# Losses

def _reduced(loss, reduction):
    if reduction == 1:
        return aten.mean.default(loss)
    return aten.sum.dim_IntList(loss, []) if reduction == 2 else loss


def _share(reduction, value):
    return 1.0 / value.numel() if reduction == 1 else 1.0


@register_decomposition(aten.mse_loss.default)
@opmath
def mse_loss(self, target, reduction=1):
    """Squared differences."""
    return _reduced(aten.pow.Tensor_Scalar(self - target, 2), reduction)


@register_decomposition(aten.mse_loss_backward.default)
@opmath
def mse_loss_backward(grad_output, self, target, reduction):
    """The gradient of ``mse_loss``."""
    return (2.0 / self.numel() if reduction == 1 else 2.0) * (self - target) * grad_output


@register_decomposition(aten.huber_loss.default)
@opmath
def huber_loss(self, target, reduction=1, delta=1.0):
    """Squared differences where they are small, linear ones elsewhere."""
    size = (self - target).abs()
    return _reduced(corten.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta)), reduction)


@register_decomposition(aten.huber_loss_backward.default)
@opmath
def huber_loss_backward(grad_output, self, target, reduction, delta):
    """The gradient of ``huber_loss``."""
    share, x = _share(reduction, self), self - target
    is_below, below = x < -delta, -share * grad_output * delta
    above = corten.where(x > delta, grad_output * share * delta, share * x * grad_output)
    return corten.where(is_below, below, above)


@register_decomposition(aten.smooth_l1_loss.default)
@opmath
def smooth_l1_loss(self, target, reduction=1, beta=1.0):
    """As ``huber_loss``, divided by ``beta``."""
    size = (self - target).abs()
    if beta == 0:
        return _reduced(size, reduction)
    return _reduced(corten.where(size < beta, 0.5 * size**2 / beta, size - 0.5 * beta), reduction)


@register_decomposition(aten.smooth_l1_loss_backward.default)
@opmath
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    """The gradient of ``smooth_l1_loss``."""
    x = self - target
    grad = _share(reduction, self) * grad_output
    linear = grad * corten.sign(x)
    if beta == 0:
        return linear
    return corten.where(corten.abs(x) < beta, grad * x / beta, linear)


@register_decomposition(aten.soft_margin_loss.default)
@opmath
def soft_margin_loss(self, target, reduction=1):
    """``log(1 + exp(-target * self))``."""
    return _reduced(corten.log1p(corten.exp(-self * target)), reduction)


@register_decomposition(aten.soft_margin_loss_backward.default)
@opmath
def soft_margin_loss_backward(grad_output, self, target, reduction):
    """The gradient of ``soft_margin_loss``."""
    return target * grad_output * (corten.sigmoid(target * self) - 1) * _share(reduction, self)


def _low_bound(value, bound):
    return aten.full.default(
        [], bound, dtype=value.dtype, layout=corten.strided, device=value.device, pin_memory=False
    )


@register_decomposition(aten.binary_cross_entropy.default)
@opmath
def binary_cross_entropy(self, target, weight=None, reduction=1):
    """The cross entropy of probabilities."""
    loss = (target - 1) * corten.maximum(corten.log1p(-self), _low_bound(self, -100))
    loss = loss - target * corten.maximum(corten.log(self), _low_bound(self, -100))
    return _reduced(loss if weight is None else loss * weight, reduction)


@register_decomposition(aten.binary_cross_entropy_backward.default)
@opmath
def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=1):
    """The gradient of ``binary_cross_entropy``."""
    made = grad_output * (self - target) / aten.clamp.default(self * (1 - self), 1e-12)
    if weight is not None:
        made = made * weight
    return made / self.numel() if reduction == 1 else made


@register_decomposition(aten.binary_cross_entropy_with_logits.default)
@opmath
def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=1):
    """The cross entropy of logits."""
    scale = None if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * self
    logs = corten.minimum(_low_bound(self, 0), self) - corten.log1p(corten.exp(-corten.abs(self)))
    loss = loss - (logs if scale is None else scale * logs)
    return _reduced(loss if weight is None else loss * weight, reduction)


@register_decomposition(aten.nll_loss_forward.default)
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    """The negative log likelihood, and the weight of all items."""
    return _nll_loss(self, target, weight, reduction, ignore_index)


@register_decomposition(aten.nll_loss2d_forward.default)
def nll_loss2d_forward(self, target, weight, reduction, ignore_index):
    """As ``nll_loss_forward``, of images."""
    return _nll_loss(self, target, weight, reduction, ignore_index)


def _class_weights(self, weight, channel):
    if self.dim() <= 1:
        return weight
    shape = [1] * self.dim()
    shape[channel] = weight.shape[0]
    return weight.view(shape)


def _nll_loss(self, target, weight, reduction, ignore_index):
    channel = 0 if self.dim() < 2 else 1
    if weight is not None:
        weights = _class_weights(self, weight, channel)
        self = self * weights
    safe = corten.where(target != ignore_index, target, 0).unsqueeze(channel)
    loss = -corten.gather(self, channel, safe).squeeze(channel)
    loss = corten.where(target != ignore_index, loss, 0)
    if reduction == 0 and self.dim() > 1:
        return loss, self.new_full((), 0.0)
    if weight is not None:
        weights = weights.expand(self.shape)
        picked = corten.gather(weights, channel, safe).squeeze(channel)
        total = corten.where(target != ignore_index, picked, 0).sum()
    else:
        total = (target != ignore_index).sum().to(device=self.device, dtype=self.dtype)
    if reduction == 2:
        return loss.sum(), total
    return (loss.sum() / total if reduction == 1 else loss), total


@register_decomposition(aten.nll_loss_backward.default)
def nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    """The gradient of ``nll_loss_forward``."""
    return _nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)


@register_decomposition(aten.nll_loss2d_backward.default)
def nll_loss2d_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    """The gradient of ``nll_loss2d_forward``."""
    return _nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)


def _nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    channel = 0 if self.dim() < 2 else 1
    if reduction == 1:
        grad_output = grad_output / total_weight
    target = target.unsqueeze(channel)
    safe = corten.where(target != ignore_index, target, 0)
    made = corten.scatter(_zeros_like(self), channel, safe, -1.0)
    if made.dim() > grad_output.dim() > 0:
        grad_output = grad_output.unsqueeze(channel)
    if weight is not None:
        grad_output = grad_output * _class_weights(self, weight, channel)
    grad_output = corten.where(target != ignore_index, grad_output, 0)
    return made * grad_output


# Normalisation

def _like_input(value, channels_of):
    """Statistics of channels, with dimensions of size 1 beside that of the channels."""
    made = value.unsqueeze(0)
    for dim in range(2, channels_of):
        made = made.unsqueeze(dim)
    return made


@register_decomposition(aten.native_batch_norm_backward.default)
def native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train,
                               eps, output_mask):
    """The gradients of batch normalisation."""
    dtype, stored = input.dtype, None if weight is None else weight.dtype
    grad, x = _wide(grad_out), _wide(input)
    mean, invstd = save_mean, save_invstd
    if not train:
        mean, invstd = _wide(running_mean), corten.rsqrt(_wide(running_var) + eps)
    axes = [dim for dim in range(x.dim()) if dim != 1]
    share, rank = 1.0 / (x.numel() / x.shape[1]), x.dim()
    centre = _like_input(mean, rank)
    total = aten.sum.dim_IntList(grad, axes)
    product = aten.sum.dim_IntList(grad * (x - centre), axes)
    if train:
        average = _like_input(total * share, rank)
        slope = _like_input(product * share * (invstd * invstd), rank)
        scale = invstd if weight is None else invstd * _wide(weight)
        scale = _like_input(scale, rank)
        grad_input = (grad - (x - centre) * slope - average) * scale
    else:
        scale = invstd if weight is None else invstd * _wide(weight)
        grad_input = grad * _like_input(scale, rank)
    return (
        grad_input.to(dtype) if output_mask[0] else None,
        _as(product * invstd, stored) if output_mask[1] and weight is not None else None,
        _as(total, stored) if output_mask[2] and weight is not None else None,
    )


def _as(value, dtype):
    return value if dtype in (None, value.dtype) else value.to(dtype)


@register_decomposition(aten.native_layer_norm_backward.default)
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    """The gradients of layer normalisation."""
    grad, x = _wide(grad_out), _wide(input)
    axis = input.dim() - len(normalized_shape)
    inner, outer = list(range(axis, input.dim())), list(range(axis))
    count = math.prod(input.shape[axis:])
    if input.numel() == 0:
        return NotImplemented
    mean, rstd = _to_rank(mean, input.dim()), _to_rank(rstd, input.dim())
    hat = (x - mean) * rstd
    scaled = grad if weight is None else grad * _wide(weight)
    first = scaled * count
    second = aten.sum.dim_IntList(scaled, inner, True)
    third = hat * aten.sum.dim_IntList(scaled * hat, inner, True)
    made = [None, None, None]
    if output_mask[0]:
        made[0] = _as((rstd / count) * (first - second - third), input.dtype)
    if output_mask[1] and weight is not None:
        product = grad * hat
        made[1] = _as(aten.sum.dim_IntList(product, outer) if outer else product, weight.dtype)
    if output_mask[2] and bias is not None:
        made[2] = _as(aten.sum.dim_IntList(grad, outer) if outer else aten.clone.default(grad), bias.dtype)
    return tuple(made)


def _to_rank(value, rank):
    while value.dim() < rank:
        value = value.unsqueeze(-1)
    return _wide(value)


@register_decomposition(aten.native_dropout_backward.default)
def native_dropout_backward(grad_output, mask, scale):
    """The gradient of dropout."""
    made = grad_output * (mask.type_as(grad_output) * scale)
    return aten.clone.default(made, memory_format=corten.contiguous_format)
