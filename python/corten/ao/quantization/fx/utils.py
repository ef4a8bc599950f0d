"""Facts about nodes and modules of a graph that is quantised."""

from __future__ import annotations

import operator
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import corten
from corten import nn
from corten.fx import Graph, GraphModule, Node, map_arg

from ..observer import _is_activation_post_process
from ..quant_type import QuantType
from ..utils import _assert_and_get_unique_device as assert_and_get_unique_device

__all__ = [
    "all_node_args_except_first", "all_node_args_have_no_tensors", "assert_and_get_unique_device",
    "collect_producer_nodes", "create_getattr_from_value", "create_node_from_old_node_preserve_meta",
    "EMPTY_ARG_DICT", "get_custom_module_class_keys", "get_linear_prepack_op_for_dtype",
    "get_new_attr_name_with_prefix", "get_non_observable_arg_indexes_and_types", "get_qconv_prepack_op",
    "get_skipped_module_name_and_classes", "graph_module_from_producer_nodes", "maybe_get_next_module",
    "NodeInfo", "node_arg_is_bias", "node_arg_is_weight", "NON_OBSERVABLE_ARG_DICT",
    "NON_QUANTIZABLE_WEIGHT_OPS", "return_arg_list", "ObservedGraphModuleAttrs",
]

NON_QUANTIZABLE_WEIGHT_OPS = {
    nn.functional.layer_norm, nn.functional.group_norm, nn.functional.instance_norm,
}


@dataclass
class ObservedGraphModuleAttrs:
    """What preparation knows of a graph and conversion needs."""

    node_name_to_qconfig: dict
    node_name_to_scope: dict
    prepare_custom_config: Any
    equalization_node_name_to_qconfig: dict
    qconfig_mapping: Any
    is_qat: bool
    observed_node_names: set
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: list | None = None
    standalone_module_output_quantized_idxs: list | None = None


def _arg_is(node, arg, name):
    index = node.meta.get("target_dtype_info", {}).get(f"{name}_index")
    if index is not None and index < len(node.args) and node.args[index] is arg:
        return True
    return node.kwargs.get(name) is arg


def node_arg_is_weight(node, arg):
    """Whether an argument is the node's weight."""
    return _arg_is(node, arg, "weight")


def node_arg_is_bias(node, arg):
    """Whether an argument is the node's bias."""
    return _arg_is(node, arg, "bias")


def get_custom_module_class_keys(custom_module_mapping):
    """The classes of a mapping by ways of quantisation."""
    kinds = (QuantType.STATIC, QuantType.DYNAMIC, QuantType.WEIGHT_ONLY)
    return list({one for kind in kinds for one in custom_module_mapping.get(kind, {})})


def get_linear_prepack_op_for_dtype(dtype):
    """The operator that packs the weight of a linear layer."""
    if dtype == corten.float16:
        return corten.ops.quantized.linear_prepack_fp16
    if dtype == corten.qint8:
        return corten.ops.quantized.linear_prepack
    raise Exception("can't get linear prepack op for dtype:", dtype)


def get_qconv_prepack_op(conv_op):
    """The operator that packs the weight of a convolution."""
    for name in [f"conv{kind}{d}d" for kind in ("", "_transpose") for d in (1, 2, 3)]:
        if conv_op is getattr(nn.functional, name):
            return getattr(corten.ops.quantized, f"{name}_prepack")
    raise AssertionError(f"Didn't find prepack op for {conv_op}")


