"""Replacing parts of graphs that look like a pattern."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from corten import nn

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _copy_attr
from .node import Node

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place that was replaced: its last node, and what stood for each node of the pattern."""

    anchor: Node
    nodes_map: dict


@dataclass
class ReplacedPatterns:
    """A place that was replaced, and the nodes that are there now."""

    anchor: Node
    nodes_map: dict
    replacements: list


@dataclass
class InternalMatch:
    """A place that looks like a pattern."""

    anchors: list
    nodes_map: dict = field(default_factory=dict)
    placeholder_nodes: list = field(default_factory=list)
    returning_nodes: list = field(default_factory=list)


def replace_pattern(gm, pattern, replacement):
    """Replaces every place in the graph of ``gm`` that looks like the graph of ``pattern`` by that of
    ``replacement``; both are functions or modules with the same number of inputs."""
    found = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(one.anchor, one.nodes_map) for one in found]


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None,
                                 ignore_literals=False, replacement_callback=None, **kwargs):
    """As :func:`replace_pattern`, at the places that all ``match_filters`` accept."""
    wanted = _graph_of(pattern)
    other = None if replacement is None else _graph_of(replacement)
    accepted = [
        match for match in _matches(gm.graph, wanted, ignore_literals)
        if all(accept(match, gm.graph, wanted) for accept in match_filters or ())
    ]
    # A value that stood for an input of the pattern may have been replaced since.
    moved, done = {}, []
    for match in accepted:
        new = other if replacement_callback is None else replacement_callback(match, gm.graph, wanted)
        done.append(_replace(gm, match, wanted, new, moved))
    gm.recompile()
    if isinstance(replacement, nn.Module):
        _add_members(gm, replacement)
    return done


def _graph_of(program):
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _add_members(gm, replacement):
    """Gives the module what the new nodes name."""
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr"):
            found = gm
            for part in node.target.split("."):
                found = getattr(found, part, None)
            if found is None:
                _copy_attr(replacement, gm, node.target)
    gm.graph.lint()


def _matches(graph, pattern, ignore_literals):
    """Places that look like the pattern, which do not overlap."""
    returned = pattern.output_node().args[0]
    outputs = returned if isinstance(returned, (list, tuple)) else (returned,)
    outputs = [node for node in outputs if isinstance(node, Node)]
    found, taken = [], set()
    for candidate in graph.nodes:
        match = _match(graph, candidate, outputs, pattern, ignore_literals)
        if match is None:
            continue
        inner = {match.nodes_map[node] for node in pattern.nodes
                 if node.op not in ("placeholder", "output") and node in match.nodes_map}
        if inner & taken or not inner:
            continue
        taken |= inner
        found.append(match)
    return found


def _match(graph, candidate, outputs, pattern, ignore_literals):
    """Whether the pattern ends at a node: then what stands for its nodes."""
    nodes = {}
    first, *others = outputs
    if not _same(first, candidate, nodes, ignore_literals):
        return None
    for output in others:
        if output in nodes:
            continue
        for other in graph.nodes:
            trial = dict(nodes)
            if other not in trial.values() and _same(output, other, trial, ignore_literals):
                nodes = trial
                break
        else:
            return None
    inner = {nodes[node] for node in nodes if node.op != "placeholder"}
    returned = {nodes[node] for node in outputs}
    for node in inner - returned:
        if any(user not in inner for user in node.users):
            return None
    placeholders = [nodes[node] for node in pattern.nodes if node.op == "placeholder" and node in nodes]
    return InternalMatch([nodes[outputs[0]]], nodes, placeholders, [nodes[node] for node in outputs])


def _same(wanted, node, nodes, ignore_literals):
    """Whether a node and all before it look like a node of the pattern."""
    if not isinstance(wanted, Node) or not isinstance(node, Node):
        return not isinstance(wanted, Node) and not isinstance(node, Node) and (
            ignore_literals or type(wanted) is type(node) and wanted == node
        )
    if wanted in nodes:
        return nodes[wanted] is node
    if wanted.op == "placeholder":
        nodes[wanted] = node
        return True
    if wanted.op != node.op or wanted.op == "output" or not _same_target(wanted, node):
        return False
    if any(found is node for key, found in nodes.items() if key.op != "placeholder"):
        return False
    nodes[wanted] = node
    return _same_arguments(wanted, node, nodes, ignore_literals)


def _same_target(wanted, node):
    if wanted.target == node.target:
        return True
    if wanted.op == "call_module":
        mine, theirs = wanted.graph.owning_module, node.graph.owning_module
        if mine is not None and theirs is not None:
            return type(mine.get_submodule(wanted.target)) is type(theirs.get_submodule(node.target))
    return wanted.op == "get_attr"


def _same_arguments(wanted, node, nodes, ignore_literals):
    mine, theirs = [], []
    for args, flat in ((wanted, mine), (node, theirs)):
        _flatten(list(args.args), flat)
        _flatten({key: args.kwargs[key] for key in sorted(args.kwargs)}, flat)
    return len(mine) == len(theirs) and all(
        _same(a, b, nodes, ignore_literals) for a, b in zip(mine, theirs)
    )


def _flatten(args, flat):
    """Nested arguments one behind the other, with marks of their structure."""
    if isinstance(args, (list, tuple)):
        flat.append(("items", len(args)))
        for item in args:
            _flatten(item, flat)
    elif isinstance(args, dict):
        flat.append(("keys", *args))
        for item in args.values():
            _flatten(item, flat)
    elif isinstance(args, slice):
        _flatten([args.start, args.stop, args.step], flat)
    else:
        flat.append(args)


def _replace(gm, match, pattern, replacement, moved):
    """Puts a copy of the replacement at a place, and removes what was there."""
    graph, values = gm.graph, {}
    given = [node for node in pattern.nodes if node.op == "placeholder"]
    taken = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(given) != len(taken):
        raise RuntimeError(
            f"the pattern has {len(given)} inputs, its replacement has {len(taken)}"
        )
    for old, new in zip(given, taken):
        value = match.nodes_map.get(old)
        while isinstance(value, Node) and value in moved:
            value = moved[value]
        if value is None:
            continue
        values[new] = value
    users = {user for node in match.returning_nodes for user in node.users}
    place = next((node for node in graph.nodes if node in users), None)
    with graph.inserting_before(place) if place is not None else graph.inserting_before(graph.output_node()):
        before = set(values)
        result = graph.graph_copy(replacement, values)
    made = [values[node] for node in replacement.nodes if node in values and node not in before]
    results = result if isinstance(result, (list, tuple)) else (result,)
    for old, new in zip(match.returning_nodes, results):
        old.replace_all_uses_with(new)
        moved[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output") and node in match.nodes_map:
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)
