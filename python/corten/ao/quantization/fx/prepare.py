"""Puts observers into graphs."""

from __future__ import annotations

import copy

import corten
from corten.fx import GraphModule, Node

from ..backend_config import BackendConfig, get_native_backend_config
from ..backend_config.utils import (
    get_fusion_pattern_to_root_node_getter, get_module_to_qat_module, get_pattern_to_dtype_configs,
)
from ..observer import PlaceholderObserver, _is_activation_post_process
from ..qconfig import (
    _default_fp32_placeholder_qconfig, _default_quint8_placeholder_qconfig, _is_reuse_input_qconfig,
)
from ..qconfig_mapping import QConfigMapping
from ..quantize import _convert, propagate_qconfig_
from ..utils import _parent_name, get_qconfig_dtypes, get_swapped_custom_module_class
from ._custom_lstm import (
    _insert_dequant_stubs_for_custom_module_lstm_output, _is_custom_module_lstm,
    _maybe_get_custom_module_lstm_from_node_arg,
)
from ._support import FLOAT, dtype_and_dynamic, supported
from .custom_config import PrepareCustomConfig, StandaloneModuleConfigEntry
from .fuse import of_dict
from .match_utils import Match, _find_matches, _nodes_of
from .pattern_utils import _sorted_patterns_dict
from .qconfig_mapping_utils import (
    _generate_node_name_to_qconfig, _get_flattened_qconfig_dict, _update_qconfig_for_fusion,
    _update_qconfig_for_qat,
)
from .quantize_handler import _default_root_node_getter, _get_pattern_to_quantize_handlers
from .utils import (
    NON_QUANTIZABLE_WEIGHT_OPS, ObservedGraphModuleAttrs, all_node_args_have_no_tensors,
    assert_and_get_unique_device, get_custom_module_class_keys, get_new_attr_name_with_prefix,
    get_non_observable_arg_indexes_and_types, node_arg_is_bias, node_arg_is_weight,
)

__all__ = ["prepare"]

_OBSERVED_DTYPES = [
    corten.quint8, corten.qint8, corten.qint32, corten.float16, corten.uint8, corten.int8, corten.int16,
    corten.int32, corten.float8_e5m2, corten.float8_e4m3fn,
]
_CALLS = ("call_module", "call_method", "call_function")
_NO_MATCH = Match(None, None, None, None)


def _placeholder_info(qconfig):
    return {
        "input_act_obs_or_fq_ctr": qconfig.activation, "output_act_obs_or_fq_ctr": qconfig.activation,
    }


def _unobserved_info():
    return {"input_act_obs_or_fq_ctr": None, "output_act_obs_or_fq_ctr": None}


def _info(node):
    return node.meta["target_dtype_info"]


def _needs_observer(before, wanted, dynamic, reuse=False, is_first=False):
    """Whether values of a dtype are to be observed to become those of another."""
    if dynamic:
        return is_first
    if reuse or wanted not in _OBSERVED_DTYPES:
        return False
    return before in [*_OBSERVED_DTYPES, corten.float] and wanted != before


