"""What a configuration says about dtypes, and helpers of the quantisation of modules."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from typing import Any

import corten
from corten import nn
from corten.nn.utils.parametrize import is_parametrized

from ._ranges import (
    calculate_qmin_qmax, check_min_max_valid, determine_qparams, dtypes as _dtypes, is_per_channel,
    is_per_tensor, validate_qmin_qmax,
)
from .quant_type import QuantType

__all__ = [
    "NodePattern", "Pattern", "MatchAllNode", "check_node", "get_combined_dict", "is_per_tensor",
    "is_per_channel", "getattr_from_fqn", "get_qparam_dict", "get_swapped_custom_module_class",
    "activation_dtype", "weight_dtype", "activation_is_statically_quantized",
    "activation_is_dynamically_quantized", "activation_is_int8_quantized", "activation_is_int32_quantized",
    "weight_is_quantized", "weight_is_statically_quantized", "op_is_int8_dynamically_quantized",
    "get_qconfig_dtypes", "get_quant_type", "check_min_max_valid", "calculate_qmin_qmax",
    "has_no_children_ignoring_parametrizations", "get_fqn_to_example_inputs", "to_underlying_dtype",
    "determine_qparams", "validate_qmin_qmax", "DEPRECATION_WARNING",
]

NodePattern = Any
Pattern = Any
QuantizerCls = Any
DEPRECATION_WARNING = (
    "torch.ao.quantization is deprecated and will be removed in 2.10. \n"
    "For migrations of users: \n"
    "1. Eager mode quantization (torch.ao.quantization.quantize, torch.ao.quantization.quantize_dynamic), "
    "please migrate to use torchao eager mode quantize_ API instead \n"
    "2. FX graph mode quantization (torch.ao.quantization.quantize_fx.prepare_fx,"
    "torch.ao.quantization.quantize_fx.convert_fx, please migrate to use torchao pt2e quantization API "
    "instead (prepare_pt2e, convert_pt2e) \n"
    "3. pt2e quantization has been migrated to torchao "
    "(https://github.com/pytorch/ao/tree/main/torchao/quantization/pt2e) \n"
    "see https://github.com/pytorch/ao/issues/2259 for more details"
)

_INT8 = ("quint8", "qint8", "uint8", "int8")
_WIDER = ("int16", "int32", "float8_e5m2", "float8_e4m3fn")
_UNDERLYING = dict(
    quint8="uint8", qint8="int8", qint32="int32", quint4x2="uint8", quint2x4="uint8", uint8="uint8",
    int8="int8", uint16="uint16", int16="int16", int32="int32", float8_e5m2="float8_e5m2",
    float8_e4m3fn="float8_e4m3fn",
)


class MatchAllNode:
    """Matches every node of a graph."""


def _operations():
    F = nn.functional
    modules = (
        "ReLU ReLU6 AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AvgPool1d AvgPool2d AvgPool3d "
        "MaxPool1d MaxPool2d MaxPool3d Identity Hardsigmoid Sigmoid Tanh"
    )
    functions = (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d elu hardswish instance_norm "
        "layer_norm leaky_relu silu mish dropout max_pool1d max_pool2d max_pool3d relu hardtanh hardtanh_ "
        "hardsigmoid sigmoid"
    )
    others = "transpose repeat_interleave sigmoid squeeze stack sum tanh unsqueeze cat"
    return (
        {getattr(nn, name) for name in modules.split()},
        {getattr(F, name) for name in functions.split()} | {getattr(corten, n) for n in others.split()},
    )


module_type_list, func_list = _operations()
method_list = {
    corten.mean,
    *"relu relu_ contiguous detach detach_ hardsigmoid hardsigmoid_ permute repeat repeat_interleave "
    "reshape resize_ shape sigmoid sigmoid_ size squeeze squeeze_ tanh tanh_ transpose unsqueeze "
    "unsqueeze_ view".split(),
}


def check_node(node, modules):
    """Whether a node calls a function, a method or a module that works on quantised values as on floats."""
    return (
        node.op == "call_function" and node.target in func_list,
        node.op == "call_method" and node.target in method_list,
        node.op == "call_module" and type(modules[str(node.target)]) in module_type_list,
    )


def get_combined_dict(default_dict, additional_dict):
    """Both dictionaries in one; the second has the last word."""
    return {**default_dict, **additional_dict}


def getattr_from_fqn(obj, fqn):
    """The attribute at a dotted path."""
    return functools.reduce(getattr, fqn.split("."), obj)


def to_underlying_dtype(qdtype):
    """The integer dtype in which a quantised dtype is stored."""
    name = str(qdtype).rpartition(".")[2]
    if name not in _UNDERLYING:
        raise AssertionError("Unsupported dtype: " + str(qdtype))
    return getattr(corten, _UNDERLYING[name])


def get_qparam_dict(observer_or_fake_quant):
    """Scheme, dtype, scale, zero point and limits of an observer."""
    from .observer import PlaceholderObserver

    qscheme = getattr(observer_or_fake_quant, "qscheme", None)
    dtype = observer_or_fake_quant.dtype
    if not qscheme or isinstance(observer_or_fake_quant, PlaceholderObserver):
        return {"qscheme": None, "dtype": dtype}
    qparams = {"qscheme": qscheme, "dtype": dtype}
    if is_per_tensor(qscheme):
        qparams["qscheme"] = corten.per_tensor_affine
    elif is_per_channel(qscheme):
        if qscheme == corten.per_channel_symmetric:
            qparams["qscheme"] = corten.per_channel_affine
        qparams["axis"] = observer_or_fake_quant.ch_axis
    else:
        raise RuntimeError(f"Unrecognized qscheme: {qscheme}")
    qparams["scale"], qparams["zero_point"] = observer_or_fake_quant.calculate_qparams()
    for limit in ("quant_min", "quant_max"):
        if hasattr(observer_or_fake_quant, limit):
            qparams[limit] = getattr(observer_or_fake_quant, limit)
    return qparams


def get_swapped_custom_module_class(custom_module, custom_module_class_mapping, qconfig):
    """The observed class of a custom module, by the way in which it is quantised."""
    class_mapping = custom_module_class_mapping.get(get_quant_type(qconfig), {})
    if type(custom_module) not in class_mapping:
        raise AssertionError(
            f"did not find corresponding observed module class for {type(custom_module)} in mapping: "
            f"{class_mapping}"
        )
    return class_mapping[type(custom_module)]


def _made(qconfig, what, member):
    if qconfig is None:
        raise AssertionError(f"qconfig must be provided to determine {what}")
    return getattr(qconfig, member)()


def activation_dtype(qconfig):
    """The dtype of activations."""
    return _made(qconfig, "activation dtype", "activation").dtype


def weight_dtype(qconfig):
    """The dtype of weights."""
    return _made(qconfig, "weight dtype", "weight").dtype


def activation_is_statically_quantized(qconfig):
    """Whether activations have scales that are known before a model runs."""
    static = activation_dtype(qconfig) in _dtypes(*_INT8, "qint32", "float16", *_WIDER)
    return static and not activation_is_dynamically_quantized(qconfig)


def activation_is_dynamically_quantized(qconfig):
    """Whether scales of activations are found while a model runs."""
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_int8_quantized(qconfig):
    """Whether activations have 8 bits."""
    return activation_dtype(qconfig) in _dtypes(*_INT8)


def activation_is_int32_quantized(qconfig):
    """Whether activations have 32 bits."""
    return activation_dtype(qconfig) in _dtypes("qint32", "int32")


def weight_is_quantized(qconfig):
    """Whether weights are quantised, or of half precision."""
    return weight_dtype(qconfig) in _dtypes(*_INT8, "float16", "quint4x2", *_WIDER)


def weight_is_statically_quantized(qconfig):
    """Whether weights have 8 bits."""
    return weight_dtype(qconfig) in _dtypes(*_INT8)


def op_is_int8_dynamically_quantized(qconfig):
    """Whether weights have 8 bits and activations get their scale while a model runs."""
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    return activation in _dtypes("quint8", "uint8") and weight in _dtypes("qint8", "int8") and dynamic


def get_qconfig_dtypes(qconfig):
    """Dtypes of activations and weights, and whether activations get their scale while a model runs."""
    if qconfig is None:
        raise AssertionError("qconfig must be provided to extract dtypes")
    activation, weight = qconfig.activation(), qconfig.weight()
    return activation.dtype, weight.dtype, getattr(activation, "is_dynamic", False)


def get_quant_type(qconfig):
    """The way of quantisation that a configuration describes."""
    if qconfig is None:
        raise AssertionError("qconfig must be provided to determine quant type")
    activation, weight = qconfig.activation(), qconfig.weight()
    integers = _dtypes(*_INT8, "quint4x2", "qint32", *_WIDER)
    dynamic = getattr(activation, "is_dynamic", False)
    half = weight.dtype == corten.float16
    if weight.dtype in integers or half:
        if dynamic:
            return QuantType.DYNAMIC
        if activation.dtype in ([corten.float16] if half else integers):
            return QuantType.STATIC
        if not half:
            return QuantType.WEIGHT_ONLY
    raise Exception(
        f"Unrecognized dtype combination in get_quant_type: activation({activation.dtype}),"
        f"weight({weight.dtype})"
    )


def _parent_name(target):
    parent, _, name = target.rpartition(".")
    return parent, name


def has_no_children_ignoring_parametrizations(module):
    """Whether a module has no modules within, its parametrizations aside."""
    if not module._modules:
        return True
    return is_parametrized(module) and list(module._modules) == ["parametrizations"]


def _get_path_of_module(root, submodule):
    return next((name for name, module in root.named_modules() if module is submodule), None)


def _get_signature_locals(f, loc):
    parameters = inspect.signature(f).parameters
    return {name: value for name, value in loc.items() if name in parameters}


def _get_default_kwargs(f):
    defaults = OrderedDict()
    for name, parameter in inspect.signature(f).parameters.items():
        if parameter.default is not parameter.empty:
            defaults[name] = parameter.default
        elif parameter.kind is parameter.VAR_POSITIONAL:
            defaults[name] = ()
        elif parameter.kind is parameter.VAR_KEYWORD:
            defaults[name] = {}
    return defaults


def _normalize_kwargs(func, loc):
    given, defaults = _get_signature_locals(func, loc), _get_default_kwargs(func)
    return OrderedDict((name, given.get(name, value)) for name, value in defaults.items())


def _get_num_pos_args(f):
    return len(inspect.getfullargspec(f).args)


def get_fqn_to_example_inputs(model, example_inputs):
    """Runs a model and returns the inputs that each of its modules got, by the module's name."""
    found, call = {}, nn.Module.__call__

    def recording(self, *args, **kwargs):
        seen = list(args)
        named = _normalize_kwargs(self.forward, kwargs)
        # What was passed by position is not taken from the defaults again.
        surplus = _get_num_pos_args(self.forward) - 1 - len(seen)
        while surplus and named:
            named.popitem(last=False)
            surplus -= 1
        seen.extend(named.values())
        name = _get_path_of_module(model, self)
        if name is not None:
            found[name] = tuple(seen)
        return call(self, *args, **kwargs)

    nn.Module.__call__ = recording
    try:
        model(*example_inputs)
    finally:
        nn.Module.__call__ = call
    return found


def _assert_and_get_unique_device(module):
    devices = {p.device for p in module.parameters()} | {p.device for p in module.buffers()}
    if {device.type for device in devices} == {"cpu", "meta"} and len(devices) == 2:
        warnings.warn(
            "Both 'meta' and 'cpu' are present in the list of devices. Module can have one device. "
            "We Select 'cpu'.",
            stacklevel=2,
        )
        devices = {corten.device("cpu")}
    if len(devices) > 1:
        raise AssertionError(
            f"prepare only works with cpu or single-device CUDA modules, but got devices {devices}"
        )
    return next(iter(devices), None)
