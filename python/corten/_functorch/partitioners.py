"""Graphs of a forward and a backward pass taken apart: what the second needs of the first is saved, or computed
once more."""

from __future__ import annotations

import math
import operator
import corten
from corten import fx
from corten._tags import _declared

from ._max_flow import FlowNetwork

__all__ = ["default_partition", "draw_graph", "min_cut_rematerialization_partition"]


def _is_primal(node):
    return node.op == "placeholder" and "tangents" not in str(node.target)


def _is_tangent(node):
    return node.op == "placeholder" and "tangents" in str(node.target)


def _extract_fwd_bwd_outputs(joint_module, *, num_fwd_outputs):
    """The outputs of the forward and of the backward pass."""
    outputs = list(fx.node.map_arg(joint_module.graph.output_node().args[0], lambda node: node))
    return outputs[:num_fwd_outputs], outputs[num_fwd_outputs:]


def _extract_graph_with_inputs_outputs(joint_graph, inputs, outputs):
    """The part of a graph that leads from some nodes to others.

    Raises:
        AssertionError: An output needs more than the inputs.
    """
    made, env = fx.Graph(), {}
    for node in inputs:
        new = made.placeholder(node.name)
        new.meta = dict(node.meta)
        env[node] = new
    for node in joint_graph.nodes:
        if node in env or node.op in ("placeholder", "output"):
            continue
        if any(used not in env for used in node.all_input_nodes):
            continue
        env[node] = made.node_copy(node, lambda used: env[used])
    values = []
    for value in outputs:
        if isinstance(value, fx.Node):
            if value not in env:
                raise AssertionError(f"Node {value} was invalid, but is output")
            values.append(env[value])
        else:
            values.append(value)
    made.output(tuple(values))
    made.eliminate_dead_code()
    made.lint()
    return made


def _dependent_on_tangents(joint_graph):
    found = set()
    for node in joint_graph.nodes:
        if _is_tangent(node) or any(used in found for used in node.all_input_nodes):
            found.add(node)
    return found


def _extract_fwd_bwd_modules(joint_module, saved_values, saved_sym_nodes=(), *, num_fwd_outputs):
    """The modules of the two passes, the second of which is given saved values."""
    graph = joint_module.graph
    fwd_outputs, bwd_outputs = _extract_fwd_bwd_outputs(joint_module, num_fwd_outputs=num_fwd_outputs)
    primals = [node for node in graph.nodes if _is_primal(node)]
    tangents = [node for node in graph.nodes if _is_tangent(node)]
    saved = [*saved_sym_nodes, *saved_values]
    bwd = _extract_graph_with_inputs_outputs(graph, saved + tangents, bwd_outputs)
    used = {node.name for node in bwd.nodes if node.op == "placeholder" and node.users}
    saved = [node for node in saved if node.name in used]
    bwd = _extract_graph_with_inputs_outputs(graph, saved + tangents, bwd_outputs)
    fwd = _extract_graph_with_inputs_outputs(graph, primals, fwd_outputs + saved)
    return fx.GraphModule(joint_module, fwd), fx.GraphModule(joint_module, bwd)


def _is_several(node):
    return node.op == "call_function" and "tensor_meta" not in node.meta and isinstance(
        node.meta.get("val"), (tuple, list)
    )


def _is_number(node):
    return isinstance(node.meta.get("val"), (corten.SymInt, corten.SymFloat, corten.SymBool))


def default_partition(joint_module, _joint_inputs=None, *, num_fwd_outputs, static_lifetime_input_indices=None,
                      static_lifetime_input_nodes=None):
    """The two passes as they were recorded: what the formulas of derivatives read is saved."""
    behind = _dependent_on_tangents(joint_module.graph)
    forward = [node for node in _needed(joint_module, num_fwd_outputs, behind)]
    names, values, numbers = {node.name for node in forward}, {}, {}
    for node in joint_module.graph.nodes:
        if node.name not in names:
            continue
        if _is_number(node):
            numbers.setdefault(node)
        elif _is_several(node):
            values.update(dict.fromkeys(user for user in node.users if user.target is operator.getitem))
        elif any(user.name not in names for user in node.users):
            values.setdefault(node)
    return _extract_fwd_bwd_modules(
        joint_module, list(values), list(numbers), num_fwd_outputs=num_fwd_outputs,
    )


