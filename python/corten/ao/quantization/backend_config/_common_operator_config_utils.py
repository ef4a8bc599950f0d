"""Patterns that backends have in common, by family; each function makes those of its family for
combinations of dtypes."""

from __future__ import annotations

import copy
import operator
from collections import namedtuple

import corten
import corten.ao.nn.intrinsic as nni
import corten.ao.nn.intrinsic.qat as nniqat
import corten.ao.nn.qat as nnqat
import corten.ao.nn.quantized.reference as nnqr
from corten import nn
from corten.nn import functional as F

from ..fuser_method_mappings import (
    _sequential_wrapper2, fuse_conv_bn, fuse_conv_bn_relu, fuse_convtranspose_bn, fuse_linear_bn,
)
from .backend_config import BackendPatternConfig, DTypeWithConstraints, ObservationType

__all__: list[str] = []

_ConvMetadata = namedtuple(
    "_ConvMetadata",
    "root transpose bn reference transpose_reference fused_conv_relu fused_conv_bn fused_conv_bn_relu qat "
    "relu_qat bn_qat bn_relu_qat func func_transpose",
)
_OWN = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_WEIGHT_AND_BIAS = {"weight": 1, "bias": 2}


def _convolutions(d):
    return _ConvMetadata(
        getattr(nn, f"Conv{d}d"), getattr(nn, f"ConvTranspose{d}d"), getattr(nn, f"BatchNorm{d}d"),
        getattr(nnqr, f"Conv{d}d"), getattr(nnqr, f"ConvTranspose{d}d"), getattr(nni, f"ConvReLU{d}d"),
        getattr(nni, f"ConvBn{d}d"), getattr(nni, f"ConvBnReLU{d}d"), getattr(nnqat, f"Conv{d}d"),
        getattr(nniqat, f"ConvReLU{d}d"), getattr(nniqat, f"ConvBn{d}d"), getattr(nniqat, f"ConvBnReLU{d}d"),
        getattr(F, f"conv{d}d"), getattr(F, f"conv_transpose{d}d"),
    )


_Conv1dMetadata, _Conv2dMetadata, _Conv3dMetadata = map(_convolutions, (1, 2, 3))

_FIXED_QPARAM_OP_0TO1_CONSTRAINTS = DTypeWithConstraints(
    dtype=corten.quint8, quant_min_lower_bound=0, quant_max_upper_bound=255, scale_exact_match=1.0 / 256.0,
    zero_point_exact_match=0,
)
_FIXED_QPARAM_OP_NEG1TO1_CONSTRAINTS = DTypeWithConstraints(
    dtype=corten.quint8, quant_min_lower_bound=0, quant_max_upper_bound=255, scale_exact_match=2.0 / 256.0,
    zero_point_exact_match=128,
)


def _fixed_constraints():
    from ..observer import default_fixed_qparams_range_0to1_observer
    from ..qconfig_mapping import _FIXED_QPARAMS_OP_TO_OBSERVER

    return {
        operation: _FIXED_QPARAM_OP_0TO1_CONSTRAINTS
        if observer is default_fixed_qparams_range_0to1_observer
        else _FIXED_QPARAM_OP_NEG1TO1_CONSTRAINTS
        for operation, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items()
    }


_FIXED_QPARAMS_OP_TO_CONSTRAINTS = _fixed_constraints()


def pattern_config(pattern, dtype_configs, **settings):
    """A pattern's configuration with these attributes."""
    config = BackendPatternConfig(pattern).set_dtype_configs(list(dtype_configs))
    for name, value in settings.items():
        setattr(config, name, value)
    return config


def weighted(pattern, dtype_configs, root, reference, **settings):
    """A pattern whose root module has a weight."""
    return pattern_config(
        pattern, dtype_configs, root_module=root, reference_quantized_module=reference, **settings
    )


def fused(pattern, dtype_configs, method, kind, **settings):
    """A pattern that is fused into a class: by a function, or by its constructor if there is none."""
    method = method or _sequential_wrapper2(kind)
    return pattern_config(pattern, dtype_configs, fuser_method=method, fused_module=kind, **settings)


_BINARY_BY_TENSORS = {0: _OWN, 1: _SHARED, 2: _OWN}


