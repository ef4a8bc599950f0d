"""The backend ExecuTorch."""

from __future__ import annotations

import operator

import corten
from corten import nn
from corten.nn import functional as F

from . import _common_operator_config_utils as common
from .backend_config import BackendConfig, DTypeConfig
from .native import (
    default_dynamic_float16_dtype_config, default_dynamic_int8_dtype_config,
    default_op_quint8_dtype_config, weight_only_quint8_dtype_config, weighted_op_quint8_dtype_config,
)
from .qnnpack import (
    qnnpack_act_qint8_scale_min_2_neg_12, qnnpack_default_op_qint8_symmetric_dtype_config,
    qnnpack_weight_qint8_neg_127_to_127_scale_min_2_neg_12,
    qnnpack_weighted_op_qint8_symmetric_dtype_config,
)

__all__ = ["get_executorch_backend_config"]

executorch_default_dynamic_qint8_dtype_config = DTypeConfig(
    qnnpack_act_qint8_scale_min_2_neg_12, corten.float,
    qnnpack_weight_qint8_neg_127_to_127_scale_min_2_neg_12, corten.float, is_dynamic=True,
)
_WEIGHTED = [qnnpack_weighted_op_qint8_symmetric_dtype_config, weighted_op_quint8_dtype_config]
_DEFAULT = [qnnpack_default_op_qint8_symmetric_dtype_config, default_op_quint8_dtype_config]


def _linear_configs():
    return common.linear_root_configs([
        *_WEIGHTED, default_dynamic_int8_dtype_config, executorch_default_dynamic_qint8_dtype_config,
        default_dynamic_float16_dtype_config,
    ])


def _share_configs():
    operations = (
        nn.Flatten, F.adaptive_avg_pool2d, F.elu, F.hardtanh, F.max_pool2d, F.pad, F.relu, F.relu6,
        F.leaky_relu, F.leaky_relu_, nn.AdaptiveAvgPool2d, nn.ConstantPad2d, nn.ELU, nn.MaxPool2d, nn.ReLU6,
        nn.Hardtanh, nn.LeakyReLU, corten.clamp, corten.flatten, corten.mean, corten.permute,
        corten.permute_copy, corten.squeeze,
        *"clamp mean permute reshape relu relu_ squeeze squeeze_ leaky_relu".split(),
    )
    shared = common._SHARED
    return [common.pattern_config(one, _DEFAULT, observation_type=shared) for one in operations]


def _embedding_configs():
    types = [weight_only_quint8_dtype_config]
    function = common.pattern_config(F.embedding, types, _input_type_to_index={"weight": 1})
    modules = common._get_embedding_op_configs(types)
    return [*modules[:2], function, *modules[2:]]


def get_executorch_backend_config():
    """What ExecuTorch supports."""
    binary = (operator.add, corten.add, operator.sub, corten.sub, operator.mul, corten.mul)
    types = [qnnpack_default_op_qint8_symmetric_dtype_config, weighted_op_quint8_dtype_config]
    made = BackendConfig("executorch").set_backend_pattern_configs(_linear_configs())
    convolutions = common.convolution_configs(common._Conv2dMetadata, _WEIGHTED)
    made.set_backend_pattern_configs(convolutions)
    made.set_backend_pattern_configs(common.binary_configs(binary, types))
    made.set_backend_pattern_configs(_share_configs())
    made.set_backend_pattern_config(common.pattern_config(nn.BatchNorm2d, _DEFAULT))
    made.set_backend_pattern_configs([
        common.pattern_config(one, _DEFAULT, observation_type=common._SHARED)
        for one in (corten.cat, corten.concat, corten.concatenate)
    ])
    return made.set_backend_pattern_configs(_embedding_configs())