def _needed(joint_module, num_fwd_outputs, behind):
    """The nodes of the forward pass: those that were recorded in it, or, where that is not known, what its outputs
    are computed of."""
    nodes = list(joint_module.graph.nodes)
    fwd_outputs, _ = _extract_fwd_bwd_outputs(joint_module, num_fwd_outputs=num_fwd_outputs)
    needed, pending = set(), [node for node in fwd_outputs if isinstance(node, fx.Node)]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += node.all_input_nodes
    for node in nodes:
        if node in behind or node.op == "output":
            continue
        if node in needed or _is_primal(node) or node.meta.get("partitioner_tag") == "is_forward":
            yield node


# The least that is to be saved

def _is_cheap(overload):
    """Whether an operator computes element by element, makes a view, or fills memory."""
    if corten.Tag.pointwise in overload.tags or overload.is_view:
        return True
    _, words, implementation = _declared().get(overload._qualified, ("", (), ""))
    return "factory" in words or "nested_unary" in words or implementation.startswith(("pointwise", "any copy"))


def _may_recompute(node):
    if node.op != "call_function" or node.is_impure():
        return False
    return node.target is operator.getitem or hasattr(node.target, "tags") and _is_cheap(node.target)


def _bytes(node):
    value = node.meta.get("val")
    if isinstance(value, corten.Tensor):
        return max(value.numel() * value.element_size(), 1)
    return 1 if _is_number(node) else 8


def _distances(nodes, behind):
    """How many steps nodes are before the backward pass."""
    found = {}
    for node in reversed(nodes):
        if node.op == "output":
            found[node] = math.inf
        elif node in behind:
            found[node] = 0
        else:
            found[node] = min([found[user] + 1 for user in node.users], default=math.inf)
    return found


def min_cut_rematerialization_partition(joint_module, _joint_inputs=None, compiler="inductor", *, num_fwd_outputs,
                                        static_lifetime_input_indices=None):
    """The two passes with as few bytes saved as possible: what is cheap is computed once more."""
    graph = joint_module.graph
    nodes = list(graph.nodes)
    behind = _dependent_on_tangents(graph)
    _, bwd_outputs = _extract_fwd_bwd_outputs(joint_module, num_fwd_outputs=num_fwd_outputs)
    network, far = FlowNetwork(), _distances(nodes, behind)
    for node in nodes:
        if node.op == "output" or _is_tangent(node):
            continue
        if node in behind:
            network.add(f"{node.name}_in", "sink", math.inf)
            continue
        if _is_primal(node) or node.op == "get_attr" or not _may_recompute(node):
            network.add("source", f"{node.name}_in", math.inf)
        if _is_several(node):
            weight = math.inf
        else:
            steps = min(far[node], 100) if math.isfinite(far[node]) else 100
            weight = _bytes(node) * 1.1 ** max(steps, 1) * (1 if node.op == "placeholder" else 2)
        network.add(f"{node.name}_in", f"{node.name}_out", weight)
        for user in node.users:
            if user.op != "output":
                network.add(f"{node.name}_out", f"{user.name}_in", math.inf)
    for value in bwd_outputs:
        if isinstance(value, fx.Node) and value not in behind:
            network.add(f"{value.name}_out", "sink", math.inf)
    reached = network.reached_after_max_flow("source", "sink")
    saved = [
        node for node in nodes
        if node.op != "output" and node not in behind
        and f"{node.name}_in" in reached and f"{node.name}_out" not in reached
    ]
    numbers = [node for node in saved if _is_number(node)]
    values = [node for node in saved if not _is_number(node)]
    return _extract_fwd_bwd_modules(joint_module, values, numbers, num_fwd_outputs=num_fwd_outputs)


def draw_graph(traced, fname, figname="fx_graph", clear_meta=True, prog=None, parse_stack_trace=False,
               dot_graph_shape=None):
    """Writes a graph in the language of Graphviz."""
    from corten.fx.passes.graph_drawer import FxGraphDrawer

    text = FxGraphDrawer(traced, figname).get_dot_graph().to_string()
    name = fname if fname.endswith(".dot") else f"{fname}.dot"
    with open(name, "w") as file:
        file.write(text)


def get_aten_target(node):
    """The operator that a node calls, without its overload."""
    return getattr(node.target, "overloadpacket", node.target)
