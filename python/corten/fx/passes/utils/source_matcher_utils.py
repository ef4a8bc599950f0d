"""Nodes by the module or function of the program that they come from."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes of one call of a module or function."""

    nodes: list
    source: object
    input_nodes: list = field(default_factory=list)
    output_nodes: list = field(default_factory=list)
    params: list = field(default_factory=list)


def get_source_partitions(graph, wanted_sources, filter_fn=None):
    """The nodes that come from some modules or functions, by these."""
    groups = {}
    for node in graph.nodes:
        stack = node.meta.get("source_fn_stack") or node.meta.get("torch_fn")
        if stack is None:
            continue
        source = stack[-1] if isinstance(stack, list) else stack
        if source[1] in wanted_sources:
            groups.setdefault(source[1], {}).setdefault(source[0], []).append(node)
    made = {}
    for source, calls in groups.items():
        parts = [_partition(nodes, source) for nodes in calls.values()]
        if filter_fn is not None:
            parts = [part for part in parts if all(filter_fn(node) for node in part.output_nodes)]
        if parts:
            made[source] = parts
    return made


def _partition(nodes, source):
    members = set(nodes)
    inputs = {one: None for node in nodes for one in node.all_input_nodes if one not in members and one.op != "get_attr"}
    params = {one: None for node in nodes for one in node.all_input_nodes if one.op == "get_attr"}
    params.update({node: None for node in nodes if node.op == "get_attr"})
    outputs = {node: None for node in nodes if any(user not in members for user in node.users)}
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))


def check_subgraphs_connected(subgraph1, subgraph2):
    """Whether the second reads what the first gives."""
    return any(node in subgraph1.nodes for node in subgraph2.input_nodes)
