"""Quantisation in eager mode: observers are put into a model, and its modules are replaced by quantised ones."""

from __future__ import annotations

import copy
import inspect
import warnings

import corten
import corten.ao.nn.quantizable as quantizable
import corten.ao.nn.quantized as nnq
from corten import nn
from corten.ao.nn.intrinsic import _FusedModule
from corten.nn.utils.parametrize import type_before_parametrizations

from ._deprecated import deprecated
from .observer import _is_activation_post_process
from .qconfig import (
    _activation_is_memoryless, _add_module_to_qconfig_obs_ctr, _assert_valid_qconfig,
    default_dynamic_qconfig, float16_dynamic_qconfig, float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .quantization_mappings import (
    _get_special_act_post_process, _has_special_act_post_process, get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings, get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings, get_default_static_quant_reference_module_mappings,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import DEPRECATION_WARNING, get_qparam_dict, has_no_children_ignoring_parametrizations

__all__ = [
    "get_default_custom_config_dict", "propagate_qconfig_", "add_quant_dequant", "prepare", "quantize",
    "quantize_dynamic", "prepare_qat", "quantize_qat", "convert", "swap_module",
]

is_activation_post_process = _is_activation_post_process

_DEFAULT_CUSTOM_CONFIG_DICT = {
    "float_to_observed_custom_module_class": {
        nn.LSTM: quantizable.LSTM, nn.MultiheadAttention: quantizable.MultiheadAttention,
    },
    "observed_to_quantized_custom_module_class": {
        quantizable.LSTM: nnq.LSTM, quantizable.MultiheadAttention: nnq.MultiheadAttention,
    },
}


def get_default_custom_config_dict():
    """Classes that are observed and quantised as other classes."""
    return _DEFAULT_CUSTOM_CONFIG_DICT


def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Gives every module within a model its ``qconfig``: its own, that of its name, of its class, or that
    of the module around it."""
    custom = prepare_custom_config_dict or {}
    _propagate_qconfig_helper(module, qconfig_dict or {}, prepare_custom_config_dict=custom)


def _propagate_qconfig_helper(
    module, qconfig_dict, qconfig_parent=None, prefix="", prepare_custom_config_dict=None
):
    custom = prepare_custom_config_dict or {}
    qconfig = qconfig_dict.get(type_before_parametrizations(module), qconfig_parent)
    qconfig = qconfig_dict.get(prefix, qconfig)
    qconfig = getattr(module, "qconfig", qconfig)
    _assert_valid_qconfig(qconfig, module)
    module.qconfig = placed = _add_module_to_qconfig_obs_ctr(qconfig, module)
    names = custom.get("non_traceable_module_name", [])
    classes = custom.get("non_traceable_module_class", [])
    for name, child in module.named_children():
        if name not in names and type(child) not in classes:
            # What cannot be traced is known by its name in the outermost module only.
            path = f"{prefix}.{name}" if prefix else name
            _propagate_qconfig_helper(child, qconfig_dict, placed, path)


def _observer_forward_hook(self, input, output):
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self, input):
    return self.activation_post_process(input[0])


def _register_activation_post_process_hook(module, pre_hook=False):
    if not hasattr(module, "activation_post_process"):
        raise AssertionError("Expect activation_post_process attribute already attached to the module")
    if pre_hook:
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _get_unique_devices_(module):
    values = [*module.parameters(), *module.buffers()]
    return {value.device for value in values if value.device.type != "meta"}


def _needs_observation(module):
    return getattr(module, "qconfig", None) is not None


class _Inserter:
    """Puts observers behind modules."""

    def __init__(self, classes, non_leaves, device, custom):
        self.classes, self.non_leaves, self.device, self.custom = classes, non_leaves, device, custom

    def observer(self, qconfig, special=None):
        made = (special or qconfig.activation)()
        if self.device is not None:
            made.to(self.device)
        return made

    def observe(self, module, special=None):
        if _needs_observation(module) and not isinstance(module, DeQuantStub):
            module.add_module("activation_post_process", self.observer(module.qconfig, special))
            _register_activation_post_process_hook(module, _activation_is_memoryless(module.qconfig))

    def functional(self, child):
        """Functions as modules have observers from the start."""
        if not hasattr(child, "activation_post_process"):
            raise AssertionError(
                f"functional class {type_before_parametrizations(child)} has no pre-defined "
                "`activation_post_process`"
            )
        child.activation_post_process = self.observer(child.qconfig)

    def replace_custom(self, module, name, child):
        observed_class = self.custom[type_before_parametrizations(child)]
        observed = observed_class.from_float(child)
        setattr(module, name, observed)
        if not issubclass(observed_class, tuple(no_observer_set())):
            self.observe(observed)

    def child(self, module, name, child):
        kind = type_before_parametrizations(child)
        if kind is nn.Dropout:
            return
        if issubclass(kind, (nnq.FloatFunctional, nnq.QFunctional)):
            if _needs_observation(child):
                self.functional(child)
        elif isinstance(child, _FusedModule) or kind in (self.non_leaves or ()):
            self.observe(child)
        elif _has_special_act_post_process(child):
            self.observe(child, _get_special_act_post_process(child))
        elif _needs_observation(child) and kind in self.custom:
            self.replace_custom(module, name, child)
        else:
            self.within(child)

    def within(self, module):
        for name, child in module.named_children():
            self.child(module, name, child)
        if isinstance(module, nn.Sequential) or type_before_parametrizations(module) not in self.classes:
            return
        if has_no_children_ignoring_parametrizations(module):
            self.observe(module)
        if hasattr(module, "weight_fake_quant"):
            self.observe(module)


def _add_observer_(
    module, qconfig_propagation_list=None, non_leaf_module_list=None, device=None,
    custom_module_class_mapping=None,
):
    if qconfig_propagation_list is None:
        qconfig_propagation_list = get_default_qconfig_propagation_list()
    if device is None:
        devices = _get_unique_devices_(module)
        if len(devices) > 1:
            raise AssertionError(
                "_add_observer_ only works with cpu or single-device CUDA modules, but got devices "
                f"{devices}"
            )
        device = next(iter(devices), None)
    custom = custom_module_class_mapping or {}
    _Inserter(qconfig_propagation_list, non_leaf_module_list, device, custom).within(module)


def add_quant_dequant(module):
    """Wraps every leaf that has a configuration in a :class:`QuantWrapper`; returns the model."""
    if has_no_children_ignoring_parametrizations(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


@deprecated(DEPRECATION_WARNING)
def prepare(
    model, inplace=False, allow_list=None, observer_non_leaf_module_list=None,
    prepare_custom_config_dict=None,
):
    """Puts observers behind the modules of a model that have a configuration.

    Args:
        model: The model; ``qconfig`` of it, or of modules within, says how.
        inplace: Whether the model itself is changed.
        allow_list: Classes that are observed.
        observer_non_leaf_module_list: Classes with modules within that are observed all the same.
        prepare_custom_config_dict: ``{"float_to_observed_custom_module_class": {class: observed class}}``.
    """
    custom = prepare_custom_config_dict or {}
    if prepare_custom_config_dict is None:
        custom = get_default_custom_config_dict()
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    if not any(getattr(module, "qconfig", None) for module in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration "
            "through `qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules",
            stacklevel=2,
        )
    _add_observer_(
        model, allow_list, observer_non_leaf_module_list,
        custom_module_class_mapping=custom.get("float_to_observed_custom_module_class", {}),
    )
    return model


def _remove_activation_post_process(module):
    if _is_activation_post_process(getattr(module, "activation_post_process", None)):
        delattr(module, "activation_post_process")
    for hooks, ours in (
        (module._forward_pre_hooks, _observer_forward_pre_hook),
        (module._forward_hooks, _observer_forward_hook),
    ):
        for handle in [handle for handle, hook in hooks.items() if hook is ours]:
            hooks.pop(handle)


def _remove_qconfig(module):
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


@deprecated(DEPRECATION_WARNING)
def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """Prepares a model, runs ``run_fn(model, *run_args)`` for calibration, and converts it."""
    if mapping is None:
        mapping = get_default_static_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, mapping, inplace=True)
    return model


def _dynamic_qconfig(dtype):
    return {
        corten.qint8: default_dynamic_qconfig, corten.float16: float16_dynamic_qconfig,
        corten.quint8: float_qparams_weight_only_qconfig,
        corten.quint4x2: float_qparams_weight_only_qconfig_4bit,
    }.get(dtype)


def _dynamic_spec(dtype):
    """The classes that are quantised to a dtype, with their configuration."""
    qconfig = _dynamic_qconfig(dtype)
    if qconfig is None:
        raise ValueError(
            f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please"
        )
    if dtype == corten.quint8:
        classes = (nn.EmbeddingBag, nn.Embedding)
    elif dtype == corten.quint4x2:
        classes = (nn.EmbeddingBag,)
    else:
        classes = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
    return dict.fromkeys(classes, qconfig)


@deprecated(DEPRECATION_WARNING)
def quantize_dynamic(model, qconfig_spec=None, dtype=corten.qint8, mapping=None, inplace=False):
    """Quantises weights; activations are quantised for every call by their own limits.

    Args:
        model: The model.
        qconfig_spec: Configurations by class or name of modules, or a set of classes and names.
        dtype: Of the weights, where ``qconfig_spec`` holds no configurations.
        mapping: Quantised classes by classes of floats.
        inplace: Whether the model itself is changed.

    Example::

        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2))
        >>> quantize_dynamic(model, {torch.nn.Linear})[0]
        DynamicQuantizedLinear(in_features=4, out_features=2, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
    """
    if qconfig_spec is None:
        qconfig_spec = _dynamic_spec(dtype)
    elif isinstance(qconfig_spec, set):
        qconfig = _dynamic_qconfig(dtype)
        if qconfig is None:
            raise RuntimeError("Unknown dtype specified for quantize_dynamic: ", str(dtype))
        qconfig_spec = dict.fromkeys(qconfig_spec, qconfig)
    if mapping is None:
        mapping = get_default_dynamic_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model


@deprecated(DEPRECATION_WARNING)
def prepare_qat(model, mapping=None, inplace=False):
    """Replaces modules by those whose weights are quantised in training, and puts fake quantisers behind
    them."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    if mapping is None:
        mapping = get_default_qat_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


@deprecated(DEPRECATION_WARNING)
def quantize_qat(model, run_fn, run_args, inplace=False):
    """Prepares a model for training, runs ``run_fn(model, *run_args)``, and converts it."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, inplace=True)
    return model


@deprecated(DEPRECATION_WARNING)
def convert(
    module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False,
    convert_custom_config_dict=None, use_precomputed_fake_quant=False,
):
    """Replaces modules by quantised ones that take their scales from the observers.

    Args:
        module: The model, prepared and calibrated or trained.
        mapping: Quantised classes by classes of floats.
        inplace: Whether the model itself is changed.
        remove_qconfig: Whether configurations and observers are removed.
        is_reference: Whether modules compute in floats with quantised weights.
        convert_custom_config_dict: ``{"observed_to_quantized_custom_module_class": {class: class}}``.
        use_precomputed_fake_quant: Whether weights keep the scales that fake quantisers have.
    """
    if not inplace:
        module = copy.deepcopy(module)
    _convert(
        module, mapping, inplace=True, is_reference=is_reference,
        convert_custom_config_dict=convert_custom_config_dict,
        use_precomputed_fake_quant=use_precomputed_fake_quant,
    )
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(
    module, mapping=None, inplace=False, is_reference=False, convert_custom_config_dict=None,
    use_precomputed_fake_quant=False,
):
    if mapping is None:
        mapping = (
            get_default_static_quant_reference_module_mappings()
            if is_reference
            else get_default_static_quant_module_mappings()
        )
    if convert_custom_config_dict is None:
        convert_custom_config_dict = get_default_custom_config_dict()
    custom = convert_custom_config_dict.get("observed_to_quantized_custom_module_class", {})
    if not inplace:
        module = copy.deepcopy(module)
    swapped = {}
    for name, child in module.named_children():
        if not isinstance(child, _FusedModule) and type_before_parametrizations(child) not in custom:
            _convert(
                child, mapping, True, is_reference, convert_custom_config_dict, use_precomputed_fake_quant
            )
        swapped[name] = swap_module(child, mapping, custom, use_precomputed_fake_quant)
    module._modules.update(swapped)
    return module


def _quantized(mod, kind, use_precomputed_fake_quant):
    """The module as one of a quantised class."""
    if getattr(kind, "_IS_REFERENCE", False):
        weight_observer = mod.qconfig.weight()
        weight_observer(mod.weight)
        return kind.from_float(mod, get_qparam_dict(weight_observer))
    if "use_precomputed_fake_quant" in inspect.signature(kind.from_float).parameters:
        return kind.from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    return kind.from_float(mod)


def swap_module(mod, mapping, custom_module_class_mapping, use_precomputed_fake_quant=False):
    """The quantised module of a module, with its hooks and on its device; or the module itself, if it has
    no configuration or no quantised class."""
    kind = type_before_parametrizations(mod)
    if not _needs_observation(mod):
        return mod
    if kind in custom_module_class_mapping:
        swapped = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        swapped = _quantized(mod, mapping[kind], use_precomputed_fake_quant)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        swapped.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            swapped.register_forward_hook(hook)
    devices = _get_unique_devices_(mod)
    if len(devices) > 1:
        raise AssertionError(
            f"swap_module only works with cpu or single-device CUDA modules, but got devices {devices}"
        )
    if devices:
        swapped.to(next(iter(devices)))
    return swapped


def _get_observer_dict(mod, target_dict, prefix=""):
    """Collects a model's observers by the names of their modules."""
    start = prefix + "." if prefix else ""
    if hasattr(mod, "activation_post_process"):
        target_dict[start + "activation_post_process"] = mod.activation_post_process
    for name, child in mod.named_children():
        _get_observer_dict(child, target_dict, start + name)
