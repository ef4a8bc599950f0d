"""Configurations of the nodes of a graph."""

from __future__ import annotations

import re
from collections import defaultdict

import corten
from corten.ao.nn.intrinsic import _FusedModule

from ..backend_config.utils import get_module_to_qat_module
from ..observer import _is_activation_post_process
from ..qconfig import _add_module_to_qconfig_obs_ctr, qconfig_equals
from ..qconfig_mapping import (
    _MODULE_NAME_DICT_KEY, _MODULE_NAME_REGEX_DICT_KEY, _OBJECT_TYPE_DICT_KEY,
)
from ..utils import _parent_name, get_qconfig_dtypes

__all__: list[str] = []


def _update_qconfig_for_fusion(model, qconfig_mapping):
    """Gives fused classes the configuration of the classes within, which must have the same."""
    by_type = qconfig_mapping.object_type_qconfigs
    if not by_type:
        return
    modules = dict(model.named_modules())
    for node in model.graph.nodes:
        fused = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(fused, _FusedModule):
            continue
        first, *others = fused._modules.values()
        qconfig = by_type.get(type(first))
        for one in others:
            if not qconfig_equals(by_type.get(type(one)), qconfig):
                raise LookupError(
                    "During fusion, we need to specify the same qconfigs for all module types in "
                    f"{type(fused)} offending type: {type(one)}"
                )
        if qconfig is not None:
            by_type[type(fused)] = qconfig


def _update_qconfig_for_qat(qconfig_mapping, backend_config):
    """Gives classes in training the configuration of the classes that they stand for."""
    by_type = qconfig_mapping.object_type_qconfigs
    for kind, trained in get_module_to_qat_module(backend_config).items():
        if kind in by_type:
            by_type[trained] = by_type[kind]


def _get_object_type_qconfig(qconfig_mapping, object_type, fallback_qconfig):
    """The configuration of a type, or the one that is given."""
    return qconfig_mapping.object_type_qconfigs.get(object_type, fallback_qconfig)


def _get_module_name_regex_qconfig(qconfig_mapping, module_name, fallback_qconfig):
    """The configuration of the first expression that matches a name, or the one that is given."""
    for pattern, qconfig in qconfig_mapping.module_name_regex_qconfigs.items():
        if re.match(pattern, module_name):
            return qconfig
    return fallback_qconfig


def _get_module_name_qconfig(qconfig_mapping, module_name, fallback_qconfig):
    """The configuration of a module or of the next one around it, or the one that is given."""
    while module_name:
        if module_name in qconfig_mapping.module_name_qconfigs:
            return qconfig_mapping.module_name_qconfigs[module_name]
        module_name = _parent_name(module_name)[0]
    return fallback_qconfig


def _maybe_adjust_qconfig_for_module_type_or_name(qconfig_mapping, module_type, module_name, global_qconfig):
    """The configuration of a type or name; names have the last word."""
    qconfig = _get_object_type_qconfig(qconfig_mapping, module_type, global_qconfig)
    qconfig = _get_module_name_regex_qconfig(qconfig_mapping, module_name, qconfig)
    return _get_module_name_qconfig(qconfig_mapping, module_name, qconfig)


def _maybe_adjust_qconfig_for_module_name_object_type_order(
    qconfig_mapping, cur_module_path, cur_object_type, cur_object_type_idx, fallback_qconfig
):
    """The configuration of the operation at a place, or the one that is given."""
    place = (cur_module_path, cur_object_type, cur_object_type_idx)
    return qconfig_mapping.module_name_object_type_order_qconfigs.get(place, fallback_qconfig)


