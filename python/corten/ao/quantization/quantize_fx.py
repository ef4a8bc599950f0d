"""Quantisation in graph mode: a model is traced, observers are put into its graph, and the graph converted."""

from __future__ import annotations

import copy

import corten
from corten.fx import GraphModule

from ._deprecated import deprecated
from .backend_config import BackendConfig, get_tensorrt_backend_config  # noqa: F401
from .fx.convert import convert
from .fx.custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .fx.fuse import fuse, of_dict
from .fx.graph_module import ObservedGraphModule  # noqa: F401
from .fx.prepare import prepare
from .fx.tracer import QuantizationTracer, Scope, ScopeContextManager  # noqa: F401
from .fx.utils import get_custom_module_class_keys, get_skipped_module_name_and_classes  # noqa: F401
from .qconfig_mapping import QConfigMapping  # noqa: F401
from .utils import DEPRECATION_WARNING

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def attach_preserved_attrs_to_model(model, preserved_attrs):
    """Sets attributes of a graph module, which are set on its copies too."""
    model.meta[_USER_PRESERVED_ATTRIBUTES_KEY] = copy.copy(preserved_attrs)
    for name, value in preserved_attrs.items():
        setattr(model, name, value)


def _check_is_graph_module(model):
    if not isinstance(model, GraphModule):
        raise ValueError(
            f"input model must be a GraphModule, Got type:{type(model)} Please make "
            "sure to follow the tutorials."
        )


def _swap_ff_with_fxff(model):
    """Functions as modules are traced through: each becomes a module without an observer."""
    import corten.ao.nn.quantized as nnq

    for name, module in list(model.named_children()):
        if isinstance(module, nnq.FloatFunctional):
            # At the end of the modules, where a new one goes.
            del model._modules[name]
            model._modules[name] = nnq.FXFloatFunctional()
        else:
            _swap_ff_with_fxff(module)


def _preserved(model, names):
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _prepare_fx(
    model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config=None, _equalization_config=None,
    backend_config=None, is_standalone_module=False,
):
    custom = of_dict(
        PrepareCustomConfig, prepare_custom_config, "prepare_custom_config_dict to prepare", 4
    ) or PrepareCustomConfig()
    _swap_ff_with_fxff(model)
    names, classes = get_skipped_module_name_and_classes(custom, is_standalone_module)
    preserved = _preserved(model, custom.preserved_attributes)
    tracer = QuantizationTracer(names, classes)
    traced = GraphModule(model, tracer.trace(model))
    fused = fuse(traced, is_qat, None, backend_config)
    prepared = prepare(
        fused, qconfig_mapping, is_qat, tracer.node_name_to_scope, example_inputs, custom,
        _equalization_config, backend_config, is_standalone_module,
    )
    attach_preserved_attrs_to_model(prepared, preserved)
    return prepared


def _prepare_standalone_module_fx(
    model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config=None, backend_config=None
):
    return _prepare_fx(
        model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config,
        backend_config=backend_config, is_standalone_module=True,
    )


def fuse_fx(model, fuse_custom_config=None, backend_config=None):
    """A graph module in which convolutions and linear layers are fused with what comes after them.

    Example::

        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
        >>> type(getattr(fuse_fx(model), "0")).__name__
        'LinearReLU'
    """
    custom = of_dict(FuseCustomConfig, fuse_custom_config, "fuse_custom_config_dict to fuse")
    preserved = _preserved(model, (custom or FuseCustomConfig()).preserved_attributes)
    fused = fuse(corten.fx.symbolic_trace(model), False, custom, backend_config)
    attach_preserved_attrs_to_model(fused, preserved)
    return fused


@deprecated(DEPRECATION_WARNING)
def prepare_fx(
    model, qconfig_mapping, example_inputs, prepare_custom_config=None, _equalization_config=None,
    backend_config=None,
):
    """A graph module of a model in evaluation mode, fused, with observers for calibration.

    Args:
        model: The model.
        qconfig_mapping: Configurations of operations, a :class:`QConfigMapping`.
        example_inputs: Inputs of the model; only their number matters.
        prepare_custom_config: Further settings, a ``PrepareCustomConfig``.
        backend_config: What can be quantised; ``get_native_backend_config()`` if it is not given.
    """
    return _prepare_fx(
        model, qconfig_mapping, False, example_inputs, prepare_custom_config, _equalization_config,
        backend_config,
    )


@deprecated(DEPRECATION_WARNING)
def prepare_qat_fx(
    model, qconfig_mapping, example_inputs, prepare_custom_config=None, backend_config=None
):
    """A graph module of a model in training mode, fused, with fake quantisers."""
    return _prepare_fx(
        model, qconfig_mapping, True, example_inputs, prepare_custom_config, backend_config=backend_config
    )


def _convert_fx(
    graph_module, is_reference, convert_custom_config=None, is_standalone_module=False,
    _remove_qconfig=True, qconfig_mapping=None, backend_config=None, is_decomposed=False,
    keep_original_weights=False,
):
    custom = of_dict(
        ConvertCustomConfig, convert_custom_config, "convert_custom_config_dict to convert", 4
    ) or ConvertCustomConfig()
    _check_is_graph_module(graph_module)
    preserved = _preserved(graph_module, custom.preserved_attributes)
    quantized = convert(
        graph_module, is_reference, custom, is_standalone_module, _remove_qconfig, qconfig_mapping,
        backend_config, is_decomposed, keep_original_weights,
    )
    attach_preserved_attrs_to_model(quantized, preserved)
    return quantized


@deprecated(DEPRECATION_WARNING)
def convert_fx(
    graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None,
    backend_config=None, keep_original_weights=False,
):
    """A quantised graph module of one that was prepared and calibrated or trained.

    Args:
        graph_module: What ``prepare_fx`` or ``prepare_qat_fx`` returned; it is changed.
        convert_custom_config: Further settings, a ``ConvertCustomConfig``.
        _remove_qconfig: Whether configurations are removed.
        qconfig_mapping: That of preparation, with None for what is not to be quantised after all.
        backend_config: What can be quantised; ``get_native_backend_config()`` if it is not given.
        keep_original_weights: Whether weights are kept beside packed ones.
    """
    return _convert_fx(
        graph_module, False, convert_custom_config, _remove_qconfig=_remove_qconfig,
        qconfig_mapping=qconfig_mapping, backend_config=backend_config,
        keep_original_weights=keep_original_weights,
    )


def convert_to_reference_fx(
    graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None,
    backend_config=None,
):
    """As :func:`convert_fx`, but operations stay those of floats, between dequantise and quantise."""
    return _convert_fx(
        graph_module, True, convert_custom_config, _remove_qconfig=_remove_qconfig,
        qconfig_mapping=qconfig_mapping, backend_config=backend_config,
    )


def _convert_to_reference_decomposed_fx(
    graph_module, convert_custom_config=None, qconfig_mapping=None, backend_config=None
):
    return _convert_fx(
        graph_module, True, convert_custom_config, _remove_qconfig=False, qconfig_mapping=qconfig_mapping,
        backend_config=backend_config, is_decomposed=True,
    )


def _convert_standalone_module_fx(graph_module, is_reference=False, convert_custom_config=None):
    return _convert_fx(graph_module, is_reference, convert_custom_config, is_standalone_module=True)
