"""Parts of exported graphs that run with gradients off, as operators that take a graph."""

from __future__ import annotations

from corten import _C

__all__ = ["wrap"]


def wrap(module, recorder):
    """Makes the parts between changes of the mode operators of their own."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.target is _C._set_grad_enabled:
            graph.erase_node(node)
    module.recompile()
