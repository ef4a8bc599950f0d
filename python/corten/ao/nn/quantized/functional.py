"""Functions of quantized tensors."""

from __future__ import annotations

import warnings

import corten
from corten.nn import functional as F
from corten.nn.modules.utils import _ntuple

from .modules.utils import _pair_from_first

__all__ = [
    "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "conv1d", "conv2d", "conv3d",
    "interpolate", "linear", "max_pool1d", "max_pool2d", "celu", "leaky_relu", "hardtanh", "hardswish",
    "threshold", "elu", "hardsigmoid", "clamp", "upsample", "upsample_bilinear", "upsample_nearest",
]


def _check(input, name):
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")


def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """Means over windows of images, at the scale and zero point of the input."""
    _check(input, "avg_pool2d")
    return F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """Means over windows of volumes, at the scale and zero point of the input."""
    _check(input, "avg_pool3d")
    return F.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool2d(input, output_size):
    """Means over as many windows of images as the output has elements."""
    _check(input, "functional.adaptive_avg_pool2d")
    return F.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(input, output_size):
    """Means over as many windows of volumes as the output has elements."""
    _check(input, "functional.adaptive_avg_pool3d")
    return F.adaptive_avg_pool3d(input, output_size)


def _conv(rank, shape, input, weight, bias, sizes, groups, padding_mode, scale, zero_point):
    if padding_mode != "zeros":
        raise NotImplementedError("Only zero-padding is supported!")
    if input.dtype != corten.quint8:
        raise NotImplementedError("Only torch.quint8 is supported for activation tensor!")
    if weight.dtype != corten.qint8:
        raise NotImplementedError("Only torch.qint8 is supported for weight tensor!")
    if input.ndim != rank + 2:
        raise ValueError(f"Input shape must be `{shape}`!")
    spread = _pair_from_first if rank == 1 else _ntuple(rank)
    ops = corten.ops.quantized
    packed = getattr(ops, f"conv{rank}d_prepack")(weight, bias, *map(spread, sizes), groups)
    return getattr(ops, f"conv{rank}d")(input, packed, scale, zero_point)


def conv1d(
    input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0, zero_point=0,
    dtype=corten.quint8,
):
    """A convolution of signals, with a weight of signed 8 bits and a float bias."""
    sizes = (stride, padding, dilation)
    return _conv(1, "(N, C, L)", input, weight, bias, sizes, groups, padding_mode, scale, zero_point)


def conv2d(
    input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0, zero_point=0,
    dtype=corten.quint8,
):
    """A convolution of images, with a weight of signed 8 bits and a float bias."""
    sizes = (stride, padding, dilation)
    return _conv(2, "(N, C, H, W)", input, weight, bias, sizes, groups, padding_mode, scale, zero_point)


def conv3d(
    input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0, zero_point=0,
    dtype=corten.quint8,
):
    """A convolution of volumes, with a weight of signed 8 bits and a float bias."""
    sizes = (stride, padding, dilation)
    return _conv(3, "(N, C, D, H, W)", input, weight, bias, sizes, groups, padding_mode, scale, zero_point)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """An image of another size, at the scale and zero point of the input."""
    _check(input, "interpolate")
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def linear(input, weight, bias=None, scale=None, zero_point=None):
    """A linear map; the result has the scale and zero point of the input where none are given."""
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    packed = corten.ops.quantized.linear_prepack(weight, bias)
    return corten.ops.quantized.linear(input, packed, scale, zero_point)


def _max_pool(pool, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=False)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Greatest elements of windows of signals."""
    return _max_pool(F.max_pool1d, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Greatest elements of windows of images."""
    return _max_pool(F.max_pool2d, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def celu(input, scale, zero_point, alpha=1.0):
    """The continuously differentiable exponential linear unit."""
    _check(input, "celu")
    return corten.ops.quantized.celu(input, scale, zero_point, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False, scale=None, zero_point=None):
    """A rectifier with a slope below zero, at the scale and zero point of the input where none are given."""
    if scale is not None and zero_point is not None:
        if inplace:
            raise AssertionError("Cannot rescale with `inplace`")
        output = corten._empty_affine_quantized(
            input.shape, scale=scale, zero_point=int(zero_point), dtype=input.dtype
        )
        corten._C._nn.leaky_relu(input, negative_slope, out=output)
        return output
    if inplace:
        return corten._C._nn.leaky_relu_(input, negative_slope)
    return corten._C._nn.leaky_relu(input, negative_slope)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Clips to a range."""
    _check(input, "hardtanh")
    return (corten._C._nn.hardtanh_ if inplace else corten._C._nn.hardtanh)(input, min_val, max_val)


def hardswish(input, scale, zero_point):
    """x * relu6(x + 3) / 6."""
    _check(input, "hardswish")
    return corten.ops.quantized.hardswish(input, scale, zero_point)


def threshold(input, threshold, value):
    """The input where it is greater than the threshold, and the value elsewhere."""
    _check(input, "threshold")
    for name, given in (("threshold", threshold), ("value", value)):
        if given is None:
            raise ValueError(f"Input to '{name}' must be specified!")
    return corten.ops.quantized.threshold(input, threshold, value)


def elu(input, scale, zero_point, alpha=1.0):
    """The exponential linear unit."""
    _check(input, "elu")
    return corten.ops.quantized.elu(input, scale, zero_point, alpha)


def hardsigmoid(input, inplace=False):
    """relu6(x + 3) / 6, at a scale of 1/256."""
    _check(input, "hardsigmoid")
    return (corten._C._nn.hardsigmoid_ if inplace else corten._C._nn.hardsigmoid)(input)


def clamp(input, min_, max_):
    """Clips to a range."""
    _check(input, "clamp")
    return corten.clamp(input, min_, max_)


def _deprecated(name):
    warnings.warn(
        f"nn.quantized.functional.{name} is deprecated. Use nn.quantized.functional.interpolate instead.",
        stacklevel=3,
    )


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """:func:`interpolate` under its deprecated name."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input, size=None, scale_factor=None):
    """Bilinear interpolation with aligned corners, under its deprecated name."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input, size=None, scale_factor=None):
    """Nearest neighbours, under their deprecated name."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")
