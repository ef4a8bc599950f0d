"""Fuses modules in graphs."""

from __future__ import annotations

import warnings

from corten.fx import Graph, GraphModule, map_arg

from ..backend_config import BackendConfig, get_native_backend_config
from ..backend_config.utils import (
    get_fuser_method_mapping, get_fusion_pattern_to_extra_inputs_getter,
    get_fusion_pattern_to_root_node_getter,
)
from .custom_config import FuseCustomConfig
from .fuse_handler import DefaultFuseHandler, FuseHandler
from .match_utils import MatchAllNode, _is_match
from .pattern_utils import _sorted_patterns_dict
from .quantize_handler import _default_root_node_getter

__all__ = ["fuse", "FuseHandler"]


def of_dict(kind, given, what, stacklevel=3):
    """A configuration, or that of its dictionary with a warning."""
    if not isinstance(given, dict):
        return given
    warnings.warn(
        f"Passing a {what} is deprecated and will not be supported in a future version. "
        f"Please pass in a {kind.__name__} instead.",
        FutureWarning,
        stacklevel=stacklevel,
    )
    return kind.from_dict(given)


def fuse(model, is_qat, fuse_custom_config=None, backend_config=None):
    """A graph module in which patterns of modules are fused that a backend fuses."""
    custom = of_dict(FuseCustomConfig, fuse_custom_config, "fuse_custom_config_dict to fuse")
    backend = of_dict(BackendConfig, backend_config, "backend_config_dict to prepare")
    if backend is None:
        backend = get_native_backend_config()
    methods = get_fuser_method_mapping(backend)
    roots = get_fusion_pattern_to_root_node_getter(backend)
    extras = get_fusion_pattern_to_extra_inputs_getter(backend)
    found, parts = _find_matches(model, _sorted_patterns_dict(dict.fromkeys(methods, DefaultFuseHandler)))
    modules, graph, copies = dict(model.named_modules()), Graph(), {}

    def load(args):
        return map_arg(args, lambda node: copies[node.name])

    for node in model.graph.nodes:
        last, pattern, nodes, handler = found.get(node.name, (None,) * 4)
        if last is node:
            root = roots.get(pattern, _default_root_node_getter)(nodes)
            extra = extras[pattern](nodes) if pattern in extras else []
            copies[node.name] = handler.fuse(
                load, modules, graph, root, extra, nodes, custom or FuseCustomConfig(), methods, is_qat
            )
        elif last is None or parts.get(node) is MatchAllNode:
            copies[node.name] = graph.node_copy(node, load)
    return GraphModule(model, graph)


def _find_matches(root, patterns):
    """By name of node: the last node, the pattern, the nodes in its form and a handler; and the part of
    its pattern that each node matches."""
    modules, found, parts = dict(root.named_modules()), {}, {}

    def record(pattern, node, match, nodes):
        if isinstance(pattern, tuple):
            first, *rest = pattern
            within = []
            record(first, node, match, within)
            for part, arg in zip(rest, node.args):
                record(part, arg, match, within)
            nodes.append(tuple(within))
        elif node.name not in found:
            nodes.append(node)
            if pattern is not MatchAllNode:
                parts[node] = pattern
                last, whole, handler = match
                found[node.name] = (last, whole, nodes, handler)

    for node in reversed(root.graph.nodes):
        if node.name not in found:
            for pattern, handler_class in patterns.items():
                if _is_match(modules, node, pattern):
                    record(pattern, node, (node, pattern, handler_class(node)), [])
                    break
    return found, parts