def binary_configs(operations, dtype_configs):
    """Binary operations, alone and with an activation after them."""
    return [
        pattern_config(
            pattern, dtype_configs, _num_tensor_args_to_observation_type=_BINARY_BY_TENSORS
        )
        for one in operations
        for pattern in ((one, nn.ReLU), (one, F.relu), (one, corten.relu), one)
    ]


def _get_binary_op_configs(dtype_configs):
    operations = (operator.add, corten.add, operator.mul, corten.mul)
    matmul = pattern_config(corten.matmul, dtype_configs)
    return [*binary_configs(operations, dtype_configs), matmul]


def linear_root_configs(dtype_configs):
    """A linear layer, in training too, and the function."""
    return [
        weighted(nn.Linear, dtype_configs, nn.Linear, nnqr.Linear, qat_module=nnqat.Linear),
        weighted(nnqat.Linear, dtype_configs, nn.Linear, nnqr.Linear),
        pattern_config(F.linear, dtype_configs, _input_type_to_index=_WEIGHT_AND_BIAS),
    ]


def _get_linear_configs(dtype_configs):
    types, root = dtype_configs, (nn.Linear, nnqr.Linear)
    return [
        *linear_root_configs(types),
        fused((nn.Linear, nn.ReLU), types, None, nni.LinearReLU),
        fused((nn.Linear, F.relu), types, None, nni.LinearReLU),
        weighted(nni.LinearReLU, types, *root, qat_module=nniqat.LinearReLU),
        weighted(nniqat.LinearReLU, types, *root),
        pattern_config((F.linear, nn.ReLU), types),
        pattern_config((F.linear, F.relu), types),
        fused((nn.Linear, nn.BatchNorm1d), types, fuse_linear_bn, nni.LinearBn1d),
        weighted(nni.LinearBn1d, types, *root, qat_module=nniqat.LinearBn1d),
        weighted(nniqat.LinearBn1d, types, *root),
    ]


def convolution_configs(convs, dtype_configs):
    """A convolution, its fusion with normalisation and activation, and what they are in training."""
    types, root, conv = dtype_configs, (convs.root, convs.reference), convs.root
    return [
        weighted(conv, types, *root, qat_module=convs.qat),
        weighted(convs.qat, types, *root),
        pattern_config(convs.func, types, _input_type_to_index=_WEIGHT_AND_BIAS),
        fused((conv, nn.ReLU), types, None, convs.fused_conv_relu),
        fused((conv, F.relu), types, None, convs.fused_conv_relu),
        pattern_config(convs.fused_conv_relu, types, qat_module=convs.relu_qat),
        weighted(convs.relu_qat, types, *root),
        pattern_config((convs.func, nn.ReLU), types),
        pattern_config((convs.func, F.relu), types),
        fused((conv, convs.bn), types, fuse_conv_bn, convs.fused_conv_bn),
        fused((conv, convs.bn, nn.ReLU), types, fuse_conv_bn_relu, convs.fused_conv_bn_relu),
        fused(
            (conv, convs.bn, F.relu), types, fuse_conv_bn_relu, convs.fused_conv_bn_relu, root_module=conv
        ),
        pattern_config(convs.fused_conv_bn, types, qat_module=convs.bn_qat),
        pattern_config(convs.fused_conv_bn_relu, types, qat_module=convs.bn_relu_qat),
        weighted(convs.bn_qat, types, *root),
        weighted(convs.bn_relu_qat, types, *root),
    ]


def _get_conv_configs(dtype_configs):
    configs = []
    for convs in (_Conv1dMetadata, _Conv2dMetadata, _Conv3dMetadata):
        root = (convs.transpose, convs.transpose_reference)
        configs += [
            *convolution_configs(convs, dtype_configs),
            weighted(convs.transpose, dtype_configs, *root),
            weighted(
                (convs.transpose, convs.bn), dtype_configs, *root, fuser_method=fuse_convtranspose_bn
            ),
            pattern_config(
                convs.func_transpose, dtype_configs, _input_type_to_index=_WEIGHT_AND_BIAS
            ),
        ]
    return configs


def _get_cat_config(dtype_configs):
    return pattern_config(corten.cat, dtype_configs, observation_type=_SHARED)


def _get_ln_configs(dtype_configs):
    index = {"weight": 2, "bias": 3}
    return [
        pattern_config(nn.LayerNorm, dtype_configs),
        pattern_config(F.layer_norm, dtype_configs, _input_type_to_index=index),
    ]


