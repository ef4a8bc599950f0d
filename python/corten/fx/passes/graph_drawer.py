"""Graphs in the language of Graphviz."""

from __future__ import annotations

import corten
from corten.fx.node import Node, _get_qualified_name

__all__ = ["FxGraphDrawer"]

_COLORS = {"placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_param": "Yellow2", "get_attr": "LightGrey",
           "output": "PowderBlue"}
_PALETTE = ["CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1", "LavenderBlush1",
            "LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2", "PeachPuff1", "Salmon", "Thistle1", "Thistle3",
            "Wheat1"]


class DotGraph:
    """A graph as text."""

    def __init__(self, name):
        self.name, self.lines = name, ["rankdir=TB;"]

    def to_string(self):
        """The text."""
        body = "\n".join(self.lines)
        return f'digraph {_quoted(self.name)} {{\n{body}\n}}\n'

    def write(self, path, **kwargs):
        """Writes the text to a file."""
        with open(path, "w") as file:
            file.write(self.to_string())

    write_raw = write_dot = write


def _quoted(text):
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\\\\l", "\\l").replace("\\\\n", "\\n")
    return f'"{escaped}"'


class FxGraphDrawer:
    """Draws the graph of a module, and of modules of graphs below it."""

    def __init__(self, graph_module, name, ignore_getattr=False, ignore_parameters_and_buffers=False,
                 skip_node_names_in_args=True, parse_stack_trace=False, dot_graph_shape=None, normalize_args=False):
        self._name, self.dot_graph_shape = name, dot_graph_shape or "record"
        self.ignore_getattr, self.ignore_parameters = ignore_getattr, ignore_parameters_and_buffers
        self.skip_node_names_in_args, self.parse_stack_trace = skip_node_names_in_args, parse_stack_trace
        self._dot_graphs = {name: self._drawn(graph_module, name)}
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                below = graph_module.get_submodule(node.target)
                if isinstance(below, corten.fx.GraphModule):
                    self._dot_graphs[f"{name}_{node.target}"] = self._drawn(below, f"{name}_{node.target}")

    def get_dot_graph(self, submod_name=None):
        """The drawing of the module, or of one below it."""
        return self._dot_graphs[self._name if submod_name is None else submod_name]

    get_main_dot_graph = get_dot_graph

    def get_submod_dot_graph(self, submod_name):
        """The drawing of a module below."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self):
        """All drawings by name."""
        return self._dot_graphs

    def _drawn(self, module, name):
        made = DotGraph(name)
        for node in module.graph.nodes:
            if self.ignore_getattr and node.op == "get_attr":
                continue
            color = _COLORS.get(node.op)
            if color is None:
                color = _PALETTE[sum(map(ord, node._pretty_print_target(node.target))) % len(_PALETTE)]
            made.lines.append(
                f"{_quoted(node.name)} [shape={self.dot_graph_shape}, fillcolor={_quoted(color)}, "
                f'style="filled,rounded", fontcolor="#000000", label={_quoted(self._label(module, node))}];'
            )
        for node in module.graph.nodes:
            for user in node.users:
                if not (self.ignore_getattr and node.op == "get_attr"):
                    made.lines.append(f"{_quoted(node.name)} -> {_quoted(user.name)};")
        return made

    def _label(self, module, node):
        def typename(target):
            return target if isinstance(target, str) else _get_qualified_name(target)

        label = "{" + f"name=%{node.name}|op_code={node.op}\\n"
        if node.op == "call_module":
            label += f"{type(module.get_submodule(node.target)).__qualname__}\\n|"
        else:
            label += f"|target={typename(node.target)}\\n"
            if node.args:
                label += self._arguments("args", node.args)
            if node.kwargs:
                label += self._arguments("kwargs", node.kwargs)
            label += f"|num_users={len(node.users)}\\n"
        return label + self._tensor(node) + "}"

    def _arguments(self, name, values):
        if self.skip_node_names_in_args:
            values = [value for value in (values if isinstance(values, tuple) else values.values())
                      if not isinstance(value, Node)]
            if not values:
                return ""
        text = str(values).replace("{", r"\{").replace("}", r"\}").replace("|", r"\|").replace("<", r"\<")
        return f"|{name}={text.replace('>', chr(92) + '>')}\\l"

    def _tensor(self, node):
        found = node.meta.get("tensor_meta")
        if found is None or not hasattr(found, "dtype"):
            return ""
        return f"|dtype={found.dtype}\\n|shape={tuple(found.shape)}\\n|stride={tuple(found.stride)}\\n"
