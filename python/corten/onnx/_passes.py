"""What makes a graph shorter without changing what it computes."""

from __future__ import annotations

from corten.onnx._from_program import simplify
from corten.onnx._graph import Graph


def optimize(graph):
    """Removes copies, casts to the same type, pairs of transposes that undo each other, and what nobody uses."""
    _forward(graph)
    simplify(graph)


def _forward(graph):
    """Lets users of a node that changes nothing use its operand."""
    kept = {id(value) for value in graph.outputs}
    makers, same = {}, {}
    for node in graph.nodes:
        node.inputs = [same.get(id(value), value) for value in node.inputs]
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                _replace(attribute, same)
                _forward(attribute)
        found = _operand(node, makers)
        if found is not None and id(node.outputs[0]) not in kept:
            same[id(node.outputs[0])] = found
        for output in node.outputs:
            makers[id(output)] = node


def _replace(graph, same):
    """Replaces values that a graph takes from outside."""
    for node in graph.nodes:
        node.inputs = [same.get(id(value), value) for value in node.inputs]
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                _replace(attribute, same)
    graph.outputs = [same.get(id(value), value) for value in graph.outputs]


def _operand(node, makers):
    """The value that the result of a node equals, or ``None``."""
    if node.domain or not node.inputs or node.inputs[0] is None:
        return None
    source = node.inputs[0]
    if node.op_type == "Identity" or node.op_type == "Cast" and source.dtype == node.attributes.get("to"):
        return source
    if node.op_type in ("Reshape", "Expand") and _known(source.shape) and source.shape == node.outputs[0].shape:
        return source
    before = makers.get(id(source))
    if node.op_type == "Transpose" and before is not None and before.op_type == "Transpose":
        order = [before.attributes["perm"][dim] for dim in node.attributes["perm"]]
        return before.inputs[0] if order == sorted(order) else None
    return None


def _known(shape):
    return shape is not None and all(isinstance(size, int) for size in shape)