def _get_default_op_configs(dtype_configs):
    operations = (
        nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d,
        nn.Dropout, nn.PReLU, F.elu, F.hardswish, F.leaky_relu, F.dropout,
    )
    return [
        *(pattern_config(one, dtype_configs) for one in operations),
        pattern_config(F.group_norm, dtype_configs, _input_type_to_index={"weight": 2, "bias": 3}),
        pattern_config(F.instance_norm, dtype_configs, _input_type_to_index={"weight": 3, "bias": 4}),
    ]


def _add_fixed_qparams_to_dtype_configs(dtype_configs, constraints):
    """The combinations with the scale and the zero point that an operation's output must have."""
    fixed = []
    for config in dtype_configs:
        new = copy.deepcopy(config)
        for side in (new.input_dtype_with_constraints, new.output_dtype_with_constraints):
            if side.dtype != constraints.dtype:
                continue
            for bound in ("scale_min_lower_bound", "scale_max_upper_bound"):
                if getattr(side, bound) is not None:
                    raise ValueError(f"{bound} is invalid for fixed qparams ops: {config}")
            side.quant_min_lower_bound = constraints.quant_min_lower_bound
            side.quant_max_upper_bound = constraints.quant_max_upper_bound
            side.scale_exact_match = constraints.scale_exact_match
            side.zero_point_exact_match = constraints.zero_point_exact_match
        fixed.append(new)
    return fixed


def _get_fixed_qparams_op_configs(dtype_configs):
    return [
        pattern_config(operation, _add_fixed_qparams_to_dtype_configs(dtype_configs, constraints))
        for operation, constraints in _FIXED_QPARAMS_OP_TO_CONSTRAINTS.items()
    ]


def _get_share_qparams_op_configs(dtype_configs):
    modules = (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AvgPool1d AvgPool2d AvgPool3d Hardtanh "
        "Identity MaxPool1d MaxPool2d MaxPool3d PixelShuffle PixelUnshuffle ReLU ReLU6"
    )
    functions = (
        "adaptive_avg_pool2d adaptive_avg_pool3d hardtanh hardtanh_ interpolate max_pool1d max_pool2d "
        "max_pool3d pixel_shuffle pixel_unshuffle relu relu6"
    )
    methods = (
        "contiguous clamp detach detach_ mean permute repeat repeat_interleave reshape resize_ relu relu_ "
        "squeeze squeeze_ transpose unsqueeze unsqueeze_ view"
    )
    operations = (
        *(getattr(nn, name) for name in modules.split()),
        corten.adaptive_avg_pool1d,
        *(getattr(F, name) for name in functions.split()),
        corten.avg_pool1d, F.avg_pool2d, F.avg_pool3d, corten.clamp, corten.flatten, corten.mean,
        corten.narrow, corten.repeat_interleave, corten.transpose, corten.squeeze, corten.stack,
        corten.unsqueeze, operator.floordiv,
        *methods.split(),
    )
    return [pattern_config(one, dtype_configs, observation_type=_SHARED) for one in operations]


def _get_bn_configs(dtype_configs):
    pairs = ((nn.BatchNorm2d, nni.BNReLU2d), (nn.BatchNorm3d, nni.BNReLU3d))
    configs = []
    for norm, kind in pairs:
        configs += [
            fused((norm, nn.ReLU), dtype_configs, None, kind),
            fused((norm, F.relu), dtype_configs, None, kind),
            pattern_config(norm, dtype_configs),
        ]
    return configs + [pattern_config(kind, dtype_configs) for _norm, kind in pairs]


def _get_rnn_op_configs(dtype_configs):
    return [
        weighted(getattr(nn, name), dtype_configs, getattr(nn, name), getattr(nnqr, name))
        for name in ("GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")
    ]


def _get_embedding_op_configs(dtype_configs):
    configs = []
    for name in ("Embedding", "EmbeddingBag"):
        root, trained = (getattr(nn, name), getattr(nnqr, name)), getattr(nnqat, name)
        configs += [
            weighted(root[0], dtype_configs, *root, qat_module=trained),
            weighted(trained, dtype_configs, *root),
        ]
    return configs


def _get_tensor_info_op_configs(dtype_configs):
    unobserved = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
    return [pattern_config(name, dtype_configs, observation_type=unobserved) for name in ("shape", "size")]
