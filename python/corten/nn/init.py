"""Filling parameters with first values."""

from __future__ import annotations

import math
import warnings

import corten

__all__ = [
    "calculate_gain", "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_",
    "eye_", "dirac_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_",
    "orthogonal_", "sparse_", "uniform", "normal", "constant", "eye", "dirac", "xavier_uniform",
    "xavier_normal", "kaiming_uniform", "kaiming_normal", "orthogonal", "sparse",
]

_UNIT_GAIN = frozenset((
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "sigmoid",
))


def calculate_gain(nonlinearity, param=None):
    """How much a nonlinearity shrinks the standard deviation, to be made up by the weights."""
    if nonlinearity in _UNIT_GAIN:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fills with ``U(a, b)``."""
    with corten.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fills with the normal distribution."""
    with corten.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _normal_cdf(x):
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Fills with the normal distribution cut off outside ``[a, b]``."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    with corten.no_grad():
        inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
        draw = _normal_between if inside > 0.3 else _normal_far_out
        result = draw(tensor, mean, std, a, b, generator)
        return tensor if result is tensor else tensor.copy_(result)


def _normal_between(tensor, mean, std, a, b, generator):
    """Draws until all elements are between the ends, which are rounded as the elements are."""
    low, high = (tensor.new_tensor(end, device="cpu").item() for end in (a, b))
    result = tensor.normal_(mean, std, generator=generator)
    while (outside := (result < low) | (result > high)).any():
        again = corten.empty_like(result).normal_(mean, std, generator=generator)
        result = corten.where(outside, again, result)
    return result


def _normal_far_out(tensor, mean, std, a, b, generator):
    """Draws evenly between the ends, and keeps a draw as often as its density is of the greatest:
    few draws of the distribution itself would fall between them."""
    greatest = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def refused(candidates):
        density = candidates.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(greatest)
        return corten.empty_like(tensor).uniform_(generator=generator).log_() > density

    result = tensor.uniform_(a, b, generator=generator)
    pending = refused(result)
    while pending.any():
        candidates = corten.empty_like(tensor).uniform_(a, b, generator=generator)
        result = corten.where(pending, candidates, result)
        pending = pending & refused(candidates)
    return result


def constant_(tensor, val):
    """Fills with one value."""
    with corten.no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Fills with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """Fills with zeros."""
    with corten.no_grad():
        return tensor.zero_()


def eye_(tensor):
    """Fills a matrix with the identity."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with corten.no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor, groups=1):
    """Fills a convolution's weight so that it passes as many channels through as it can."""
    rank = tensor.ndimension()
    if rank not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = sizes[0] // groups
    centre = tuple(size // 2 for size in sizes[2:])
    with corten.no_grad():
        tensor.zero_()
        for group in range(groups):
            for d in range(min(per_group, sizes[1])):
                tensor[(group * per_group + d, d, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    receptive = math.prod(tensor.shape[2:])
    return tensor.size(1) * receptive, tensor.size(0) * receptive


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Fills uniformly so that variances pass unchanged forwards and backwards (Glorot)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Fills normally so that variances pass unchanged forwards and backwards (Glorot)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    """The standard deviation, or None for a tensor without elements."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fills uniformly so that variances pass a rectifier unchanged (He)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fills normally so that variances pass a rectifier unchanged (He)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


def orthogonal_(tensor, gain=1, generator=None):
    """Fills with a (semi-)orthogonal matrix; further dimensions are flattened."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
    if rows < cols:
        flat.t_()
    q, r = corten.linalg.qr(flat)
    q *= r.diagonal().sign()  # makes the distribution uniform
    if rows < cols:
        q.t_()
    with corten.no_grad():
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Fills a matrix normally, then zeroes the fraction ``sparsity`` of each column."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with corten.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(cols):
            tensor[corten.randperm(rows)[:zeros], column] = 0
    return tensor


def _deprecated(function):
    """The name without underscore, which warns."""
    old = function.__name__[:-1]

    def renamed(*args, **kwargs):
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{old}_`.", FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = old
    renamed.__doc__ = f"Older name of :func:`{old}_`."
    return renamed


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)


def _no_grad_uniform_(tensor, a, b, generator=None):
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor, mean, std, generator=None):
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor, val):
    return constant_(tensor, val)


_no_grad_zero_ = zeros_
