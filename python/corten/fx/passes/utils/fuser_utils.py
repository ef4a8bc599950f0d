"""Modules in place of parts of graphs."""

from __future__ import annotations

import operator
from collections import deque

from corten.fx.graph import Graph
from corten.fx.node import Node

from .common import lift_subgraph_as_module

__all__ = [
    "erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort", "validate_partition",
]


def topo_sort(nodes):
    """Nodes such that all that a node reads is before it."""
    members = set(nodes)
    waits = {node: sum(one in members for one in node.all_input_nodes) for node in nodes}
    ready, made = deque(node for node in nodes if waits[node] == 0), []
    while ready:
        node = ready.popleft()
        made.append(node)
        for user in node.users:
            if user in members:
                waits[user] -= 1
                if waits[user] == 0:
                    ready.append(user)
    if len(made) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return made


def validate_partition(partition):
    """Whether nodes can be one: no way leads out of them and back."""
    members = set(partition)
    pending = deque(user for node in partition for user in node.users if user not in members)
    seen = set()
    while pending:
        node = pending.popleft()
        if node in members:
            return False
        if node not in seen:
            seen.add(node)
            pending += node.users
    return True


def fuse_as_graphmodule(gm, nodes, module_name, partition_lookup_table=None, *, always_return_tuple=False):
    """Nodes as a module, with the nodes that are its inputs and those that are its outputs.

    Raises:
        AssertionError: A node is not the module's, or the nodes cannot be one.
    """
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    graph, values, inputs, members = Graph(), {}, {}, set(nodes)

    def value(node):
        if node in values:
            return values[node]
        if node not in members and node not in inputs:
            if node.op == "get_attr":
                values[node] = graph.node_copy(node, lambda one: one)
                return values[node]
            made = graph.placeholder(node.name, type_expr=node.type)
            made.meta = dict(node.meta)
            inputs[node] = values[node] = made
        return values[node]

    for node in nodes:
        values[node] = graph.node_copy(node, value)
    outputs = [node for node in nodes if any(user not in members for user in node.users)]
    made = tuple(values[node] for node in outputs)
    graph.output(made[0] if len(made) == 1 and not always_return_tuple else made)
    graph.lint()
    module, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return module, tuple(inputs), tuple(outputs)


def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs):
    """Calls a module in place of the nodes that it is made of."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    last = max(orig_outputs, default=None, key=Node._place) if orig_outputs else None
    point = last if last is not None else next(iter(reversed(gm.graph.nodes))).prev
    for one in orig_inputs:
        if point < one:
            point = one
    with gm.graph.inserting_after(point):
        call = gm.graph.call_module(name, args=orig_inputs)
    if len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
    else:
        with gm.graph.inserting_after(call):
            for place, old in enumerate(orig_outputs):
                item = gm.graph.call_function(operator.getitem, (call, place))
                gm.graph.inserting_after(item)
                old.replace_all_uses_with(item, propagate_meta=True)
        call.meta["val"] = tuple(old.meta.get("val") for old in orig_outputs)
    return gm


def erase_nodes(gm, nodes):
    """Removes nodes, the last first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """A module with modules in place of some groups of its nodes."""
    from corten.fx.passes.tools_common import stable_topological_sort

    for place, group in enumerate(partitions):
        nodes = topo_sort(list(group))
        name = f"{prefix}{place}"
        module, inputs, outputs = fuse_as_graphmodule(gm, nodes, name, always_return_tuple=always_return_tuple)
        insert_subgm(gm, module, inputs, outputs)
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
