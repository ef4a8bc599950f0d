"""The backend of the kernels of this package, and of x86 and ARM processors in general."""

from __future__ import annotations

import corten

from . import _common_operator_config_utils as common
from .backend_config import BackendConfig, DTypeConfig

__all__ = [
    "get_test_only_legacy_native_backend_config", "default_op_quint8_dtype_config",
    "default_op_fp16_dtype_config", "default_dynamic_int8_dtype_config",
    "default_dynamic_float16_dtype_config", "input_output_only_quint8_dtype_config",
    "weight_only_quint8_dtype_config", "weight_only_quint4x2_dtype_config", "get_native_backend_config",
    "get_native_backend_config_dict", "get_test_only_legacy_native_backend_config_dict",
]

_QUINT8, _FLOAT, _HALF = corten.quint8, corten.float, corten.float16

weighted_op_quint8_dtype_config = DTypeConfig(_QUINT8, _QUINT8, corten.qint8, _FLOAT)
default_op_quint8_dtype_config = DTypeConfig(_QUINT8, _QUINT8)
default_op_fp16_dtype_config = DTypeConfig(_HALF, _HALF, _HALF, _HALF)
default_dynamic_int8_dtype_config = DTypeConfig(_QUINT8, _FLOAT, corten.qint8, _FLOAT, is_dynamic=True)
default_dynamic_float16_dtype_config = DTypeConfig(_HALF, _FLOAT, _HALF, _FLOAT, is_dynamic=True)
input_output_only_quint8_dtype_config = DTypeConfig(_QUINT8, _QUINT8, _FLOAT, _FLOAT)
weight_only_quint8_dtype_config = DTypeConfig(_FLOAT, _FLOAT, _QUINT8)
weight_only_quint4x2_dtype_config = DTypeConfig(_FLOAT, _FLOAT, corten.quint4x2)


def backend(
    name, conv, linear, binary, default, fixed, share, info=None, layer_norm=None, rnn=None, embed=None
):
    """A backend whose families of operations support these combinations of dtypes.

    Families without combinations are not supported, recurrent layers and embeddings excepted, which have
    those of all backends.
    """
    made = BackendConfig(name)
    made.set_backend_pattern_configs(conv if _patterns(conv) else common._get_conv_configs(conv))
    made.set_backend_pattern_configs(linear if _patterns(linear) else common._get_linear_configs(linear))
    made.set_backend_pattern_configs(common._get_binary_op_configs(binary))
    made.set_backend_pattern_config(common._get_cat_config(default))
    made.set_backend_pattern_configs(common._get_default_op_configs(default))
    made.set_backend_pattern_configs(common._get_fixed_qparams_op_configs(fixed))
    made.set_backend_pattern_configs(common._get_share_qparams_op_configs(share))
    if info is not None:
        made.set_backend_pattern_configs(common._get_tensor_info_op_configs(info))
    made.set_backend_pattern_configs(common._get_bn_configs(default))
    if layer_norm is not None:
        made.set_backend_pattern_configs(common._get_ln_configs(layer_norm))
    dynamic = [default_dynamic_int8_dtype_config, default_dynamic_float16_dtype_config]
    weight_only = [weight_only_quint8_dtype_config, weight_only_quint4x2_dtype_config]
    made.set_backend_pattern_configs(common._get_rnn_op_configs(rnn or dynamic))
    return made.set_backend_pattern_configs(common._get_embedding_op_configs(embed or weight_only))


def _patterns(given):
    return not isinstance(given[0], DTypeConfig)


_LINEAR = [
    weighted_op_quint8_dtype_config, default_dynamic_int8_dtype_config, default_dynamic_float16_dtype_config,
]
_INT8 = [default_op_quint8_dtype_config]


def get_test_only_legacy_native_backend_config():
    """The backend with half precision, for tests."""
    both = [default_op_quint8_dtype_config, default_op_fp16_dtype_config]
    return backend(
        "_native_and_fp16", conv=[weighted_op_quint8_dtype_config],
        linear=[*_LINEAR, default_op_fp16_dtype_config], binary=both, default=_INT8, fixed=both, share=both,
        info=_INT8, layer_norm=[input_output_only_quint8_dtype_config],
    )


def get_native_backend_config():
    """The backend of the kernels that are there."""
    return backend(
        "native", conv=[weighted_op_quint8_dtype_config], linear=_LINEAR, binary=_INT8, default=_INT8,
        fixed=_INT8, share=_INT8, info=_INT8, layer_norm=[input_output_only_quint8_dtype_config],
    )


def get_native_backend_config_dict():
    """The same as a dictionary."""
    return get_native_backend_config().to_dict()


def get_test_only_legacy_native_backend_config_dict():
    """The backend for tests as a dictionary."""
    return get_test_only_legacy_native_backend_config().to_dict()
