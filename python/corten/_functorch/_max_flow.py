"""Maximum flows by augmenting along shortest paths (Dinic's algorithm)."""

from __future__ import annotations

from collections import deque

__all__ = ["FlowNetwork"]


class FlowNetwork:
    """Edges with capacities between named nodes."""

    def __init__(self):
        self._edges, self._from = [], {}

    def add(self, source, target, capacity):
        """Adds an edge."""
        for start, end, room in ((source, target, capacity), (target, source, 0)):
            self._from.setdefault(start, []).append(len(self._edges))
            self._edges.append([end, room])

    def reached_after_max_flow(self, source, sink):
        """The nodes that edges with room left lead to from the source: one side of a least cut.

        Raises:
            RuntimeError: The flow is not bounded.
        """
        while True:
            levels = self._levels(source)
            if sink not in levels:
                return set(levels)
            places = dict.fromkeys(self._from, 0)
            while (sent := self._augment(source, sink, levels, places)) > 0:
                if sent == float("inf"):
                    raise RuntimeError("no finite set of values separates the two passes")

    def _levels(self, source):
        found, queue = {source: 0}, deque([source])
        while queue:
            node = queue.popleft()
            for edge in self._from.get(node, ()):
                target, room = self._edges[edge]
                if room > 0 and target not in found:
                    found[target] = found[node] + 1
                    queue.append(target)
        return found

    def _augment(self, source, sink, levels, places):
        """Sends as much as one path takes, which is found without recursion."""
        path = []
        node = source
        while node != sink:
            edge = self._next(node, levels, places)
            if edge is not None:
                path.append(edge)
                node = self._edges[edge][0]
            elif not path:
                return 0
            else:
                node = self._edges[path.pop() ^ 1][0]
                places[node] += 1
        sent = min(self._edges[edge][1] for edge in path)
        for edge in path:
            self._edges[edge][1] -= sent
            self._edges[edge ^ 1][1] += sent
        return sent

    def _next(self, node, levels, places):
        edges = self._from.get(node, ())
        while places.get(node, 0) < len(edges):
            edge = edges[places[node]]
            target, room = self._edges[edge]
            if room > 0 and levels.get(target) == levels[node] + 1:
                return edge
            places[node] += 1
        return None
