"""Parts of graphs that a backend takes."""

from __future__ import annotations

import collections
import operator

from corten.fx.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """Nodes that go together."""

    def __init__(self, id=None, nodes=None, node_orders=None):
        self.id = id
        self.nodes = dict.fromkeys(nodes or ())

    def __repr__(self):
        return str(self.nodes)

    def add_node(self, node, node_order=None):
        """Adds a node."""
        self.nodes.setdefault(node)

    def remove_node(self, node):
        """Removes a node."""
        del self.nodes[node]

    def size(self):
        """How many nodes there are."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Finds the largest parts of a graph that ``operator_support`` takes, such that no part depends on itself."""

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False, non_compute_ops=None,
                 allowed_single_node_partition_ops=None, skip_horizontal_fusion=False):
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or ()
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or ()
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node):
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self):
        """The parts."""
        nodes = list(self.graph_module.graph.nodes)
        behind = _reached_from(nodes)
        home, parts, counter = {}, {}, iter(range(len(nodes)))
        for node in reversed(nodes):
            if node.op in ("placeholder", "output", "get_attr") or not self._is_node_supported(node):
                continue
            own = next(counter)
            parts[own], home[node] = [node], own
            candidates = [home[user] for user in node.users if user in home]
            if not self.skip_horizontal_fusion:
                candidates += list(parts)
            for other in dict.fromkeys(candidates):
                if other != own and other in parts and not _makes_cycle(parts[own] + parts[other], behind):
                    parts[own] += parts.pop(other)
                    for one in parts[own]:
                        home[one] = own
        _take_items_along(nodes, home, parts)
        made = []
        for place, group in parts.items():
            if self._is_worth(group):
                order = [node for node in nodes if home.get(node) == place]
                made.append(Partition(len(made), order))
        return made

    def _is_worth(self, group):
        if self.allows_single_node_partition or len(group) > 1:
            computing = [node for node in group if _name(node) not in self.non_compute_ops and node.op != "get_attr"]
            if self.allows_single_node_partition or len(computing) > 1:
                return True
            group = computing
        return any(_name(node) in self.allowed_single_node_partition_ops for node in group)

    def fuse_partitions(self, partitions, prefix="fused_"):
        """The module, with a module in place of every part."""
        return fuse_by_partitions(self.graph_module, [list(one.nodes) for one in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions):
        """Takes nodes that compute nothing from the ends of parts."""
        skipped = set(self.non_compute_ops)

        def is_idle(node):
            return node.op == "call_function" and _name(node) in skipped

        for part in partitions:
            changed = True
            while changed:
                ends = [
                    node for node in part.nodes if is_idle(node) and (
                        all(one not in part.nodes for one in node.all_input_nodes)
                        or all(user not in part.nodes for user in node.users)
                    )
                ]
                for node in ends:
                    part.remove_node(node)
                changed = bool(ends)

    def partition_and_fuse(self, prefix="fused_"):
        """The module, with modules in place of the parts."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


def _name(node):
    from corten.fx.node import _get_qualified_name

    return _get_qualified_name(node.target) if node.op == "call_function" else node.target


def _reached_from(nodes):
    """For every node, those that depend on it."""
    found = {}
    for node in reversed(nodes):
        reached = set(node.users)
        for user in node.users:
            reached |= found[user]
        found[node] = reached
    return found


def _makes_cycle(group, behind):
    """Whether a way leads out of a group and back."""
    members = set(group)
    pending = collections.deque(user for node in group for user in node.users if user not in members)
    return any(behind[node] & members for node in pending)


def _take_items_along(nodes, home, parts):
    """Puts nodes that take items where the value is made."""
    for node in nodes:
        if node in home and _is_several(node):
            for user in node.users:
                if user.target is operator.getitem and home.get(user) != home[node]:
                    if user in home:
                        parts[home[user]].remove(user)
                    home[user] = home[node]
                    parts[home[node]].append(user)
    for place in [place for place, group in parts.items() if not group]:
        del parts[place]


def _is_several(node):
    return any(user.target is operator.getitem for user in node.users)
