"""Recurrent layers of a custom class: their outputs are tuples of tuples, each of whose parts is dequantised."""

from __future__ import annotations

import operator

from corten import nn
from corten.fx import Node

from ..stubs import DeQuantStub
from ..utils import activation_is_statically_quantized
from .utils import _get_module, get_new_attr_name_with_prefix


def _is_custom_module(node, named_modules, kind, qconfig, qhandler):
    import corten.ao.nn.quantizable as quantizable

    module = _get_module(node, named_modules)
    if qconfig is None or qhandler is None:
        return isinstance(module, getattr(quantizable, kind))
    static = activation_is_statically_quantized(qconfig)
    return isinstance(module, getattr(nn, kind)) and static and qhandler.is_custom_module()


def _is_custom_module_lstm(node, named_modules, qconfig=None, qhandler=None):
    return _is_custom_module(node, named_modules, "LSTM", qconfig, qhandler)


def _is_custom_module_mha(node, named_modules, qconfig=None, qhandler=None):
    return _is_custom_module(node, named_modules, "MultiheadAttention", qconfig, qhandler)


def _insert_dequant_stub(node, model, named_modules, graph):
    name = get_new_attr_name_with_prefix("dequant_stub_")(model)
    stub = DeQuantStub()
    setattr(model, name, stub)
    named_modules[name] = stub
    with graph.inserting_after(node):
        return graph.call_module(name, (node,))


def _insert_dequant_stubs_for_custom_module_lstm_output(node, model, named_modules, graph):
    """Takes the output ``(output, (hidden, cell))`` apart, dequantises its parts and puts them together."""

    def item(of, index, after):
        with graph.inserting_after(after):
            return graph.call_function(operator.getitem, (of, index))

    def stub(of):
        return _insert_dequant_stub(of, model, named_modules, graph)

    def together(parts, after):
        with graph.inserting_after(after):
            return graph.call_function(tuple, (parts,))

    output = item(node, 0, node)
    output_stub = stub(output)
    hidden = item(node, 1, output_stub)
    first_stub = stub(item(hidden, 0, hidden))
    second_stub = stub(item(hidden, 1, first_stub))
    hidden_stubs = together([first_stub, second_stub], second_stub)
    whole = together([output_stub, hidden_stubs], hidden_stubs)
    for user in list(node.users):
        if user is not output and user is not hidden:
            user.replace_input_with(node, whole)
    _reroute_tuple_getitem_pattern(graph)
    return whole


def _is_call(node, target):
    return isinstance(node, Node) and node.op == "call_function" and node.target is target


def _reroute_tuple_getitem_pattern(graph):
    """What takes an item of a tuple takes what the tuple was made of."""
    for node in graph.nodes:
        if _is_call(node, operator.getitem) and _is_call(node.args[0], tuple):
            item = node.args[0].args[0][node.args[1]]
            for user in list(node.users):
                user.replace_input_with(node, item)


def _maybe_get_custom_module_lstm_from_node_arg(arg, named_modules):
    """The recurrent layer whose dequantised output, or part of it, an argument is; or None."""

    def is_stub(node):
        return isinstance(_get_module(node, named_modules), DeQuantStub)

    node = arg
    if _is_call(node, tuple):
        node = node.args[0][0]
    if not (isinstance(node, Node) and is_stub(node)):
        return None
    node, items = node.args[0], 0
    while _is_call(node, operator.getitem) and items < 2:
        node, items = node.args[0], items + 1
    return node if items and _is_custom_module_lstm(node, named_modules) else None
