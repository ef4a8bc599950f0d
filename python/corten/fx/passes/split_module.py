"""One graph module as several, which a new one calls."""

from __future__ import annotations

import operator

from corten.fx.graph import Graph
from corten.fx.graph_module import GraphModule
from corten.fx.node import map_arg

__all__ = ["Partition", "split_module"]


class Partition:
    """A part of a graph: its nodes, and what goes in and out."""

    def __init__(self, name):
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names, self.inputs, self.outputs = [], {}, {}
        self.dependencies, self.dependents = {}, {}
        self.graph, self.environment, self.targets = Graph(), {}, {}

    def __repr__(self):
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: "
            f"{self.outputs},\n partitions depended on: {self.dependencies},\n partition dependents: "
            f"{self.dependents}"
        )


def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False,
                 keep_original_node_name=False, keep_original_input_name=True, **kwargs):
    """A module of modules ``submod_<part>``: ``split_callback`` gives the part of every node.

    Raises:
        RuntimeError: Parts need each other.
    """
    nodes = {node.name: node for node in m.graph.nodes}
    part_of, parts = {}, {}
    for node in m.graph.nodes:
        if node.op in ("call_module", "call_method", "call_function"):
            name = str(split_callback(node))
            part_of[node] = name
            parts.setdefault(name, Partition(name)).node_names.append(node.name)
    for node in m.graph.nodes:
        for used in node.all_input_nodes:
            _connect(used, node, part_of, parts)
    order = list(parts) if keep_original_order else _sorted(parts)
    for name in order:
        _fill(parts[name], nodes, root_m, qualname_map, keep_original_node_name, keep_original_input_name)
    return _assembled(m, root_m, part_of, parts, order)


def _connect(used, user, part_of, parts):
    """Notes that a value crosses the border of a part."""
    mine, theirs = part_of.get(user), part_of.get(used)
    if mine == theirs:
        return
    if theirs is not None:
        parts[theirs].outputs.setdefault(used.name)
        if mine is not None:
            parts[theirs].dependents.setdefault(mine)
            parts[mine].dependencies.setdefault(theirs)
    if mine is not None:
        parts[mine].inputs.setdefault(used.name)


def _sorted(parts):
    """The parts in an order in which each comes behind those it needs."""
    order = []
    waiting = {name: dict(part.dependencies) for name, part in parts.items()}
    ready = [name for name, needs in waiting.items() if not needs]
    while ready:
        name = ready.pop(0)
        order.append(name)
        for dependent in parts[name].dependents:
            waiting[dependent].pop(name, None)
            if not waiting[dependent]:
                ready.append(dependent)
    if len(order) != len(parts):
        raise RuntimeError("cycle exists between partitions!")
    return order


def _fill(part, nodes, root, qualname_map, keep_names, keep_inputs):
    """Makes the graph of a part."""
    for name in part.inputs:
        node = nodes[name]
        made = part.graph.placeholder(name if keep_inputs else f"arg_{len(part.environment)}", node.type)
        made.meta = dict(node.meta)
        part.environment[node] = made

    for name in part.node_names:
        node = nodes[name]
        args, kwargs = (map_arg(one, part.environment.__getitem__) for one in (node.args, node.kwargs))
        target = node.target
        if node.op == "call_module":
            target = _inside(part, target, root, qualname_map)
        made = part.graph.create_node(
            node.op, target, args, kwargs, node.name if keep_names else None, node.type
        )
        made.meta = dict(node.meta)
        part.environment[node] = made
    values = tuple(part.environment[nodes[name]] for name in part.outputs)
    if values:
        part.graph.output(values[0] if len(values) == 1 else values)


def _inside(part, target, root, qualname_map):
    """A module of the root under a name without dots."""
    found = root
    for step in target.split("."):
        found = getattr(found, step)
    name = target.replace(".", "_")
    part.targets[name] = found
    if qualname_map is not None:
        qualname_map[f"{part.submod_name}.{name}"] = target
    return name


def _assembled(m, root, part_of, parts, order):
    """The module that calls the parts."""
    graph, values, members = Graph(), {}, {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            values[node] = graph.placeholder(node.target, node.type, *node.args)
            values[node].meta = dict(node.meta)
    named = {node.name: node for node in m.graph.nodes}

    def outside(node):
        if node not in values and node.op == "get_attr":
            found = root
            for step in node.target.split("."):
                found = getattr(found, step)
            members[node.target] = found
            values[node] = graph.get_attr(node.target)
        return values[node]

    for name in order:
        part = parts[name]
        members[part.submod_name] = GraphModule(part.targets, part.graph)
        made = graph.call_module(part.submod_name, tuple(outside(named[one]) for one in part.inputs))
        outputs = [named[one] for one in part.outputs]
        if len(outputs) == 1:
            values[outputs[0]] = made
        for place, node in enumerate(outputs if len(outputs) > 1 else ()):
            values[node] = graph.call_function(operator.getitem, (made, place))
    for node in m.graph.nodes:
        if node.op == "output":
            graph.output(map_arg(node.args[0], outside))
    return GraphModule(members, graph)
