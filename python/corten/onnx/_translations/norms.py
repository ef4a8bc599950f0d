"""Normalisations."""

from __future__ import annotations

import math

from corten.onnx._graph import BFLOAT16, FLOAT, HALF, Value
from corten.onnx._table import translation
from corten.onnx._translations.pointwise import unary
from corten.onnx._translations.reductions import moments


def _channels(g, value, rank):
    """A vector of channels beside a batch of that many dimensions."""
    return g.unsqueeze(value, range(1, rank - 1)) if rank > 2 else value


def _normalized(g, input, weight, bias, mean, var, eps):  # noqa: A002
    """Batch norm with statistics that are given."""
    count = mean.shape[0]
    if weight is None:
        weight = g.expand(g.scalar(1.0, mean.dtype), [count], (count,))
    if bias is None:
        bias = g.expand(g.scalar(0.0, mean.dtype), [count], (count,))
    return g.op("BatchNormalization", input, weight, bias, mean, var, shape=input.shape, epsilon=float(eps))


def _by_batch(g, input, weight, bias, eps):  # noqa: A002
    """Batch norm with the statistics of the batch."""
    dims = [dim for dim in range(input.rank) if dim != 1]
    spread, center = moments(g, input, dims, 0, True)
    scale = unary(g, "Sqrt", g.binary("Add", spread, eps))
    found = g.binary("Div", g.binary("Sub", input, center), scale)
    return _affine(g, found, weight, bias, _channels, input.rank)


def _affine(g, value, weight, bias, shaped, rank):
    if weight is not None:
        value = g.binary("Mul", value, shaped(g, weight, rank))
    return value if bias is None else g.binary("Add", value, shaped(g, bias, rank))


@translation("batch_norm", "cudnn_batch_norm", "miopen_batch_norm")
def batch_norm(g, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=None):  # noqa: A002
    if training or running_mean is None:
        return _by_batch(g, input, weight, bias, eps)
    return _normalized(g, input, weight, bias, running_mean, running_var, eps)


@translation("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm_no_training(g, input, weight, bias, running_mean, running_var, momentum, eps):  # noqa: A002
    return (_normalized(g, input, weight, bias, running_mean, running_var, eps), *(None,) * (len(g.outs) - 1))


@translation("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional")
def native_batch_norm(g, input, weight, bias, *rest):  # noqa: A002
    *running, training, momentum, eps = rest
    if training or not running:
        found = _by_batch(g, input, weight, bias, eps)
    else:
        found = _normalized(g, input, weight, bias, *running, eps)
    kept = running if len(g.outs) == 5 else ()
    return (found, None, None, *kept)


@translation("layer_norm")
def layer_norm(g, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):  # noqa: A002
    sizes = list(normalized_shape)
    if weight is None:
        weight = g.expand(g.scalar(1.0, input.dtype), sizes)
        if not any(isinstance(size, Value) for size in sizes) and math.prod(sizes) <= 4096:
            weight = g.graph.constant([1.0] * math.prod(sizes), input.dtype, sizes)
    return g.op(
        "LayerNormalization", input, g.cast(weight, input.dtype), None if bias is None else g.cast(bias, input.dtype),
        axis=-len(sizes), epsilon=float(eps),
    )


@translation("native_layer_norm")
def native_layer_norm(g, input, normalized_shape, weight, bias, eps):  # noqa: A002
    dims = list(range(-len(normalized_shape), 0))
    found = layer_norm(g, input, normalized_shape, weight, bias, eps)
    if not g.needs(1) and not g.needs(2):
        return found, None, None
    spread, center = moments(g, input, dims, 0, True)
    return found, center, unary(g, "Reciprocal", unary(g, "Sqrt", g.binary("Add", spread, eps)))


@translation("rms_norm", "_fused_rms_norm")
def rms_norm(g, input, normalized_shape, weight=None, eps=None):  # noqa: A002
    wide = FLOAT if input.dtype in (HALF, BFLOAT16) else input.dtype
    value = g.cast(input, wide)
    dims = list(range(-len(normalized_shape), 0))
    square = g.reduce("ReduceMean", g.binary("Mul", value, value), dims, True)
    least = {FLOAT: 1.1920928955078125e-07}.get(wide, 2.220446049250313e-16) if eps is None else eps
    scale = unary(g, "Reciprocal", unary(g, "Sqrt", g.binary("Add", square, least)))
    found = g.binary("Mul", value, scale)
    found = g.cast(found if weight is None else g.binary("Mul", found, weight, wide), input.dtype)
    return (found, scale) if "fused" in g.label else found


@translation("group_norm")
def group_norm(g, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):  # noqa: A002
    # A size of 0 keeps that of the input.
    grouped = g.op("Reshape", input, g.vector([0, num_groups, -1]), shape=(input.shape[0], num_groups, None))
    ones = g.graph.constant([1.0] * num_groups, input.dtype, (num_groups,))
    zeros = g.graph.constant([0.0] * num_groups, input.dtype, (num_groups,))
    found = g.op("InstanceNormalization", grouped, ones, zeros, shape=grouped.shape, epsilon=float(eps))
    found = g.op("Reshape", found, g.sizes(input), shape=input.shape)
    return _affine(g, found, weight, bias, _channels, input.rank)


@translation("native_group_norm")
def native_group_norm(g, input, weight, bias, N, C, HxW, group, eps):  # noqa: A002, N803
    return group_norm(g, input, group, weight, bias, eps), None, None


@translation("instance_norm")
def instance_norm(g, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=None):  # noqa: A002
    if not use_input_stats:
        return _normalized(g, input, weight, bias, running_mean, running_var, eps)
    count = input.shape[1]
    if weight is None:
        weight = g.graph.constant([1.0] * count, input.dtype, (count,))
    if bias is None:
        bias = g.graph.constant([0.0] * count, input.dtype, (count,))
    return g.op("InstanceNormalization", input, weight, bias, epsilon=float(eps))


@translation("local_response_norm")
def local_response_norm(g, input, size, alpha=1e-4, beta=0.75, k=1.0):  # noqa: A002
    return g.op("LRN", input, alpha=alpha, beta=beta, bias=k, size=size)


@translation("_weight_norm", "_weight_norm_interface")
def weight_norm(g, v, scale, dim=0):
    dims = [i for i in range(v.rank) if i != dim % v.rank]
    length = g.reduce("ReduceL2", v, dims, True)
    found = g.binary("Mul", v, g.binary("Div", scale, length))
    return (found, length) if "interface" in g.label else found
