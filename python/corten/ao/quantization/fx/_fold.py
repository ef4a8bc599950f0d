"""Computes packed weights once."""

from __future__ import annotations

import corten
from corten.fx import Graph, GraphModule, map_arg

from .utils import (
    collect_producer_nodes, get_new_attr_name_with_prefix, graph_module_from_producer_nodes,
)

ORIGINAL_WEIGHTS_LOOKUP = "original_weights_lookup"
_PACKING = [
    "linear_prepack", "linear_prepack_fp16",
    *(f"conv{kind}{d}d_prepack" for kind in ("", "_transpose") for d in (1, 2, 3)),
]
WEIGHT_PREPACK_OPS = {getattr(corten.ops.quantized, name) for name in _PACKING}


def _packed_names(module):
    names = (name for name in dir(module) if "_packed_weight" in name)
    return [name for name in names if not isinstance(getattr(module, name), corten.Tensor)]


def _save_packed_weight(self, destination, prefix, keep_vars):
    """Puts packed weights into a model's state."""
    for name in _packed_names(self):
        destination[prefix + name] = getattr(self, name)


def _load_packed_weight(
    self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
):
    """Takes packed weights out of a state."""
    names = [name for name in state_dict if name.startswith("_packed_weight")]
    for name in names:
        if not isinstance(state_dict[name], corten.Tensor):
            setattr(self, name, state_dict.pop(name))


class _Folded:
    """The packed weights of a model, and the nodes that they are computed of."""

    def __init__(self, model, keep):
        self.weights, self.pack_node_of, self.originals = {}, {}, {}
        for node in model.graph.nodes:
            if node.op == "call_function" and node.target in WEIGHT_PREPACK_OPS:
                producers = collect_producer_nodes(node)
                if producers is not None:
                    self.pack_node_of.update((one.name, node) for one in producers)
                    packing = graph_module_from_producer_nodes(model, producers)
                    self.weights[node.name] = packing()
                    if keep:
                        self.originals[node.name] = self.original_weights(packing)

    @staticmethod
    def original_weights(packing):
        """Weight and bias, the larger first."""
        values = sorted(packing.state_dict().values(), key=lambda x: x.numel(), reverse=True)
        return values if len(values) > 1 else [*values, None]


def fold_weight(quantized_model, node_name_to_scope, keep_original_weights=False):
    """A graph module in which nodes that pack weights are read as attributes."""
    model, folded = quantized_model, _Folded(quantized_model, keep_original_weights)
    graph, copies, dead, lookup = Graph(), {}, [], {}

    def load(args):
        return map_arg(args, lambda node: copies[node.name])

    for node in model.graph.nodes:
        pack_node = folded.pack_node_of.get(node.name)
        if pack_node is not node:
            copies[node.name] = graph.node_copy(node, load)
            if pack_node is not None:
                dead.append(copies[node.name])
            continue
        path, _kind = node_name_to_scope[next(iter(node.users)).name]
        name = get_new_attr_name_with_prefix(path + "_packed_weight_")(model)
        setattr(model, name, folded.weights[node.name])
        copies[node.name] = graph.create_node("get_attr", name, (), {})
        if keep_original_weights:
            key = name.replace(":", "_").replace("/", "_").replace("|", "_").replace(" ", "").lower()
            lookup[key] = folded.originals[node.name]
    for node in reversed(dead):
        if not node.users:
            graph.erase_node(node)
    model = GraphModule(model, graph)
    model._register_state_dict_hook(_save_packed_weight)
    model.register_load_state_dict_pre_hook(_load_packed_weight)
    if keep_original_weights:
        setattr(model, ORIGINAL_WEIGHTS_LOOKUP, lookup)
    return model
