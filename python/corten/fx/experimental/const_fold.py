"""What depends on attributes only, computed once."""

from __future__ import annotations

import corten
from corten import fx, nn

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(fx.GraphModule):
    """A module whose constant part runs once: at its first call, or when it is asked to."""

    def __init__(self, root, graph, const_subgraph=None, fx_const_folded_attrs_name=None, device_for_folded_attrs="cuda"):
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else fx.GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args)

    def run_folding(self):
        """Runs the constant part, whose results become attributes."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        values = self.const_subgraph_module()

        def parameter(value):
            return nn.Parameter(value.detach(), requires_grad=value.requires_grad) if isinstance(
                value, corten.Tensor
            ) and (value.is_floating_point() or value.is_complex()) else nn.Parameter(value, requires_grad=False)

        params = nn.ParameterList([parameter(one) for one in values]) if isinstance(values, tuple) else parameter(values)
        setattr(self, self.fx_const_folded_attrs_name, params)


def get_unique_attr_name_in_module(mod_traced, name):
    """A name like ``name`` that no attribute of a module has."""
    import re

    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        found = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if found is None else f"{found[1]}_{int(found[2]) + 1}"
    return name


def _constant_nodes(traced, skip):
    constant = set()
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output") or node.is_impure() or (skip and skip(node)):
            continue
        if node.op == "get_attr" or (node.all_input_nodes and set(node.all_input_nodes) <= constant):
            constant.add(node)
    return constant


def split_const_subgraphs(module, skip_folding_node_fn=None, device_for_folded_attrs="cpu"):
    """A module with the part of its graph that depends on attributes only apart."""
    traced = module if isinstance(module, fx.GraphModule) else fx.symbolic_trace(module)
    constant = _constant_nodes(traced, skip_folding_node_fn)
    results = [
        node for node in constant
        if node.op != "get_attr" and any(user not in constant for user in node.users)
    ]
    if not results:
        return FoldedGraphModule(traced, traced.graph)
    results.sort(key=lambda node: node._place())
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    first, second = fx.Graph(), fx.Graph()
    values, others = {}, {}
    for node in traced.graph.nodes:
        if node in constant:
            values[node] = first.node_copy(node, lambda one: values[one])
            if node.op == "get_attr":
                others[node] = second.node_copy(node, lambda one: others[one])
            elif node in results:
                place = f".{results.index(node)}" if len(results) > 1 else ""
                others[node] = second.get_attr(name + place)
        else:
            others[node] = second.node_copy(node, lambda one: others[one])
    made = tuple(values[node] for node in results)
    first.output(made if len(made) > 1 else made[0])
    second.eliminate_dead_code()
    empty = [nn.Parameter(corten.empty(0)) for _ in results]
    setattr(traced, name, nn.ParameterList(empty) if len(empty) > 1 else empty[0])
    second.lint()
    return FoldedGraphModule(traced, second, first, name, device_for_folded_attrs)
