"""Functions that operators take, as graphs in traces by tensors (``make_fx``)."""

from __future__ import annotations

import corten
from corten.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing, get_proxy_mode, get_proxy_slot, has_proxy_slot, make_fx, track_tensor_tree,
)

__all__ = ["record", "recording"]


def recording(pred, operands):
    """The mode that records a call whose condition is a value of its trace, or None.

    Where operands require a gradient there is none: the branch that is taken is recorded then, with its derivative.
    """
    mode = get_proxy_mode()
    if mode is None or not isinstance(pred, corten.Tensor) or not has_proxy_slot(pred, mode.tracer):
        return None
    needs_grad = any(isinstance(one, corten.Tensor) and one.requires_grad for one in operands)
    return None if needs_grad and corten.is_grad_enabled() else mode


def record(mode, operator, pred, functions, operands):
    """The results of a call that becomes a node with the graphs of its functions.

    Args:
        functions: Two functions of the operands that give lists of tensors.
        operands: Tensors and numbers.

    Raises:
        RuntimeError: The results of the functions differ in number, shape or dtype.
    """
    tracer = mode.tracer
    inner = "real" if mode.tracing_mode == "real" else "fake"
    with disable_proxy_modes_tracing():
        graphs = [
            make_fx(function, mode.decomposition_table, inner, _allow_non_fake_inputs=True)(*operands)
            for function in functions
        ]
        captured = _captured(tracer, graphs)
        for graph in graphs:
            _take(graph, captured)
        values = [graph(*operands, *captured) for graph in graphs]
        _check(*values)
        known = mode.tracing_mode == "real" and not bool(pred)
    names = [_add(tracer, f"{branch}_graph", graph) for branch, graph in zip(("true", "false"), graphs)]
    proxies = [tracer.create_proxy("get_attr", name, (), {}) for name in names]
    given = tuple(_argument(tracer, one) for one in (*operands, *captured))
    proxy = tracer.create_proxy(
        "call_function", operator, (_argument(tracer, pred), *proxies, given), {}, name=operator.name()
    )
    results = tuple(values[1 if known else 0])
    track_tensor_tree(results, proxy, constant=None, tracer=tracer)
    return results


def _argument(tracer, value):
    if isinstance(value, corten.Tensor):
        slot = get_proxy_slot(value, tracer, None)
        if slot is not None:
            return slot.proxy
    return tracer.create_arg(value)


def _constants(graph):
    """The tensors that a graph reads from its module, by node."""
    return [
        (node, getattr(graph, node.target)) for node in graph.graph.find_nodes(op="get_attr")
        if isinstance(getattr(graph, node.target, None), corten.Tensor)
    ]


def _captured(tracer, graphs):
    """The values of the trace around that graphs use without being given them, each once."""
    found = []
    for graph in graphs:
        for _, value in _constants(graph):
            if has_proxy_slot(value, tracer) and all(one is not value for one in found):
                found.append(value)
    return found


def _take(graph, captured):
    """Makes values of the trace around inputs of a graph."""
    last = graph.graph.find_nodes(op="placeholder")[-1:]
    for place, value in enumerate(captured):
        nodes = [node for node, one in _constants(graph) if one is value]
        anchor = last[0].next if last else next(iter(graph.graph.nodes))
        with graph.graph.inserting_before(anchor):
            made = graph.graph.placeholder(f"captured_{place}")
        last = [made]
        for node in nodes:
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)
            graph.graph.erase_node(node)
    graph.recompile()


def _check(first, second):
    kinds = [[(tuple(one.shape), one.dtype) for one in values if isinstance(one, corten.Tensor)] for values in (first, second)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(f"Expected branches to return tensors with same metadata but got {kinds[0]} and {kinds[1]}")


def _add(tracer, name, graph):
    """Adds a graph to the module of a trace; gives its name there."""
    number = 0
    while hasattr(tracer.root, f"{name}_{number}"):
        number += 1
    setattr(tracer.root, f"{name}_{number}", graph)
    return f"{name}_{number}"
