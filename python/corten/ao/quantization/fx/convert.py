"""Converts graphs with observers to quantised ones."""

from __future__ import annotations

import copy
import warnings

import corten
from corten import nn
from corten.ao.nn.intrinsic import _FusedModule
from corten.fx import GraphModule, Node
from corten.nn.utils.parametrize import type_before_parametrizations

from ..backend_config import BackendConfig, get_native_backend_config
from ..backend_config.utils import (
    get_fused_module_classes, get_pattern_to_dtype_configs, get_qat_module_classes,
    get_root_module_to_quantized_reference_module,
)
from ..observer import _is_activation_post_process
from ..qconfig import qconfig_equals
from ..qconfig_mapping import QConfigMapping
from ..quantize import _remove_qconfig
from ..stubs import DeQuantStub
from ..utils import (
    _parent_name, activation_is_statically_quantized, get_qparam_dict, get_swapped_custom_module_class,
    weight_is_quantized,
)
from ._custom_lstm import _is_custom_module_lstm, _is_custom_module_mha
from ._lower_to_native_backend import _lower_to_native_backend
from ._pairs import ObserverReplacer, _has_none_qconfig
from .custom_config import ConvertCustomConfig
from .fuse import of_dict
from .graph_module import _is_observed_module, _is_observed_standalone_module
from .qconfig_mapping_utils import (
    _compare_prepare_convert_qconfig_mappings, _generate_node_name_to_qconfig,
    _is_qconfig_supported_by_dtype_configs, _update_qconfig_for_fusion, _update_qconfig_for_qat,
)
from .utils import (
    _get_module, assert_and_get_unique_device, collect_producer_nodes, get_custom_module_class_keys,
    graph_module_from_producer_nodes, is_dequantize_node, node_arg_is_weight,
)

__all__ = ["convert"]


def _run_weight_observers(observed):
    """Shows the weights of functions to their observers."""
    for node in observed.graph.nodes:
        if node.op != "call_function":
            continue
        for arg in node.args:
            if isinstance(arg, Node) and node_arg_is_weight(node, arg):
                producers = collect_producer_nodes(arg)
                if producers is not None:
                    graph_module_from_producer_nodes(observed, producers)()


def _insert_dequantize_node(node, graph):
    with graph.inserting_after(node):
        dequantized = graph.call_method("dequantize", (node,))
        for user in list(node.users):
            if user is not dequantized:
                user.replace_input_with(node, dequantized)


def _remove_dequantize(arg, node):
    """Lets a node take quantised values in place of the dequantised ones of an argument."""
    if is_dequantize_node(arg):
        node.replace_input_with(arg, arg.args[0])
    elif isinstance(arg, (list, tuple, dict)):
        for one in arg.values() if isinstance(arg, dict) else arg:
            _remove_dequantize(one, node)
    else:
        warnings.warn(
            f"Unsupported node type in recursive remove dequantize: {type(arg)}", stacklevel=2
        )


