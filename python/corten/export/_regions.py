"""Parts of exported graphs that run with gradients off or on, as operators that take a graph."""

from __future__ import annotations

import operator

from corten import _C, ops
from corten.fx import Graph, GraphModule

__all__ = ["operands_of", "wrap"]


def _sections(graph, initial):
    """The calls between changes of the mode, with the mode."""
    found, enabled = [(initial, [])], initial
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.target is _C._set_grad_enabled:
            enabled = node.args[0]
            found.append((enabled, []))
        else:
            found[-1][1].append(node)
    return found


def wrap(module, recorder):
    """Makes the parts between changes of the mode operators of their own."""
    graph = module.graph
    markers = [node for node in graph.nodes if node.target is _C._set_grad_enabled]
    if not markers:
        return
    for place, (enabled, nodes) in enumerate(_sections(graph, recorder.initial_grad)):
        if enabled is not recorder.initial_grad and nodes:
            _outline(module, nodes, place, enabled)
    for node in markers:
        graph.erase_node(node)
    module.recompile()


def _outline(module, nodes, place, enabled):
    graph, inside, values = module.graph, set(nodes), {}
    inner, submodules = Graph(), {}
    inputs = []
    for node in nodes:
        inputs.extend(one for one in node.all_input_nodes if one not in inside and one not in inputs)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    for one in inputs:
        values[one] = inner.placeholder(one.name)
        values[one].meta = {key: one.meta[key] for key in ("val", "tensor_meta") if key in one.meta}
    for node in nodes:
        values[node] = inner.node_copy(node, lambda one: values[one])
        if node.op == "get_attr":
            submodules[node.target] = getattr(module, node.target)
    inner.output(tuple(values[node] for node in outputs))
    name = f"submod_{place}"
    setattr(module, name, GraphModule(submodules, inner))
    _call(graph, name, enabled, inputs, outputs, nodes)
    for node in reversed(nodes):
        graph.erase_node(node)


def _call(graph, name, enabled, inputs, outputs, nodes):
    target = ops.higher_order.wrap_with_set_grad_enabled
    kept = {key: nodes[0].meta[key] for key in ("nn_module_stack", "torch_fn") if key in nodes[0].meta}
    with graph.inserting_before(nodes[0]):
        read = graph.get_attr(name)
        named = outputs[0].name if len(outputs) == 1 else target._name
        call = graph.create_node("call_function", target, (enabled, read, *inputs), {}, name=named)
        call.meta.update(kept, val=tuple(node.meta["val"] for node in outputs))
        read.meta.update(kept)
        for place, node in enumerate(outputs):
            one = graph.call_function(operator.getitem, (call, place))
            one.meta = dict(node.meta)
            inside = set(nodes)
            node.replace_all_uses_with(one, lambda user, inside=inside: user not in inside)


def operands_of(node):
    """The operands of a call whose graphs have their names; None of others."""
    name = getattr(node.target, "_name", None)
    if name == "cond":
        return node.args[3]
    if name == "wrap_with_set_grad_enabled":
        return node.args[2:]
    return node.args[5:] if name == "wrap_with_autocast" else None


def name_inputs(module, names):
    """Gives the inputs of graphs below the names of the operands, and the other nodes names beside these."""
    for node in module.graph.nodes:
        operands = operands_of(node)
        if operands is None:
            continue
        for arg in node.args:
            if getattr(arg, "op", "") == "get_attr" and isinstance(getattr(module, arg.target), GraphModule):
                _name(getattr(module, arg.target), operands, names)


def _name(inner, operands, names):
    taken, renamed = names(), {}
    for node, outer in zip(inner.graph.find_nodes(op="placeholder"), operands):
        renamed[node] = taken.take(getattr(outer, "name", node.name), True)
    for node in inner.graph.nodes:
        if node not in renamed:
            renamed[node] = taken.take(node.name)
    for node, name in renamed.items():
        node.name = name
        if node.op == "placeholder":
            node.target = name
    name_inputs(inner, names)
    inner.recompile()
