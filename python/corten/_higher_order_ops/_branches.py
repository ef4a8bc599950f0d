"""Functions that operators take, as graphs."""

from __future__ import annotations

import corten
from corten._dynamo.exc import UncapturedHigherOrderOpError
from corten.export._recorder import Recorder, paused
from corten.fx import GraphModule
from corten.utils._pytree import tree_flatten

__all__ = ["Branch", "add", "merged"]

_REFUSED = (
    "This higher order operator doesn't work unless it is captured completely with torch.compile. Got graph "
    "break/error:\n\nEncountered {what} during higher order op tracing\n  Higher Order Operator: {name}\n"
    "  Explanation: Higher order ops do not support {what}. Found in {short}\n  Hint: {hint}"
)


def refused(name, what, hint):
    """The error of a function that writes to its inputs, or gives one of them."""
    short = name.rpartition(".")[2]
    return UncapturedHigherOrderOpError(_REFUSED.format(what=what, name=name, short=short, hint=hint))


class Branch:
    """The graph of a function, called with tensors that stand for its operands."""

    def __init__(self, parent, function, operands, name, slices=0):
        self.parent, self.name = parent, name
        self.recorder = Recorder(parent=parent)
        self.inputs = []
        with paused():
            given = [self._operand(value, place < slices) for place, value in enumerate(operands)]
        with self.recorder.recording():
            result = function(*given)
            with paused():
                self.results, self.spec = tree_flatten(result)
        with paused():
            self.nodes = [self.recorder.argument(value) for value in self.results]
        self._check(given)

    def _operand(self, value, sliced):
        if not isinstance(value, corten.Tensor):
            return value
        if sliced:
            value = value.select(0, 0)
        # Operands that are one tensor outside are different ones inside.
        made = value.detach().clone() if not value.requires_grad else value.clone()
        node = self.recorder.placeholder(f"arg{len(self.inputs)}_1", self.recorder.describe(made))
        self.recorder.bind(made, node)
        self.inputs.append(node)
        return made

    def _check(self, given):
        placeholders = set(self.recorder.graph.find_nodes(op="placeholder"))
        for node in self.recorder.graph.nodes:
            schema = str(getattr(node.target, "_schema", ""))
            if node.op == "call_function" and "!" in schema and node.args and node.args[0] in placeholders:
                raise refused(
                    self.name, "input mutation",
                    "Consider using the debug context to change user code to avoid mutation.",
                )
        storages = {one.untyped_storage()._cdata for one in given if isinstance(one, corten.Tensor)}
        for value, node in zip(self.results, self.nodes):
            if not isinstance(value, corten.Tensor):
                continue
            if node in placeholders or value.untyped_storage()._cdata in storages:
                raise refused(
                    self.name, "aliasing", "Replace `return input` with `return input.clone()` to avoid aliasing."
                )

    @property
    def outer(self):
        """The nodes outside that the function itself uses."""
        return self.recorder.captured

    def captured_inputs(self):
        """The placeholders of what the function uses, in the order of :attr:`outer`."""
        known = set(self.inputs)
        return [node for node in self.recorder.graph.find_nodes(op="placeholder") if node not in known]

    def arrange(self, wanted):
        """Gives the graph exactly these inputs: placeholders, or None for one that it does not use."""
        graph, made = self.recorder.graph, []
        kept = {node for node in wanted if node is not None}
        for place, node in enumerate(wanted):
            if node is None:
                node = self.recorder.placeholder(f"unused{place}", None)
            made.append(node)
        for node in graph.find_nodes(op="placeholder"):
            if node not in kept and node not in made:
                graph.erase_node(node)
        for node in reversed(made):
            graph._root.append(node)
        for place, node in enumerate(made):
            node.name = node.target = f"arg{place}_1"

    def module(self, results):
        """The graph as a module, with these results."""
        self.recorder.graph.output(results)
        from corten.export._trace import _remove_dead

        _remove_dead(self.recorder.graph)
        return GraphModule(self.recorder.submodules, self.recorder.graph)


def add(recorder, name, module):
    """Adds a graph to the module that is made; gives the node that reads it."""
    number = 0
    while f"{name}_{number}" in recorder.submodules:
        number += 1
    recorder.submodules[f"{name}_{number}"] = module
    node = recorder.graph.get_attr(f"{name}_{number}")
    recorder.note(node)
    return node


def captured(branches):
    """What several functions use of the program around, each once."""
    found = []
    for branch in branches:
        found.extend(node for node in branch.outer if node not in found)
    return found


def append_captured(branches, inputs=None):
    """Gives all graphs the same inputs: their operands, and then what any of them uses."""
    outer = captured(branches)
    for branch in branches:
        own = dict(zip(branch.outer, branch.captured_inputs()))
        branch.arrange([*branch.inputs, *(own.get(node) for node in outer)])
        for node, one in zip(outer, branch.recorder.graph.find_nodes(op="placeholder")[len(branch.inputs):]):
            one.meta.setdefault("val", node.meta.get("val"))
            if one.meta["val"] is None:
                one.meta["val"] = node.meta.get("val")
    return outer


def merged(branches, operands):
    """Gives the graphs of two branches the same inputs: what both use first. The nodes outside of these."""
    names, places = [], []
    for branch in branches:
        known = {}
        for outer, inner in zip(operands, branch.inputs):
            if inner.users:
                known.setdefault(outer, inner)
        for outer, inner in zip(branch.outer, branch.captured_inputs()):
            if outer in known:
                inner.replace_all_uses_with(known[outer])
            known[outer] = known.get(outer, inner)
        places.append(known)
    first, second = places
    both = [node for node in first if node in second]
    both.sort(key=lambda node: node in operands)
    names = both + [node for node in first if node not in second] + [node for node in second if node not in first]
    for branch, known in zip(branches, places):
        branch.arrange([known.get(node) for node in names])
        for outer, inner in zip(names, branch.recorder.graph.find_nodes(op="placeholder")):
            if inner.meta.get("val") is None:
                inner.meta["val"] = outer.meta.get("val")
    return names