class _Converter:
    """Converts the nodes of a graph, from its inputs to its output."""

    def __init__(self, model, attributes, qconfigs, custom, backend, is_reference, is_decomposed):
        self.model, self.graph, self.attributes, self.qconfigs = model, model.graph, attributes, qconfigs
        self.custom, self.backend, self.is_reference = custom, backend, is_reference
        self.is_decomposed, self.modules = is_decomposed, _modules(model)
        self.device = assert_and_get_unique_device(model)
        self.pairs = ObserverReplacer(
            model, self.modules, attributes.node_name_to_scope, qconfigs, self.device
        )
        self.references = get_root_module_to_quantized_reference_module(backend)
        self.trained, self.fused = get_qat_module_classes(backend), get_fused_module_classes(backend)
        self.weighted = {*self.references, *self.trained, *self.fused}
        self.custom_classes = get_custom_module_class_keys(custom.observed_to_quantized_mapping)
        self.static_custom = set()

    def convert(self):
        """Converts all nodes."""
        inputs = 0
        for node in list(self.graph.nodes):
            if node.op == "placeholder":
                if inputs in self.attributes.prepare_custom_config.input_quantized_indexes:
                    _insert_dequantize_node(node, self.graph)
                inputs += 1
            elif node.op == "output":
                self.output(node)
            elif node.op == "call_module":
                self.module(node)

    def output(self, node):
        indexes = self.attributes.prepare_custom_config.output_quantized_indexes
        if not indexes:
            return
        output = node.args[0]
        if isinstance(output, (list, tuple)):
            for index in indexes:
                _remove_dequantize(output[index], node)
        elif isinstance(output, (Node, dict)):
            if 0 in indexes:
                _remove_dequantize(output, node)
        else:
            warnings.warn(
                f"Unsupported node type for output_quantized_idxs: {type(output)}", stacklevel=2
            )

    def module(self, node):
        module = _get_module(node, self.modules)
        if module is None:
            raise AssertionError(
                "Expected module for call_module node to be present in modules mapping"
            )
        kind = type_before_parametrizations(module)
        if _is_activation_post_process(module):
            if node.args[0] in self.static_custom:
                self.dequantize_in_place_of(node)
            else:
                self.pairs.replace(node, self.is_decomposed)
        elif isinstance(module, DeQuantStub):
            self.dequantize_in_place_of(node)
        elif _is_observed_standalone_module(module):
            self.standalone(node, module)
        elif kind in self.weighted:
            if kind not in self.fused or type_before_parametrizations(module[0]) in self.references:
                self.with_weight(node, module)
        elif kind in self.custom_classes:
            self.custom_module(node, module)

    def dequantize_in_place_of(self, node):
        """A custom module gives quantised values: its observer's node becomes one that dequantises."""
        source = node.args[0]
        if not isinstance(source, Node):
            raise AssertionError(
                f"Expecting the for call custom module node to be a Node, but got {source}"
            )
        node.replace_all_uses_with(source)
        self.graph.erase_node(node)
        _insert_dequantize_node(source, self.graph)

    def set_module(self, node, module):
        parent, name = _parent_name(node.target)
        setattr(self.modules[parent], name, module)

    def standalone(self, node, module):
        """Converts a module that was prepared apart."""
        from ..quantize_fx import _convert_fx

        attributes = module.meta["_observed_graph_module_attrs"]
        for index, arg in enumerate(node.args):
            if index in attributes.standalone_module_input_quantized_idxs and is_dequantize_node(arg):
                self.take_quantized(node, arg)
        outputs = attributes.standalone_module_output_quantized_idxs
        if outputs:
            if outputs[0] != 0:
                raise AssertionError("Currently only quantized output idxs = [0] is supported")
            _insert_dequantize_node(node, self.graph)
        converted = _convert_fx(module, self.is_reference, backend_config=self.backend)
        self.set_module(node, converted)
        self.modules[str(node.target)] = converted

    def take_quantized(self, node, arg):
        if not isinstance(arg, Node):
            raise AssertionError(f"Expecting the argument for custom module node to be a Node, but got {arg}")
        if is_dequantize_node(arg):
            node.replace_input_with(arg, arg.args[0])
            if not arg.users:
                self.graph.erase_node(arg)

    def with_weight(self, node, module):
        """Replaces a module by one that computes in floats with a quantised weight."""
        qconfig, weight_quantizer = module.qconfig, None
        if isinstance(module, self.trained):
            weight_quantizer = module.weight_fake_quant
            module = module.to_float()
            self.set_module(node, module)
        observed = node.name in self.attributes.observed_node_names
        if qconfig is None or _has_none_qconfig(node, self.qconfigs) or not observed:
            return
        dtype_configs = get_pattern_to_dtype_configs(self.backend).get(type(module), [])
        if not _is_qconfig_supported_by_dtype_configs(qconfig, dtype_configs):
            return
        if not weight_is_quantized(qconfig):
            return
        fused = isinstance(module, _FusedModule)
        root = module[0] if fused else module
        qparams = {"is_decomposed": self.is_decomposed}
        qparams.update(self.weight_qparams(root, qconfig, weight_quantizer))
        reference = self.references.get(type_before_parametrizations(root))
        if reference is None:
            raise AssertionError(
                f"No reference quantized module class configured for {type_before_parametrizations(root)}"
            )
        converted = reference.from_float(root, qparams)
        if fused:
            module[0] = converted
        else:
            self.set_module(node, converted)

    def weight_qparams(self, root, qconfig, weight_quantizer):
        """Scales and zero points of a module's weight, or of each of its weights by name."""

        def of(weight, always=True):
            observer = qconfig.weight()
            if always or observer.dtype == corten.qint8:
                observer(weight)
            return get_qparam_dict(observer)

        if isinstance(root, nn.RNNCellBase):
            return {name: of(getattr(root, name)) for name in ("weight_ih", "weight_hh")}
        if isinstance(root, (nn.LSTM, nn.GRU)):
            names = [name for name in root._flat_weights_names if name.startswith("weight")]
            return {name: of(getattr(root, name), always=False) for name in names if hasattr(root, name)}
        trained = weight_quantizer is not None
        if not trained:
            weight_quantizer = qconfig.weight()
            device = self.device if self.device is not None else assert_and_get_unique_device(root)
            if device:
                weight_quantizer.to(device)
        # Operators on integers take the scales that were trained.
        if not (self.is_decomposed and self.is_reference and trained):
            weight_quantizer(root.weight)
        return get_qparam_dict(weight_quantizer)

    def custom_module(self, node, module):
        """Replaces a module of a custom class by its quantised class."""
        if activation_is_statically_quantized(module.qconfig):
            self.static_custom.add(node)
            if _is_custom_module_lstm(node, self.modules):
                two = len(node.args) == 2 and isinstance(node.args[1], tuple)
                if not (two and len(node.args[1]) == 2):
                    raise AssertionError(
                        "Expected LSTM custom module inputs to be (input, (hidden0, hidden1))"
                    )
                args = (node.args[0], *node.args[1])
            elif _is_custom_module_mha(node, self.modules):
                if len(node.args) != 3:
                    raise AssertionError("Expected MHA custom module inputs to be (query, key, value)")
                args = node.args
            else:
                args = node.args[:1]
                module.activation_post_process = self.observer_of(node)
            for arg in args:
                self.take_quantized(node, arg)
        mapping = self.custom.observed_to_quantized_mapping
        quantized = get_swapped_custom_module_class(module, mapping, module.qconfig)
        self.set_module(node, quantized.from_observed(module))

    def observer_of(self, node):
        for user in node.users:
            module = _get_module(user, self.modules)
            if module is not None and _is_activation_post_process(module):
                return module
        raise AssertionError(
            "Expected activation_post_process to be present for observed custom module"
        )