class _Dtypes:
    """Finds which dtypes every node is to take and to give."""

    def __init__(self, model, matches, custom, backend):
        self.graph, self.matches, self.custom, self.backend = model.graph, matches, custom, backend
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.no_tensors, self.dtype_configs = {}, get_pattern_to_dtype_configs(backend)
        self.root_getters = get_fusion_pattern_to_root_node_getter(backend)

    def find(self):
        """Writes ``target_dtype_info`` into all nodes."""
        for node in self.graph.nodes:
            node.meta["target_dtype_info"] = _placeholder_info(_default_fp32_placeholder_qconfig)
        seen = set()
        for match in self.matches.values():
            self.set_matched(match, match.qconfig, match.handler, seen)
        self.set_ends()
        self.propagate_known()
        seen = set()
        for match in self.matches.values():
            if not self.is_supported(match):
                self.set_matched(match, _default_fp32_placeholder_qconfig, None, seen)

    def is_supported(self, match):
        """Whether the backend supports the dtypes of a match."""
        if match.pattern is None:
            return True
        return supported(match, self.root(match), self.dtype_configs.get(match.pattern, []))

    def root(self, match):
        """The node of a match that takes the inputs."""
        return self.root_getters.get(match.pattern, _default_root_node_getter)(match.nodes)

    def set_matched(self, match, qconfig, handler, seen):
        for node in _nodes_of(match.nodes):
            if node not in seen:
                seen.add(node)
                if qconfig is not None:
                    node.meta["target_dtype_info"] = self.info(node, qconfig, handler)

    def without_tensors(self, node):
        return all_node_args_have_no_tensors(node, self.modules, self.no_tensors)

    def info(self, node, qconfig, handler):
        if self.without_tensors(node):
            return _unobserved_info()
        activation, weight, dynamic = get_qconfig_dtypes(qconfig)
        half = activation == weight == corten.float16 and not dynamic
        index = {}
        if node.op == "call_function":
            config = self.backend._pattern_complex_format_to_config.get(node.target)
            index = config._input_type_to_index if config is not None else {}
        return {
            "input_act_obs_or_fq_ctr": qconfig.activation,
            "weight_obs_or_fq_ctr": qconfig.weight,
            "bias_obs_or_fq_ctr": PlaceholderObserver.with_args(
                dtype=corten.float16 if half else corten.float
            ),
            "weight_index": index.get("weight"),
            "bias_index": index.get("bias"),
            "output_act_obs_or_fq_ctr": qconfig.activation,
            "reuse_input_obs_or_fq": _is_reuse_input_qconfig(qconfig),
            "input_output_share_observers": handler is not None and handler.is_general_tensor_value_op(),
            "_is_standalone_module": handler is not None and handler.is_standalone_module(),
        }

    def set_ends(self):
        """Inputs and outputs that are quantised, and nodes that have to do with numbers only."""
        inputs = outputs = 0
        quantized = _default_quint8_placeholder_qconfig
        for node in self.graph.nodes:
            if node.op == "placeholder":
                if inputs in self.custom.input_quantized_indexes:
                    node.meta["target_dtype_info"] = _placeholder_info(quantized)
                inputs += 1
            elif node.op in _CALLS and self.without_tensors(node):
                node.meta["target_dtype_info"] = _unobserved_info()
            elif node.op == "output":
                if outputs in self.custom.output_quantized_indexes:
                    node.meta["target_dtype_info"] = _placeholder_info(quantized)
                outputs += 1

    def propagate_known(self):
        """What sizes and dimensions are computed of is not observed."""
        for node in self.graph.nodes:
            for indexes in get_non_observable_arg_indexes_and_types(node).values():
                for index in indexes(node):
                    arg = node.args[index]
                    for one in arg if isinstance(arg, (tuple, list)) else (arg,):
                        if isinstance(one, Node):
                            self.unobserve(one)

    def unobserve(self, node):
        while isinstance(node, Node):
            _info(node).update(_unobserved_info())
            handler = self.matches.get(node.name, _NO_MATCH).handler
            if handler is None or not handler.is_general_tensor_value_op():
                return
            node = node.args[0]


