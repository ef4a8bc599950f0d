"""Parts of graphs that look like a pattern."""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass, field

from corten.fx.node import Node

from .fuser_utils import validate_partition

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One place where a graph looks like a pattern."""

    #: The nodes where the pattern ends.
    anchors: list
    #: The nodes of the graph by those of the pattern.
    nodes_map: dict = field(default_factory=dict)
    #: The nodes that the pattern's inputs stand for.
    placeholder_nodes: list = field(default_factory=list)
    #: The nodes whose values the pattern returns.
    returning_nodes: list = field(default_factory=list)
    #: Literals by the pattern's inputs that stand for them.
    name_node_map: dict = field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(
            self.anchors, self.nodes_map.copy(), self.placeholder_nodes.copy(), self.returning_nodes.copy(),
            self.name_node_map.copy(),
        )


class SubgraphMatcher:
    """Looks for a pattern in graphs. ``match_output`` and ``match_placeholder`` have outputs and inputs of the pattern
    match those only; literals match others with ``ignore_literals``."""

    def __init__(self, pattern, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
                 ignore_literals=False):
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern_placeholder_nodes = [node for node in pattern.nodes if node.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes = output.all_input_nodes
        if match_output:
            self.pattern_anchors = [output]
        else:
            self.pattern_anchors = [node for node in output.all_input_nodes if len(node.users) == 1]

    def _match_attributes(self, pn, gn):
        mine, other = pn.graph.owning_module, gn.graph.owning_module
        for part in pn.target.split("."):
            mine = getattr(mine, part, None)
        for part in gn.target.split("."):
            other = getattr(other, part, None)
        return type(mine) is type(other)

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return pn.target == gn.target

    def _is_contained(self, nodes_map):
        """Whether nothing else reads what is inside of a match."""
        lookup = {found: node for node, found in nodes_map.items() if node.op != "placeholder"}
        for found, node in lookup.items():
            if node in self.pattern_returning_nodes:
                continue
            for user in found.users:
                if user not in lookup:
                    return False
        return True

    def _remove_overlapping_matches(self, matches):
        kept, taken = [], set()
        for match in matches:
            own = [found for node, found in match.nodes_map.items() if node.op not in ("placeholder", "output")]
            if not taken.intersection(own):
                kept.append(match)
                taken.update(own)
        return kept

    def _match_literals(self, pn, gn, match):
        if isinstance(pn, Node) and not isinstance(gn, Node) and pn.op == "placeholder":
            if pn in match.nodes_map:
                return match.nodes_map[pn] == gn
            match.nodes_map[pn] = gn
            return True
        if not isinstance(pn, Node) and isinstance(gn, Node):
            return False
        return type(gn) is type(pn) and gn == pn

    def _match_nodes(self, pn, gn, match, node_name_match=""):
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if gn in match.nodes_map.values() and pn.op != "placeholder":
            return False
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        saved = copy.copy(match)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder" or self._match_arguments(pn, gn, match):
            return True
        match.nodes_map = saved.nodes_map
        return False

    def _match_arguments(self, pn, gn, match):
        mine, other = _flat(pn), _flat(gn)
        if mine is None or other is None or len(mine) != len(other):
            return False
        for one, two in zip(mine, other):
            if isinstance(one, Node) and isinstance(two, Node):
                same = self._match_nodes(one, two, match)
            elif isinstance(one, Node) or isinstance(two, Node):
                same = self._match_literals(one, two, match)
            else:
                same = self.ignore_literals or self._match_literals(one, two, match)
            if not same:
                return False
        return True

    def match(self, graph, node_name_match=""):
        """The places where a graph looks like the pattern."""
        candidates = defaultdict(list)
        for anchor in self.pattern_anchors:
            for node in graph.nodes:
                if self._nodes_are_equal(anchor, node, node_name_match):
                    candidates[anchor].append(node)
        found = []

        def extend(place, match):
            if place == len(self.pattern_anchors):
                match.placeholder_nodes = [match.nodes_map.get(node) for node in self.pattern_placeholder_nodes]
                match.returning_nodes = [match.nodes_map[node] for node in self.pattern_returning_nodes]
                found.append(match)
                return
            anchor = self.pattern_anchors[place]
            for node in candidates[anchor]:
                one = copy.copy(match)
                if self._match_nodes(anchor, node, one, node_name_match):
                    extend(place + 1, one)

        extend(0, InternalMatch(self.pattern_anchors))
        found = [match for match in found if self._is_contained(match.nodes_map)]
        found = [match for match in found if validate_partition(_inside(match))]
        return self._remove_overlapping_matches(found) if self.remove_overlapping_matches else found


def _inside(match):
    return [found for node, found in match.nodes_map.items() if node.op not in ("placeholder", "output")]


def _flat(node):
    """The arguments of a node in one list, positional ones and by name in one order."""
    from corten.utils._pytree import tree_leaves

    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    if schema is None:
        named = [node.kwargs[key] for key in sorted(node.kwargs)]
        return tree_leaves((list(node.args), named))
    values, args = [], list(node.args)
    for place, argument in enumerate(schema.arguments):
        if argument.name in node.kwargs:
            values.append(node.kwargs[argument.name])
        elif place < len(args):
            values.append(args[place])
        else:
            values.append(argument.default_value)
    return tree_leaves(values)