def _modules(model):
    return dict(model.named_modules(remove_duplicate=False))


def _qconfigs(model, attributes, mapping, backend):
    """Configurations of nodes: those of preparation, or those of a mapping, which may hold None in place."""
    if not mapping:
        return attributes.node_name_to_qconfig
    modules = copy.deepcopy(_modules(model))
    if attributes.is_qat:
        _update_qconfig_for_qat(mapping, backend)
    _update_qconfig_for_fusion(model, mapping)
    _compare_prepare_convert_qconfig_mappings(attributes.qconfig_mapping, mapping)
    found = _generate_node_name_to_qconfig(
        model, modules, model.graph, mapping, attributes.node_name_to_scope
    )
    for name, qconfig in attributes.node_name_to_qconfig.items():
        if name not in found:
            raise AssertionError(f"Expected key {name} in convert node_name_to_qconfig")
        if found[name] is not None and not qconfig_equals(qconfig, found[name]):
            raise AssertionError(
                f"Expected k {name} to have the same value in prepare and convert QConfigMappings, but "
                f"{qconfig} was updated to {found[name]}"
            )
    return found


def convert(
    model, is_reference=False, convert_custom_config=None, is_standalone_module=False,
    _remove_qconfig_flag=True, qconfig_mapping=None, backend_config=None, is_decomposed=False,
    keep_original_weights=False,
):
    """A graph module of quantised modules and operators, or, as a reference, of pairs of quantise and
    dequantise around modules that compute in floats."""
    custom = of_dict(
        ConvertCustomConfig, convert_custom_config, "convert_custom_config_dict to convert"
    ) or ConvertCustomConfig()
    mapping = copy.deepcopy(of_dict(QConfigMapping, qconfig_mapping, "QConfig dictionary to convert"))
    if not (mapping is None or isinstance(mapping, QConfigMapping)):
        raise AssertionError("qconfig_mapping must be None or a QConfigMapping")
    backend = of_dict(BackendConfig, backend_config, "backend_config_dict to prepare")
    if backend is None:
        backend = get_native_backend_config()
    if not _is_observed_module(model):
        raise AssertionError("incoming model must be produced by prepare_fx")
    attributes = model.meta["_observed_graph_module_attrs"]
    qconfigs = _qconfigs(model, attributes, mapping, backend)
    _run_weight_observers(model)
    _Converter(model, attributes, qconfigs, custom, backend, is_reference, is_decomposed).convert()
    model.graph.eliminate_dead_code()
    model = GraphModule(model, model.graph)
    if not is_reference:
        model = _lower_to_native_backend(
            model, qconfigs, attributes.node_name_to_scope, keep_original_weights
        )
    if _remove_qconfig_flag:
        _remove_qconfig(model)
    model.delete_all_unused_submodules()
    model.meta.pop("_observed_graph_module_attrs", None)
    return model
