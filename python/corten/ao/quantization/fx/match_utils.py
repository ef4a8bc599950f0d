"""Finds patterns in graphs."""

from __future__ import annotations

import sys
from collections import namedtuple

from corten import nn
from corten.fx import Node
from corten.nn.utils.parametrize import type_before_parametrizations

from ..utils import MatchAllNode
from .graph_module import _is_observed_standalone_module
from .quantize_handler import QuantizeHandler

__all__: list[str] = []

#: The last node, all nodes in the pattern's form, the pattern, its handler and the configuration.
Match = namedtuple("Match", "last nodes pattern handler qconfig", defaults=(None,))


def _is_match(modules, node, pattern, max_uses=sys.maxsize):
    """Whether a pattern ends at a node; nodes within it have no user outside of it."""
    first, *rest = pattern if isinstance(pattern, tuple) else (pattern,)
    if isinstance(first, type) and issubclass(first, MatchAllNode):
        return True
    if node == pattern:
        return True
    if not isinstance(node, Node) or len(node.users) > max_uses:
        return False
    if isinstance(first, type) and issubclass(first, nn.Module):
        same = node.op == "call_module" and type_before_parametrizations(modules[node.target]) == first
    elif first is getattr:
        same = node.op == "call_function" and node.target is getattr and node.args[1] == rest.pop()
    elif callable(first):
        same = node.op == "call_function" and node.target is first
    elif isinstance(first, str):
        same = node.op == "call_method" and node.target == first
    else:
        same = node.target == first
    if not same or not rest:
        return same
    return len(rest) == len(node.args) and all(
        _is_match(modules, arg, part, max_uses=1) for arg, part in zip(node.args, rest)
    )


def _record(pattern, node, nodes):
    """Appends the nodes that match, in the pattern's form."""
    if not isinstance(pattern, tuple):
        nodes.append(node)
        return
    first, *rest = pattern
    _record(first, node, nodes)
    within = []
    for part, arg in zip(rest, node.args):
        _record(part, arg, within)
    if len(within) > 1 and len(rest) == 1:
        nodes.append(tuple(within))
    else:
        nodes.extend(within)


def _nodes_of(nodes):
    if isinstance(nodes, Node):
        yield nodes
    elif isinstance(nodes, (list, tuple)):
        for one in nodes:
            yield from _nodes_of(one)


def _find_matches(
    graph, modules, patterns, root_node_getter_mapping, standalone_module_names=(),
    standalone_module_classes=(), custom_module_classes=(),
):
    """The matches by names of nodes. Matches are looked for from the graph's end, and a node is in one."""
    found = {}
    for node in reversed(graph.nodes):
        if node.name in found:
            continue
        for pattern, handler_class in patterns.items():
            if _is_match(modules, node, pattern):
                nodes = []
                _record(pattern, node, nodes)
                handler = handler_class(nodes, modules, root_node_getter_mapping.get(pattern))
                for one in _nodes_of(nodes):
                    found[one.name] = Match(node, nodes, pattern, handler)
                break
    for node in graph.nodes:
        if node.op == "call_module" and type(modules[node.target]) in custom_module_classes:
            handler = QuantizeHandler(node, modules, is_custom_module=True)
            found[node.name] = Match(node, node, None, handler)
    for node in graph.nodes:
        if node.op != "call_module":
            continue
        module = modules[node.target]
        apart = node.target in standalone_module_names or type(module) in standalone_module_classes
        if apart or _is_observed_standalone_module(module):
            handler = QuantizeHandler(node, modules, is_standalone_module=True)
            found[node.name] = Match(node, node, None, handler)
    return found
