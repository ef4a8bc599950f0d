"""Pictures of the recorded graph: :func:`dot` for Graphviz, :func:`svg` without any program."""

from __future__ import annotations

import html

from corten._C import Tensor

__all__ = ["dot", "svg"]

_WIDTH, _HEIGHT, _GAP = 190, 46, 34


class _Graph:
    """The nodes reachable from outputs, in the order of the search, with their edges."""

    def __init__(self, outputs, names):
        self.labels, self.kinds, self.edges = [], [], []
        self._places = {}
        self._alive = []
        self._names = {id(tensor): name for name, tensor in (names or {}).items()}
        for output in outputs:
            place = self._add(("output", id(output)), self._tensor(output, "output"), "tensor")
            if output.grad_fn is not None:
                self._search(output.grad_fn, place)

    def _tensor(self, tensor, fallback):
        name = self._names.get(id(tensor), fallback)
        return f"{name}\n{tuple(tensor.shape)} {str(tensor.dtype).rpartition('.')[2]}"

    def _add(self, key, label, kind):
        self._places[key] = len(self.labels)
        self.labels.append(label)
        self.kinds.append(kind)
        return self._places[key]

    def _search(self, root, start):
        # With a stack of its own: graphs are deeper than Python's.
        pending = [(root, start)]
        while pending:
            node, consumer = pending.pop()
            known = node in self._places
            place = self._places[node] if known else self._node(node)
            self.edges.append((place, consumer))
            if known:
                continue
            self._alive.append(node)
            inputs = [edge for edge, _ in node.next_functions if edge is not None]
            pending.extend((edge, place) for edge in reversed(inputs))

    def _node(self, node):
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor):
            return self._add(node, self._tensor(leaf, "leaf"), "leaf")
        return self._add(node, node.name(), "node")

    def depths(self):
        """The longest way from each node to an output."""
        depth = [0] * len(self.labels)
        incoming = [0] * len(self.labels)
        sources = {}
        for source, target in self.edges:
            incoming[source] += 1
            sources.setdefault(target, []).append(source)
        ready = [place for place, count in enumerate(incoming) if count == 0]
        while ready:
            target = ready.pop()
            for source in sources.get(target, ()):
                depth[source] = max(depth[source], depth[target] + 1)
                incoming[source] -= 1
                if incoming[source] == 0:
                    ready.append(source)
        return depth


def _outputs(tensors):
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected tensors, got {type(tensor).__name__}")
    return tensors


def dot(tensors, names=None):
    """The graph that made some tensors, as text in Graphviz's language.

    ``names`` gives names to leaves and outputs, as ``dict(module.named_parameters())`` does.
    """
    graph = _Graph(_outputs(tensors), names)
    shapes = {"tensor": "box", "leaf": "box", "node": "ellipse"}
    lines = ["digraph {", "  rankdir = BT;"]
    for place, (label, kind) in enumerate(zip(graph.labels, graph.kinds)):
        text = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  n{place} [label="{text}", shape={shapes[kind]}];')
    lines += [f"  n{source} -> n{target};" for source, target in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def svg(tensors, names=None):
    """The graph that made some tensors, as an SVG image: outputs at the bottom."""
    graph = _Graph(_outputs(tensors), names)
    depths = graph.depths()
    rows = {}
    for place, depth in enumerate(depths):
        rows.setdefault(depth, []).append(place)
    deepest, widest = max(rows, default=0), max(map(len, rows.values()), default=0)
    width = widest * (_WIDTH + _GAP) + _GAP
    height = (deepest + 1) * (_HEIGHT + _GAP) + _GAP
    centres = {}
    for depth, places in rows.items():
        left = (width - len(places) * (_WIDTH + _GAP) + _GAP) / 2
        y = _GAP + (deepest - depth) * (_HEIGHT + _GAP) + _HEIGHT / 2
        for number, place in enumerate(places):
            centres[place] = (left + number * (_WIDTH + _GAP) + _WIDTH / 2, y)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        'font-family="sans-serif" font-size="12" text-anchor="middle">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 Z"/></marker></defs>',
    ]
    for source, target in graph.edges:
        (x1, y1), (x2, y2) = centres[source], centres[target]
        parts.append(
            f'<line x1="{x1:g}" y1="{y1 + _HEIGHT / 2:g}" x2="{x2:g}" y2="{y2 - _HEIGHT / 2:g}" '
            'stroke="#777" marker-end="url(#tip)"/>'
        )
    colours = {"tensor": "#cfe8cf", "leaf": "#cfdff5", "node": "#eee"}
    for place, (x, y) in centres.items():
        parts.append(
            f'<rect x="{x - _WIDTH / 2:g}" y="{y - _HEIGHT / 2:g}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" rx="{4 if graph.kinds[place] != "node" else _HEIGHT // 2}" '
            f'fill="{colours[graph.kinds[place]]}" stroke="#777"/>'
        )
        lines = graph.labels[place].split("\n")
        for number, line in enumerate(lines):
            offset = y + 4 + 15 * (number - (len(lines) - 1) / 2)
            parts.append(f'<text x="{x:g}" y="{offset:g}">{html.escape(line)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