class _Observers:
    """Inserts observers into a graph whose nodes know their dtypes."""

    def __init__(self, model, dtypes, custom, backend, observed_node_names):
        self.model, self.graph, self.dtypes = model, model.graph, dtypes
        self.modules, self.matches = dtypes.modules, dtypes.matches
        self.custom, self.backend, self.observed = custom, backend, observed_node_names
        self.device = assert_and_get_unique_device(model)
        self.swapped = set()

    def insert(self):
        """Inserts all; returns the output node."""
        output = None
        for node in list(self.graph.nodes):
            match = self.matches.get(node.name, _NO_MATCH)
            if node.op == "output":
                output = node
                node.args = tuple(self.at_output(arg) for arg in node.args)
            elif node.op in _CALLS and match.qconfig is not None and self.dtypes.is_supported(match):
                self.at_match(node, match)
        return output

    def at_match(self, node, match):
        self.observed.update(one.name for one in _nodes_of(match.nodes))
        if node is self.dtypes.root(match):
            self.at_inputs(node, match)
        if node is not match.last:
            return
        if _is_custom_module_lstm(node, self.modules, match.qconfig, match.handler):
            _insert_dequant_stubs_for_custom_module_lstm_output(
                node, self.model, self.modules, self.graph
            )
            self.swap_custom(node, match.qconfig)
        else:
            self.behind(node, match)

    def is_observer(self, node):
        return (
            isinstance(node, Node)
            and node.op == "call_module"
            and _is_activation_post_process(self.modules[str(node.target)])
        )

    def new_observer(self, node, made):
        if self.device:
            made.to(self.device)
        name = get_new_attr_name_with_prefix("activation_post_process_")(self.model)
        setattr(self.model, name, made)
        self.modules[name] = made
        with self.graph.inserting_after(node):
            return self.graph.create_node("call_module", name, (node,), {})

    def output_constructor(self, node):
        """What makes the observer of a node's output; of an observer, of what it observes."""
        lstm = _maybe_get_custom_module_lstm_from_node_arg(node, self.modules)
        if lstm is not None:
            node = lstm
        elif self.is_observer(node):
            node = node.args[0]
        return node.meta.get("target_dtype_info", {}).get("output_act_obs_or_fq_ctr", FLOAT)

    def input_constructor(self, arg, node):
        """What makes the observer of a node's argument."""
        info = _info(node)
        if node_arg_is_weight(node, arg):
            if node.target in NON_QUANTIZABLE_WEIGHT_OPS:
                return None
            return info.get("weight_obs_or_fq_ctr", FLOAT)
        name = "bias" if node_arg_is_bias(node, arg) else "input_act"
        return info.get(f"{name}_obs_or_fq_ctr", FLOAT)

    def at_inputs(self, node, match):
        args = tuple(self.at_input(node, arg, match) for arg in node.args)
        kwargs = {name: self.at_input(node, arg, match) for name, arg in node.kwargs.items()}
        node.args, node.kwargs = args, kwargs

    def at_input(self, node, arg, match):
        """The argument, behind an observer if it needs one."""
        if isinstance(arg, (list, tuple)):
            return type(arg)([self.at_input(node, one, match) for one in arg])
        if not isinstance(arg, Node):
            return arg
        before, _dynamic = dtype_and_dynamic(self.output_constructor(arg))
        if match.handler.is_standalone_module():
            constructor = match.qconfig.activation
            wanted = self.dtype_in_standalone(node, arg, match)
            needed = wanted is not None and before != wanted and wanted != corten.float
        else:
            constructor = self.input_constructor(arg, node)
            wanted, dynamic = dtype_and_dynamic(constructor)
            first = len(node.args) > 0 and arg is node.args[0]
            reuse = _info(node).get("reuse_input_obs_or_fq", False)
            needed = _needs_observer(before, wanted, dynamic, reuse, first)
        if not needed:
            return arg
        made = constructor()
        for user in arg.users:
            known = self.modules[user.target] if user.op == "call_module" else None
            if type(known) is type(made) and known.dtype == wanted:
                return user
        return self.new_observer(arg, made)

    def dtype_in_standalone(self, node, arg, match):
        """The dtype that a module that is prepared apart takes, or None for what is no argument by place."""
        custom = _standalone_entry(node, self.modules, self.custom, match.qconfig, self.backend)[2]
        for index, one in enumerate(node.args):
            if one is arg:
                quantized = index in custom.input_quantized_indexes
                return corten.quint8 if quantized else corten.float
        return None

    def behind(self, node, match):
        """Inserts the observer of a node's output."""
        info = _info(node)
        constructor = info.get("output_act_obs_or_fq_ctr")
        wanted, dynamic = dtype_and_dynamic(constructor)
        apart = info.get("_is_standalone_module", False)
        if apart or dynamic or not _needs_observer(corten.float, wanted, dynamic):
            return
        observer = self.new_observer(node, constructor())
        for user in list(node.users):
            if user is not observer:
                user.replace_input_with(node, observer)
        share = info.get("input_output_share_observers", False) and self.observed_in_graph(node)
        if share or info.get("reuse_input_obs_or_fq", False):
            if not self.share_with_input(node):
                for user in list(node.users):
                    user.replace_all_uses_with(node)
                    self.graph.erase_node(user)
        if match.handler.is_custom_module():
            self.swap_custom(node, match.qconfig)

    def observed_in_graph(self, node):
        """Whether the node's input may have an observer in this graph."""
        dtype, _dynamic = dtype_and_dynamic(self.output_constructor(node))
        first = node.args[0] if node.args else None
        from_outside = isinstance(first, Node) and first.op == "placeholder"
        return not (from_outside and dtype in (corten.quint8, corten.uint8))

    def observer_before(self, node):
        """The next observer on the way back along first nodes among arguments, or None."""
        while not self.is_observer(node):
            if not isinstance(node, Node) or node.op == "placeholder" or not node.args:
                return None
            node = next((arg for arg in node.args if isinstance(arg, Node)), node.args[-1])
        return node

    def share_with_input(self, node):
        """Makes the observer of the first input that of all inputs of a list and of the output; whether
        there is one."""
        inputs = next((arg for arg in node.args if isinstance(arg, (Node, list, tuple))), None)
        if inputs is None:
            return False
        first, *others = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        observer = self.observer_before(first)
        if observer is None:
            return False
        shared = self.modules[observer.target]
        for one in others:
            while not self.is_observer(one):
                if len(one.args) < 1:
                    return False
                one = one.args[0]
            self.replace_module(one.target, shared)
        for user in node.users:
            if not self.is_observer(user):
                raise AssertionError("output_obs_node must be an activation post process node")
            self.replace_module(user.target, shared)
        return True

    def replace_module(self, target, module):
        parent, name = _parent_name(target)
        setattr(self.modules[parent], name, module)
        self.modules[target] = module

    def swap_custom(self, node, qconfig):
        """Replaces a module of a custom class by its observed class."""
        if node.target in self.swapped:
            return
        self.swapped.add(node.target)
        module = self.modules[node.target]
        mapping = self.custom.float_to_observed_mapping
        observed = get_swapped_custom_module_class(module, mapping, qconfig).from_float(module)
        self.replace_module(node.target, observed)

    def at_output(self, arg):
        """What the graph returns, observed where outputs stay quantised."""
        if isinstance(arg, (list, tuple)):
            return type(arg)([self.at_output(one) for one in arg])
        if isinstance(arg, dict):
            return {key: self.at_output(one) for key, one in arg.items()}
        if arg is None:
            return None
        if not isinstance(arg, Node):
            raise Exception("Unhandled type for returned node:", arg)
        before, _dynamic = dtype_and_dynamic(self.output_constructor(arg))
        constructor = arg.meta.get("target_dtype_info", {}).get("input_act_obs_or_fq_ctr")
        wanted = dtype_and_dynamic(constructor)[0] if constructor else corten.float
        if wanted in (before, corten.float):
            return arg
        return self.new_observer(arg, constructor())


