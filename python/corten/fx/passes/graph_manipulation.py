"""Small changes of graphs, and the sizes of what they compute."""

from __future__ import annotations

from typing import NamedTuple

from corten.fx.node import map_arg

from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with"]


class size_bytes(NamedTuple):  # noqa: N801
    """The bytes of a node's value, and with those of its parameters."""

    output_size: int
    total_size: int


def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Has all nodes of one kind and target be of others."""
    from corten.fx.graph import Graph

    graph, values = Graph(), {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args = map_arg(node.args, lambda one: values[one])
            kwargs = map_arg(node.kwargs, lambda one: values[one])
            values[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            values[node] = graph.node_copy(node, lambda one: values[one])
    fx_module.graph = graph


def get_size_of_all_nodes(fx_module, args=None):
    """Notes of every node how many bytes it has."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node):
    """What is noted of a node's value.

    Raises:
        RuntimeError: Nothing is.
    """
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run.")
    return found


def get_size_of_node(fx_module, node):
    """The bytes of a node's value, and with those of its parameters."""
    total = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        total = sum(one.numel() for _, one in module.named_parameters())
    found = get_tensor_meta(node)
    output = found.shape.numel() if isinstance(found, TensorMetadata) else 0
    total += output
    size = found.dtype.itemsize if isinstance(found, TensorMetadata) else 0
    return size_bytes(size * output, size * total)
