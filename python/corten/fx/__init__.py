"""Programs as graphs that can be looked at and changed.

:func:`symbolic_trace` runs a module or function with values that are not known, and records what is
done with them: a :class:`Graph`. A :class:`GraphModule` runs it as generated Python code.
"""

from __future__ import annotations

from . import immutable_collections, traceback  # noqa: F401
from ._symbolic_trace import ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg  # noqa: F401
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "ProxyableClassMeta", "Tracer", "Transformer",
    "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]
