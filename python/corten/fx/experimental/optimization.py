"""Passes for inference: batch normalisation into convolutions, dropout away."""

from __future__ import annotations

import copy

from corten import fx, nn
from corten.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["fuse", "remove_dropout", "replace_node_module"]

_PATTERNS = (
    (nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d),
)


def matches_module_pattern(pattern, node, modules):
    """Whether a node and the one before it call modules of these two classes."""
    if not node.args:
        return False
    for kind, one in zip(pattern, (node.args[0], node)):
        if not isinstance(one, fx.Node) or one.op != "call_module":
            return False
        if one.target not in modules or type(modules[one.target]) is not kind:
            return False
    return True


def replace_node_module(node, modules, new_module):
    """Puts another module at the place of the one that a node calls."""
    path, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[path], name, new_module)


def fuse(model, inplace=False, no_trace=False):
    """A model for inference whose batch normalisations are part of the convolutions before them."""
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, fx.GraphModule) else fx.symbolic_trace(model)
    modules, graph = dict(traced.named_modules()), copy.deepcopy(traced.graph)
    for pattern in _PATTERNS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            conv, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return fx.GraphModule(traced, graph)


def remove_dropout(model):
    """A model without its dropout modules."""
    traced = fx.symbolic_trace(model)

    class Without(fx.Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return Without(traced).transform()