def get_new_attr_name_with_prefix(prefix):
    """A function of a module that gives the first free name of this prefix and a number."""
    prefix = prefix.replace(".", "_")

    def get_new_attr_name(module):
        number = 0
        while hasattr(module, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    return get_new_attr_name


def collect_producer_nodes(node):
    """The node and all that it is computed of, or None if an input of the graph is among them."""
    nodes, frontier = [node], [node]
    while frontier:
        node = frontier.pop()
        for arg in (*node.args, *node.kwargs.values()):
            if not isinstance(arg, Node):
                continue
            if arg.op == "placeholder":
                return None
            nodes.append(arg)
            if not (arg.op == "call_function" and arg.target is getattr):
                frontier.append(arg)
    return nodes


def graph_module_from_producer_nodes(root, producer_nodes):
    """A graph module that computes the first of what :func:`collect_producer_nodes` returned."""
    if not producer_nodes:
        raise AssertionError("list of producer nodes can not be empty")
    producer_nodes.reverse()
    graph, copies = Graph(), {}

    def load(args):
        return map_arg(args, lambda node: copies[node])

    for node in producer_nodes:
        copies[node] = graph.node_copy(node, load)
    graph.output(load(producer_nodes[-1]))
    return GraphModule(root, graph)


def create_getattr_from_value(module, graph, prefix, value, device=None):
    """Makes a value a buffer of a free name, and a node that reads it."""
    name = get_new_attr_name_with_prefix(prefix)(module)
    if isinstance(value, corten.Tensor):
        value = value.detach().clone()
    else:
        device = assert_and_get_unique_device(module) if device is None else device
        value = corten.tensor(value, device=device)
    module.register_buffer(name, value)
    return graph.create_node("get_attr", name)


def all_node_args_have_no_tensors(node, modules, cache=None):
    """Whether a node is a number or a shape: nothing that it is computed of is a tensor."""
    known = {} if cache is None else cache
    if not isinstance(node, Node):
        return True
    if node not in known:
        known[node] = _has_no_tensors(node, modules, known)
    return known[node]


def _has_no_tensors(node, modules, known):
    if node.op in ("placeholder", "get_attr"):
        return False
    if node.op == "call_module":
        observing = _is_activation_post_process(modules[node.target])
        return observing and all_node_args_have_no_tensors(node.args[0], modules, known)
    if node.op == "call_function" and node.target is operator.getitem:
        return all_node_args_have_no_tensors(node.args[0], modules, known)
    if node.target is getattr and node.args[1] in ("ndim", "shape"):
        return True
    if node.op == "call_method" and node.target == "size":
        return True
    for arg in node.args:
        if isinstance(arg, list):
            if not all(all_node_args_have_no_tensors(one, modules, known) for one in arg):
                return False
        elif isinstance(arg, Node):
            if not all_node_args_have_no_tensors(arg, modules, known):
                return False
        elif not isinstance(arg, int):
            # What neither is a number nor a node is taken for something that holds tensors.
            return False
    return len(node.args) > 0


def all_node_args_except_first(node):
    """Positions of all arguments but the first."""
    return list(range(1, len(node.args)))


def return_arg_list(arg_indices):
    """A function of a node that gives those of these positions that its arguments have."""

    def arg_indices_func(node):
        return [index for index in arg_indices if index < len(node.args)]

    return arg_indices_func


NodeInfo = namedtuple("NodeInfo", "op target")

_NUMBERS = {int: all_node_args_except_first}
_SECOND_NUMBER = {int: return_arg_list([1])}
#: Arguments that are never observed, by operation and by their type.
NON_OBSERVABLE_ARG_DICT = {
    NodeInfo("call_method", "masked_fill"): {
        corten.bool: return_arg_list([1]), float: return_arg_list([2]),
    },
    **{
        NodeInfo("call_method", name): _NUMBERS
        for name in (corten.transpose, *"permute repeat reshape transpose view".split())
    },
    **{
        NodeInfo("call_method", name): _SECOND_NUMBER
        for name in ("size", "unsqueeze", "unsqueeze_", corten.unsqueeze)
    },
}
EMPTY_ARG_DICT: dict = {}


def get_non_observable_arg_indexes_and_types(node):
    """Positions of a node's arguments that are never observed, by their type."""
    return NON_OBSERVABLE_ARG_DICT.get(NodeInfo(node.op, node.target), EMPTY_ARG_DICT)


def maybe_get_next_module(node, modules, target_module_type=None, target_functional_type=None):
    """The first user of a node that is a module of this class or a call of this function, or None."""
    for user in node.users:
        if user.op == "call_module" and target_module_type is not None:
            if isinstance(modules[str(user.target)], target_module_type):
                return user
        elif user.op == "call_function" and target_functional_type is not None:
            if user.target == target_functional_type:
                return user
    return None


def create_node_from_old_node_preserve_meta(quantized_graph, create_node_args, old_node):
    """A new node with the old one's stack trace."""
    new = quantized_graph.create_node(*create_node_args)
    new.stack_trace = old_node.stack_trace
    return new


def get_skipped_module_name_and_classes(prepare_custom_config, is_standalone_module):
    """Names and classes of modules that become one node."""
    custom = prepare_custom_config
    names = list(custom.non_traceable_module_names)
    classes = list(custom.non_traceable_module_classes)
    if not is_standalone_module:
        names += custom.standalone_module_names
        classes += custom.standalone_module_classes
        classes += get_custom_module_class_keys(custom.float_to_observed_mapping)
    return names, classes


def _get_module(node, named_modules):
    """The module that a node calls, or None."""
    return named_modules.get(str(node.target)) if node.op == "call_module" else None


def is_dequantize_node(node):
    """Whether a node is a call of ``dequantize``."""
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"


def __getattr__(name):
    """What has to do with recurrent layers of a custom class lies apart, and is found here as in PyTorch."""
    from . import _custom_lstm, _support

    for module in (_custom_lstm, _support):
        if not name.startswith("__") and name in vars(module):
            return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
