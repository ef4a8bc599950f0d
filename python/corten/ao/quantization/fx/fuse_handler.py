"""Fuses the modules of a pattern that was found."""

from __future__ import annotations

from corten import nn
from corten.nn.utils.parametrize import type_before_parametrizations

from ..fuser_method_mappings import get_fuser_method_new
from ..utils import MatchAllNode, _parent_name

__all__ = ["DefaultFuseHandler", "FuseHandler"]


class FuseHandler:
    """Fuses what ends at a node."""

    def __init__(self, node):
        self.node = node


def _modules_of(nodes, named_modules, training):
    """Modules, or functions, of nodes in the pattern's form."""
    if isinstance(nodes, (tuple, list)):
        return tuple(_modules_of(one, named_modules, training) for one in nodes)
    if nodes.op == "call_module":
        return named_modules[nodes.target]
    if nodes.op == "call_function" and nodes.target is nn.functional.relu:
        relu = nn.ReLU()
        relu.training = training
        return relu
    return nodes.target if nodes.op in ("call_function", "call_method") else MatchAllNode


def _types_of(modules):
    if isinstance(modules, tuple):
        return tuple(map(_types_of, modules))
    return type_before_parametrizations(modules) if isinstance(modules, nn.Module) else modules


class DefaultFuseHandler(FuseHandler):
    """Replaces the root node's module by the fused one."""

    def fuse(
        self, load_arg, named_modules, fused_graph, root_node, extra_inputs, matched_node_pattern,
        fuse_custom_config, fuser_method_mapping, is_qat,
    ):
        """The node of the fused module in the new graph."""
        if root_node.op != "call_module":
            raise AssertionError("Expecting module node to be a call_module Node")
        training = named_modules[str(root_node.target)].training
        modules = _modules_of(matched_node_pattern, named_modules, training)
        method = get_fuser_method_new(_types_of(modules), fuser_method_mapping)
        parent, name = _parent_name(root_node.target)
        setattr(named_modules[parent], name, method(is_qat, *modules))
        node = fused_graph.node_copy(root_node, load_arg)
        node.args = (*node.args, *map(load_arg, extra_inputs))
        return node
