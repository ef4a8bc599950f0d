"""Functions that operators take, as graphs in traces by tensors (``make_fx``)."""

from __future__ import annotations

import corten
from corten.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing, get_proxy_mode, get_proxy_slot, has_proxy_slot, make_fx, track_tensor_tree,
)

__all__ = ["Trace", "differentiable", "recording"]


def recording(operands):
    """The mode that records a call, or None where no operand is a value of its trace."""
    mode = get_proxy_mode()
    if mode is None:
        return None
    tracked = any(isinstance(one, corten.Tensor) and has_proxy_slot(one, mode.tracer) for one in operands)
    return mode if tracked else None


def needs_grad(operands):
    """Whether a call is part of a graph of autograd."""
    needed = any(isinstance(one, corten.Tensor) and one.requires_grad for one in operands)
    return needed and corten.is_grad_enabled()


class Trace:
    """Graphs of the functions of one call, which becomes a node of a trace.

    Values of the trace around that the functions use without being given them are :attr:`captured`: further inputs of
    all graphs.
    """

    def __init__(self, mode, functions, operands):
        self.mode, self.tracer = mode, mode.tracer
        self.is_real = mode.tracing_mode == "real"
        inner = "real" if self.is_real else "fake"
        with disable_proxy_modes_tracing():
            self.graphs = [
                make_fx(function, mode.decomposition_table, inner, _allow_non_fake_inputs=True)(*_distinct(given))
                for function, given in zip(functions, operands)
            ]
            self.captured = self._captured()
            for graph in self.graphs:
                self._take(graph)

    def _captured(self):
        found = []
        for graph in self.graphs:
            for _, value in _constants(graph):
                if has_proxy_slot(value, self.tracer) and all(one is not value for one in found):
                    found.append(value)
        return found

    def _take(self, graph):
        """Makes values of the trace around inputs of a graph."""
        last = graph.graph.find_nodes(op="placeholder")
        count, last = len(last), last[-1:]
        for place, value in enumerate(self.captured):
            nodes = [node for node, one in _constants(graph) if one is value]
            anchor = last[0].next if last else next(iter(graph.graph.nodes))
            with graph.graph.inserting_before(anchor):
                made = graph.graph.placeholder(f"arg{count + place}_1")
            last = [made]
            for node in nodes:
                made.meta.update(node.meta)
                node.replace_all_uses_with(made)
                graph.graph.erase_node(node)
        graph.recompile()

    def emit(self, operator, names, arrange, results):
        """Adds the node, whose value are the results.

        Args:
            names: Names for the graphs.
            arrange: A function of the nodes of the graphs that gives the arguments of the call.
            results: A tuple of tensors and numbers.
        """
        nodes = [
            self.tracer.create_proxy("get_attr", self._add(name, graph), (), {})
            for name, graph in zip(names, self.graphs)
        ]
        proxy = self.tracer.create_proxy("call_function", operator, arrange(*nodes), {}, name=operator.name())
        track_tensor_tree(results, proxy, constant=None, tracer=self.tracer)
        return results

    def argument(self, value):
        """What stands for an operand in the arguments of the call."""
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.argument, value))
        if isinstance(value, corten.Tensor):
            slot = get_proxy_slot(value, self.tracer, None)
            if slot is not None:
                return slot.proxy
        return self.tracer.create_arg(value)

    def _add(self, name, graph):
        number = 0
        while hasattr(self.tracer.root, f"{name}_{number}"):
            number += 1
        setattr(self.tracer.root, f"{name}_{number}", graph)
        return f"{name}_{number}"


def _distinct(operands):
    """The operands, each another tensor: in a trace, one tensor has one node."""
    seen, made = set(), []
    for one in operands:
        if isinstance(one, corten.Tensor):
            one = one.clone() if id(one) in seen else one
            seen.add(id(one))
        made.append(one)
    return made


def _constants(graph):
    """The tensors that a graph reads from its module, by node."""
    return [
        (node, getattr(graph, node.target)) for node in graph.graph.find_nodes(op="get_attr")
        if isinstance(getattr(graph, node.target, None), corten.Tensor)
    ]


class _Differentiable(corten.autograd.Function):
    """A call whose derivative is another call, of the derivatives of its functions."""

    @staticmethod
    def forward(ctx, forward, backward, *operands):
        ctx.backward, ctx.operands = backward, operands
        results = forward(*operands)
        ctx.mark_non_differentiable(*(
            one for one in results if isinstance(one, corten.Tensor) and not one.is_floating_point()
        ))
        return tuple(results)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *ctx.backward(ctx.operands, grads)


def differentiable(forward, backward, operands):
    """The results of ``forward(*operands)``, with ``backward(operands, grads)`` as their derivative."""
    return _Differentiable.apply(forward, backward, *operands)


def gradients(function, operands, grads):
    """The gradients of what a function gives, with respect to those of its operands that have one: zeros where the
    function does not use them."""
    with corten.enable_grad():
        given = [
            one.detach().requires_grad_() if _has_gradient(one) else one for one in operands
        ]
        made = function(*given)
        pairs = [
            (one, grad) for one, grad in zip(made, grads)
            if isinstance(one, corten.Tensor) and one.requires_grad and grad is not None
        ]
        wanted = [one for one in given if _has_gradient(one)]
        if not pairs:
            return [corten.zeros_like(one) for one in wanted]
        found = corten.autograd.grad(
            [one for one, _ in pairs], wanted, [grad for _, grad in pairs], allow_unused=True
        )
    return [corten.zeros_like(one) if grad is None else grad for one, grad in zip(wanted, found)]


def _has_gradient(one):
    return isinstance(one, corten.Tensor) and (one.is_floating_point() or one.is_complex())


def spread(operands, found):
    """Gradients in the places of the operands that have one, None elsewhere."""
    found = iter(found)
    return [next(found) if _has_gradient(one) else None for one in operands]
