"""Which quantised class stands for which class of floats."""

from __future__ import annotations

import copy

import corten
import corten.ao.nn.intrinsic as nni
import corten.ao.nn.intrinsic.qat as nniqat
import corten.ao.nn.intrinsic.quantized as nniq
import corten.ao.nn.intrinsic.quantized.dynamic as nniqd
import corten.ao.nn.qat as nnqat
import corten.ao.nn.qat.dynamic as nnqatd
import corten.ao.nn.quantized as nnq
import corten.ao.nn.quantized.dynamic as nnqd
import corten.ao.nn.quantized.reference as nnqr
from corten import nn
from corten.nn.utils.parametrize import type_before_parametrizations

from .fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant, default_fixed_qparams_range_neg1to1_fake_quant,
)
from .stubs import DeQuantStub, QuantStub
from .utils import get_combined_dict

__all__ = [
    "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS", "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_QAT_MODULE_MAPPINGS", "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS", "DEFAULT_MODULE_TO_ACT_POST_PROCESS",
    "no_observer_set", "get_default_static_quant_module_mappings",
    "get_default_static_quant_reference_module_mappings", "get_embedding_static_quant_module_mappings",
    "get_static_quant_module_class",
    "get_dynamic_quant_module_class", "get_default_qat_module_mappings",
    "get_embedding_qat_module_mappings", "get_default_dynamic_quant_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_compare_output_module_list", "get_default_float_to_quantized_operator_mappings",
    "get_quantized_operator",
]

_NonDynamic = nn.modules.linear.NonDynamicallyQuantizableLinear


def _same_names(source, target, names):
    """Classes of one module by those of the same name in another."""
    return {getattr(source, name): getattr(target, name) for name in names.split()}


_STUBS = {QuantStub: nnq.Quantize, DeQuantStub: nnq.DeQuantize}
_CONVS = "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d"

DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS = {
    **_STUBS,
    **_same_names(nn, nnqr, f"Linear {_CONVS} Embedding EmbeddingBag GRUCell LSTMCell RNNCell LSTM"),
}
DEFAULT_STATIC_QUANT_MODULE_MAPPINGS = {
    **_STUBS,
    **_same_names(
        nn, nnq,
        f"BatchNorm2d BatchNorm3d Dropout {_CONVS} ELU Embedding EmbeddingBag GroupNorm Hardswish "
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU Linear ReLU6 PReLU",
    ),
    _NonDynamic: nnq.Linear,
    nnq.FloatFunctional: nnq.QFunctional,
    **_same_names(
        nni, nniq,
        "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d ConvAdd2d ConvAddReLU2d LinearReLU "
        "LinearLeakyReLU LinearTanh",
    ),
    **{getattr(nniqat, f"ConvBn{d}d"): getattr(nnq, f"Conv{d}d") for d in (1, 2, 3)},
    **{getattr(nniqat, f"ConvBnReLU{d}d"): getattr(nniq, f"ConvReLU{d}d") for d in (1, 2, 3)},
    **_same_names(nniqat, nniq, "ConvReLU2d ConvReLU3d LinearReLU"),
    nniqat.LinearBn1d: nnq.Linear,
    **_same_names(nnqat, nnq, "Linear Conv2d Conv3d"),
}
DEFAULT_QAT_MODULE_MAPPINGS = {
    **_same_names(nn, nnqat, "Conv2d Conv3d Linear"),
    _NonDynamic: nnqat.Linear,
    **_same_names(
        nni, nniqat,
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d ConvReLU3d "
        "LinearReLU LinearBn1d",
    ),
}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS = {
    **_same_names(nn, nnqd, "GRUCell Linear LSTM GRU LSTMCell RNNCell"),
    nnqatd.Linear: nnqd.Linear,
    _NonDynamic: nnqd.Linear,
    nni.LinearReLU: nniqd.LinearReLU,
    **_same_names(nn, nnq, "EmbeddingBag Embedding"),
}
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS = {
    getattr(nn.functional, name): getattr(corten.ops.quantized, name)
    for name in "elu hardswish instance_norm layer_norm leaky_relu dropout".split()
}
DEFAULT_MODULE_TO_ACT_POST_PROCESS = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}
_INCLUDE_QCONFIG_PROPAGATE_LIST = {nn.Sequential}


def no_observer_set():
    """Classes whose parts are observed, but not they themselves."""
    import corten.ao.nn.quantizable as quantizable

    return {quantizable.LSTM, quantizable.MultiheadAttention}


def get_default_static_quant_module_mappings():
    """Quantised classes for calibrated models."""
    return copy.deepcopy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_static_quant_reference_module_mappings():
    """Classes that compute in floats with quantised weights."""
    return copy.deepcopy(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings():
    """Quantised classes for calibrated models, with those of trained embeddings."""
    return {
        **get_default_static_quant_module_mappings(), **_same_names(nnqat, nnq, "EmbeddingBag Embedding")
    }


def _class_of(float_module_class, mappings, additional):
    found = get_combined_dict(mappings, additional or {}).get(float_module_class)
    if found is None:
        raise AssertionError(
            f"Floating point module class {float_module_class}"
            " does not have a corresponding quantized module class"
        )
    return copy.deepcopy(found)


def get_static_quant_module_class(
    float_module_class, additional_static_quant_mapping=None, is_reference=False
):
    """The quantised class of a class, for calibrated models."""
    mappings = (
        DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS
        if is_reference
        else DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    )
    return _class_of(float_module_class, mappings, additional_static_quant_mapping)


def get_dynamic_quant_module_class(float_module_class, additional_dynamic_quant_mapping=None):
    """The quantised class of a class, for scales that are found while a model runs."""
    return _class_of(
        float_module_class, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping
    )


def get_default_qat_module_mappings():
    """Classes for training that knows of quantisation."""
    return copy.deepcopy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings():
    """Classes for training that knows of quantisation, with those of embeddings."""
    return {**get_default_qat_module_mappings(), **_same_names(nn, nnqat, "EmbeddingBag Embedding")}


def get_default_dynamic_quant_module_mappings():
    """Quantised classes for scales that are found while a model runs."""
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


_ALL = (
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
)


def get_default_qconfig_propagation_list():
    """Classes that are observed."""
    return set().union(_INCLUDE_QCONFIG_PROPAGATE_LIST, *_ALL)


def get_default_compare_output_module_list():
    """Classes whose outputs can be compared before and after quantisation."""
    values = [mapping.values() for mapping in _ALL]
    return get_default_qconfig_propagation_list().union(*values)


def get_default_float_to_quantized_operator_mappings():
    """Quantised operators by functions of floats."""
    return dict(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op):
    """The quantised operator of a function."""
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return found


def _get_special_act_post_process(module):
    """The fake quantiser of modules whose outputs have known limits."""
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type_before_parametrizations(module))


def _has_special_act_post_process(module):
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
