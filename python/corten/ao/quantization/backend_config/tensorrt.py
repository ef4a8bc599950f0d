"""The backend TensorRT."""

from __future__ import annotations

import corten

from . import _common_operator_config_utils as common
from .backend_config import BackendConfig, DTypeConfig

__all__ = ["get_tensorrt_backend_config", "get_tensorrt_backend_config_dict"]


def get_tensorrt_backend_config():
    """What TensorRT supports: signed activations."""
    weights = [DTypeConfig(corten.qint8, corten.qint8, corten.qint8, corten.float)]
    default = [DTypeConfig(corten.qint8, corten.qint8)]
    addmm = common.pattern_config(
        corten.addmm, weights, _input_type_to_index={"bias": 0, "input": 1, "weight": 2}
    )
    made = BackendConfig("tensorrt").set_backend_pattern_configs(common._get_conv_configs(weights))
    made.set_backend_pattern_configs([addmm, common._get_cat_config(default)])
    made.set_backend_pattern_configs(common._get_linear_configs(weights))
    made.set_backend_pattern_configs(common._get_binary_op_configs(weights))
    made.set_backend_pattern_configs(common._get_share_qparams_op_configs(default))
    return made.set_backend_pattern_configs(common._get_tensor_info_op_configs(default))


def get_tensorrt_backend_config_dict():
    """The same as a dictionary."""
    return get_tensorrt_backend_config().to_dict()
