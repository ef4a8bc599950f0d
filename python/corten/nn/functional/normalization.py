"""Normalisation over batches, layers, groups and neighbours."""

from __future__ import annotations

import math

from corten._overriding import dispatch, overridden
from ._ops import available, needs, ops


def _verify_batch_size(size):
    """Statistics over a single value say nothing."""
    values = size[0] * math.prod(size[2:])
    if values == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _verify_spatial_size(size):
    if math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {size}"
        )


@needs("batch_norm")
def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
    eps=1e-5,
):
    """Normalises each channel over the batch (``training``) or by the running statistics."""
    relevant = input, running_mean, running_var, weight, bias
    if overridden(*relevant):
        return dispatch(batch_norm, relevant, locals())
    if training:
        _verify_batch_size(input.size())
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    return ops.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


@needs("instance_norm")
def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
    momentum=0.1, eps=1e-5,
):
    """Normalises each channel of each sample by itself."""
    relevant = input, running_mean, running_var, weight, bias
    if overridden(*relevant):
        return dispatch(instance_norm, relevant, locals())
    if use_input_stats:
        _verify_spatial_size(input.size())
    return ops.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


@needs("layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalises over the last dimensions, of shape ``normalized_shape``."""
    if overridden(input, weight, bias):
        return dispatch(layer_norm, (input, weight, bias), locals())
    return ops.layer_norm(input, normalized_shape, weight, bias, eps, True)


@needs("rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divides by the root of the mean square over the last dimensions."""
    if overridden(input, weight):
        return dispatch(rms_norm, (input, weight), locals())
    return ops.rms_norm(input, normalized_shape, weight, eps)


@needs("group_norm")
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises each of ``num_groups`` groups of channels of each sample."""
    if overridden(input, weight, bias):
        return dispatch(group_norm, (input, weight, bias), locals())
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    size = input.size()
    _verify_batch_size([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return ops.group_norm(input, num_groups, weight, bias, eps, True)


@needs("avg_pool2d", "avg_pool3d", "pad")
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divides each channel by a power of the mean square over ``size`` neighbouring channels."""
    if overridden(input):
        return dispatch(local_response_norm, (input,), locals())
    rank = input.dim()
    if rank < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {rank} dimensions)")
    if input.numel() == 0:
        return input
    shape = input.size()
    squares = input.mul(input).unsqueeze(1)
    before, after = size // 2, (size - 1) // 2
    if rank == 3:
        padded = ops.pad(squares, [0, 0, before, after])
        mean = ops.avg_pool2d(padded, [size, 1], stride=1).squeeze(1)
    else:
        flat = squares.view(shape[0], 1, shape[1], shape[2], -1)
        padded = ops.pad(flat, [0, 0, 0, 0, before, after])
        mean = ops.avg_pool3d(padded, [size, 1, 1], stride=1).squeeze(1).view(shape)
    return input / mean.mul(alpha).add(k).pow(beta)


__all__ = available(globals())