def _standalone_entry(node, modules, custom, qconfig, backend):
    """Mapping, example inputs, settings and backend of a module that is prepared apart."""
    name = str(node.target)
    entry = StandaloneModuleConfigEntry(None, (), None, None)
    entry = custom.standalone_module_classes.get(type(modules[name]), entry)
    entry = custom.standalone_module_names.get(name, entry)
    return (
        entry.qconfig_mapping or QConfigMapping().set_global(qconfig), entry.example_inputs,
        entry.prepare_custom_config or PrepareCustomConfig(), entry.backend_config or backend,
    )


def _prepare_standalone_modules(modules, matches, is_qat, custom, backend):
    from ..quantize_fx import _prepare_standalone_module_fx

    for match in matches.values():
        if not match.handler.is_standalone_module():
            continue
        node = match.last
        mapping, inputs, own, its_backend = _standalone_entry(node, modules, custom, match.qconfig, backend)
        observed = _prepare_standalone_module_fx(
            modules[node.target], mapping, is_qat, inputs, own, its_backend
        )
        parent, name = _parent_name(node.target)
        setattr(modules[parent], name, observed)
        modules[node.target] = observed


def prepare(
    model, qconfig_mapping, is_qat, node_name_to_scope, example_inputs, prepare_custom_config=None,
    _equalization_config=None, backend_config=None, is_standalone_module=False,
):
    """A graph module with observers, or fake quantisers, where a mapping asks for them and a backend
    supports it."""
    mapping = of_dict(QConfigMapping, qconfig_mapping, "QConfig dictionary to prepare")
    custom = of_dict(
        PrepareCustomConfig, prepare_custom_config, "prepare_custom_config_dict to prepare"
    ) or PrepareCustomConfig()
    backend = of_dict(BackendConfig, backend_config, "backend_config_dict to prepare")
    if backend is None:
        backend = get_native_backend_config()
    if not isinstance(mapping, QConfigMapping):
        raise AssertionError("qconfig_mapping must be a QConfigMapping")
    if _equalization_config is not None and _equalization_config.to_dict() != QConfigMapping().to_dict():
        raise NotImplementedError("prepare_fx: _equalization_config is not supported")
    mapping = copy.deepcopy(mapping)
    _update_qconfig_for_fusion(model, mapping)
    propagate_qconfig_(model, _get_flattened_qconfig_dict(mapping), custom.to_dict())
    if is_qat:
        _convert(model, get_module_to_qat_module(backend), inplace=True)
        _update_qconfig_for_qat(mapping, backend)
    modules = dict(model.named_modules(remove_duplicate=False))
    qconfigs = _generate_node_name_to_qconfig(model, modules, model.graph, mapping, node_name_to_scope)
    found = _find_matches(
        model.graph, modules, _sorted_patterns_dict(_get_pattern_to_quantize_handlers(backend)),
        get_fusion_pattern_to_root_node_getter(backend), custom.standalone_module_names,
        custom.standalone_module_classes, get_custom_module_class_keys(custom.float_to_observed_mapping),
    )
    matches = {name: match._replace(qconfig=qconfigs[name]) for name, match in found.items()}
    _prepare_standalone_modules(modules, matches, is_qat, custom, backend)
    dtypes, observed = _Dtypes(model, matches, custom, backend), set()
    dtypes.find()
    output = _Observers(model, dtypes, custom, backend, observed).insert()
    model = GraphModule(model, model.graph)
    attributes = ObservedGraphModuleAttrs(
        qconfigs, node_name_to_scope, custom, {}, mapping, is_qat, observed
    )
    model.meta["_observed_graph_module_attrs"] = attributes
    if is_standalone_module:
        _mark_standalone(attributes, output)
    return model


def _mark_standalone(attributes, output):
    if not isinstance(output.args[0], Node):
        raise AssertionError(
            "standalone module only supports returning simple value currently (not tuple, dict etc.)"
        )
    custom = attributes.prepare_custom_config
    attributes.is_observed_standalone_module = True
    attributes.standalone_module_input_quantized_idxs = custom.input_quantized_indexes
    attributes.standalone_module_output_quantized_idxs = custom.output_quantized_indexes