class _NodeConfigurations:
    """Finds configurations of nodes; counts operations by module for those that are given by place."""

    def __init__(self, modules, mapping, scopes):
        self.modules, self.mapping, self.scopes = modules, mapping, scopes
        self.counts = defaultdict(int)

    def of_type_or_name(self, kind, name, fallback):
        return _maybe_adjust_qconfig_for_module_type_or_name(self.mapping, kind, name, fallback)

    def of_place(self, module, kind, fallback):
        index = self.counts[module, kind]
        self.counts[module, kind] += 1
        return _maybe_adjust_qconfig_for_module_name_object_type_order(
            self.mapping, module, kind, index, fallback
        )

    def of_module(self, node):
        qconfig = self.of_type_or_name(
            type(self.modules[node.target]), node.target, self.mapping.global_qconfig
        )
        path, kind = self.scopes[node.name]
        return self.of_place(_parent_name(path)[0], kind, qconfig)

    def of_function(self, node):
        qconfig = _get_object_type_qconfig(self.mapping, node.target, self.mapping.global_qconfig)
        path, kind = self.scopes[node.name]
        return self.of_place(path, node.target, self.of_type_or_name(kind, path, qconfig))

    def of_method(self, node):
        path, kind = self.scopes[node.name]
        qconfig = self.of_type_or_name(node.target, path, self.mapping.global_qconfig)
        return self.of_type_or_name(kind, path, qconfig)

    def of_attribute(self, node):
        name = _parent_name(node.target)[0]
        return self.of_type_or_name(type(self.modules[name]), name, self.mapping.global_qconfig)


def _generate_node_name_to_qconfig(root, modules, input_graph, qconfig_mapping, node_name_to_scope):
    """Configurations by names of nodes; modules get theirs as ``qconfig``."""
    of = _NodeConfigurations(modules, qconfig_mapping, node_name_to_scope)
    by_op = {
        "get_attr": of.of_attribute, "call_function": of.of_function, "call_method": of.of_method,
        "call_module": of.of_module,
    }
    found = {}
    for node in input_graph.nodes:
        module = node.op == "call_module"
        if module and _is_activation_post_process(modules[node.target]):
            continue
        qconfig = None
        if node.op in by_op:
            qconfig = _add_module_to_qconfig_obs_ctr(by_op[node.op](node), modules.get(node.target))
        if module:
            modules[node.target].qconfig = qconfig
        found[node.name] = qconfig
    return found


def _compare_prepare_convert_qconfig_mappings(prepare_qconfig_mapping, convert_qconfig_mapping):
    """Refuses a mapping for conversion that differs from that of preparation otherwise than by None."""
    if not qconfig_equals(prepare_qconfig_mapping.global_qconfig, convert_qconfig_mapping.global_qconfig):
        raise AssertionError(
            "Expected global qconfigs to be the same in the prepare and convert quantization configs"
        )
    for key, style in (
        (_OBJECT_TYPE_DICT_KEY, "object_type_qconfigs"), (_MODULE_NAME_DICT_KEY, "module_name_qconfigs"),
        (_MODULE_NAME_REGEX_DICT_KEY, "module_name_regex_qconfigs"),
    ):
        before, after = getattr(prepare_qconfig_mapping, style), getattr(convert_qconfig_mapping, style)
        for name, qconfig in before.items():
            if name not in after:
                raise AssertionError(
                    f"Missing key {key} {name} in convert QConfigMapping when it was present in prepare"
                )
            if after[name] is not None and not qconfig_equals(qconfig, after[name]):
                raise AssertionError(
                    f"Expected convert QConfigMapping to have the same qconfig as prepare for key {key} "
                    f"{name}; prepare: {qconfig}; convert: {after[name]}"
                )


def _is_qconfig_supported_by_dtype_configs(qconfig, dtype_configs):
    """Whether one of the combinations is that of a configuration."""
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    half = activation == weight == corten.float16
    for config in dtype_configs:
        dtypes = (config.input_dtype, config.weight_dtype, config.output_dtype, config.bias_dtype)
        input, weights, output, bias = (dtype or corten.float for dtype in dtypes)
        if input != activation or weights != weight:
            continue
        if config.is_dynamic:
            if dynamic and output == corten.float:
                return True
        elif output == activation and bias == (corten.float16 if half else corten.float):
            return True
    return False


def _get_flattened_qconfig_dict(qconfig_mapping):
    """Configurations of the model, of types and of names in one dictionary."""
    return {
        "": qconfig_mapping.global_qconfig, **qconfig_mapping.object_type_qconfigs,
        **qconfig_mapping.module_name_qconfigs,
    }
