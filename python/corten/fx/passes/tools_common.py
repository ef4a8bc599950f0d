"""Questions about nodes, and sorting graphs."""

from __future__ import annotations

import collections
import typing

import corten
from corten import fx
from corten.fx.node import _get_qualified_name

__all__ = [
    "FxNetAccFusionsFinder", "get_acc_ops_name", "get_node_target", "is_node_output_tensor", "legalize_graph",
    "stable_topological_sort",
]

Tensors = typing.Union[typing.Tuple[corten.Tensor, ...], typing.List[corten.Tensor]]
TensorOrTensors = typing.Union[corten.Tensor, Tensors]
NodeList, NodeSet = typing.List[fx.Node], typing.Set[fx.Node]
Names = typing.List[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k):
    """The name of a target, with its module."""
    if isinstance(k, str):
        return k
    if getattr(k, "__module__", "") and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return f"{(k.__module__ or '').replace('corten', 'torch', 1)}.{k.__name__}"


def get_node_target(submodules, node):
    """The name of what a node calls: of modules, of their classes."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        module = getattr(module, "_base_class_origin", type(module))
        return get_acc_ops_name(module)
    if node.op == "call_function":
        return f"acc_ops.{node.target.__name__}" if "acc_ops" in (getattr(node.target, "__module__", "") or "") else (
            _get_qualified_name(node.target)
        )
    return node.target


def is_node_output_tensor(node):
    """Whether the value of a node is one tensor, as far as is noted."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, corten.Tensor)


class FxNetAccFusionsFinder:
    """Groups of nodes between which no tensors but other values go: they belong together."""

    def __init__(self, module, acc_nodes):
        self.module, self.nodes, self.acc_nodes = module, list(module.graph.nodes), acc_nodes

    def __call__(self):
        found = {}
        for node in self.nodes:
            if node.op not in CALLABLE_NODE_OPS or "tensor_meta" in node.meta or node not in self.acc_nodes:
                continue
            group, pending = set(), [node]
            while pending:
                one = pending.pop()
                if one in group or one not in self.acc_nodes:
                    continue
                group.add(one)
                if one.op in CALLABLE_NODE_OPS and "tensor_meta" not in one.meta:
                    pending += [*one.users, *one.all_input_nodes]
            for one in group:
                group = group | found.get(one, set())
            for one in group:
                found[one] = group
        return found


def _sorted(gm):
    """The nodes such that all that a node reads is before it."""
    nodes = list(gm.graph.nodes)
    waits = {node: len(node.all_input_nodes) for node in nodes}
    ready = collections.deque(node for node in nodes if waits[node] == 0)
    made = []
    while ready:
        node = ready.popleft()
        made.append(node)
        for user in node.users:
            waits[user] -= 1
            if waits[user] == 0:
                if user.op == "get_attr":
                    ready.appendleft(user)
                else:
                    ready.append(user)
    if len(made) < len(nodes):
        raise RuntimeError(
            f"Input graph has cycles, unable to add {[node for node in waits if waits[node] != 0]}"
        )
    return made


def legalize_graph(gm):
    """Sorts a graph such that values are made before they are read.

    Raises:
        RuntimeError: Values depend on themselves.
    """
    graph, values = fx.Graph(tracer_cls=gm.graph._tracer_cls), {}
    for node in _sorted(gm):
        values[node] = graph.node_copy(node, lambda one: values[one])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def stable_topological_sort(gm):
    """As :func:`legalize_graph`; nodes keep their order where that is possible."""
    done, pending = set(), collections.deque(gm.graph.nodes)
    graph, values, left = fx.Graph(tracer_cls=gm.graph._tracer_cls), {}, len(pending)
    while pending:
        node = pending.popleft()
        if all(one in done for one in node.all_input_nodes):
            values[node] = graph.node_copy(node, lambda one: values[one])
            done.add(node)
            left = len(pending)
        else:
            pending.append(node)
            left -= 1
            if left < 0:
                raise RuntimeError("Input graph has cycles")
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


