"""``map``: a function of each slice along the first dimension."""

from __future__ import annotations

import builtins

import corten
from corten._ops import HigherOrderOperator, disabled_proxy_modes
from corten.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["map", "map_impl"]


def map(f, xs, *args):
    """``f(x, *args)`` of each slice of ``xs`` along the first dimension, stacked.

    Args:
        f: A function.
        xs: A tensor, or a tree of tensors of one size in the first dimension.
        args: Further arguments, the same for every slice.

    Raises:
        RuntimeError: ``xs`` has leaves that are no tensors, of no or of different sizes.
    """
    leaves, spec = tree_flatten(xs)
    more, more_spec = tree_flatten(args)
    if not all(isinstance(leaf, corten.Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    shapes = [tuple(leaf.shape) for leaf in leaves]
    if not shapes or any(not shape for shape in shapes):
        raise RuntimeError(f"Mapped xs must have at least one dimension. Got shapes {shapes}.")
    if shapes[0][0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    structure = []

    def flat(*values):
        rest = tree_unflatten(list(values[len(leaves):]), more_spec)
        made = f(tree_unflatten(list(values[:len(leaves)]), spec), *rest)
        found, out = tree_flatten(made)
        structure[:] = [out]
        return tuple(found)

    results = map_impl(flat, leaves, more)
    return tree_unflatten(list(results), structure[0])


class MapImpl(HigherOrderOperator):
    """``torch.ops.higher_order.map_impl``."""

    def __init__(self):
        super().__init__("map_impl")

    def run(self, f, xs, pos_args):
        """The results of all slices, stacked."""
        rows = [f(*slices, *pos_args) for slices in zip(*(x.unbind(0) for x in xs))]
        return tuple(_stacked(values) for values in zip(*rows))

    def trace(self, mode, f, xs, pos_args):
        """A node with the graph of the function; where an operand has a gradient, the derivative is one, too."""
        from corten._higher_order_ops._traced_branches import (
            differentiable, gradients, needs_grad, recording, spread,
        )

        operands, count = (*xs, *pos_args), len(xs)
        if recording(operands) is None:
            return self.run(f, xs, pos_args)

        def forward(*given):
            return _traced(self, mode, f, given[:count], given[count:])

        if not needs_grad(operands):
            return forward(*operands)

        def backward(operands, grads):
            number, grads = len(grads), [grad.contiguous() for grad in grads]

            def part(*values):
                return tuple(gradients(f, values[number:], values[:number]))

            found = spread(operands, self(part, [*grads, *operands[:count]], list(operands[count:])))
            return [
                one if one is None or place < count else one.sum(0) for place, one in enumerate(found)
            ]

        return differentiable(forward, backward, operands)

    def record(self, recorder, f, xs, pos_args):
        """A node with the graph of the function."""
        from corten._higher_order_ops._branches import Branch, add, append_captured
        from corten.export._recorder import paused

        branch = Branch(recorder, f, (*xs, *pos_args), "torch.ops.higher_order.map_impl", slices=len(xs))
        with paused():
            more = append_captured([branch])
            node = add(recorder, "body_graph", branch.module(tuple(branch.nodes)))
            size = xs[0].shape[0]
            results = tuple(
                value.unsqueeze(0).expand(size, *value.shape).clone() if isinstance(value, corten.Tensor) else value
                for value in branch.results
            )
            given = [recorder.argument(value) for value in xs]
            rest = [recorder.argument(value) for value in pos_args]
            recorder.emit_nodes(self, (node, given, [*rest, *more]), results)
        return results


def _traced(operator, mode, f, xs, pos_args):
    """A node with the graph of the function."""
    from corten._higher_order_ops._traced_branches import Trace

    with disabled_proxy_modes():
        slices = [x.select(0, 0) for x in xs]
    trace = Trace(mode, (f,), ((*slices, *pos_args),))
    more = [*pos_args, *trace.captured]
    with disabled_proxy_modes():
        if trace.is_real:
            results = operator.run(*trace.graphs, xs, more)
        else:
            results = tuple(spread_over(value, xs[0]) for value in trace.graphs[0](*slices, *more))
    given = trace.argument(builtins.list(xs)), trace.argument(more)
    return trace.emit(operator, ("body_graph",), lambda graph: (graph, *given), results)


def spread_over(value, like):
    """A tensor without data of as many results as another one has slices."""
    if not isinstance(value, corten.Tensor):
        return value
    return value.unsqueeze(0).expand(like.shape[0], *value.shape).clone(memory_format=corten.contiguous_format)


def _stacked(values):
    if all(isinstance(value, corten.Tensor) for value in values):
        return corten.stack(builtins.list(values))
    if all(value is None for value in values):
        return None
    raise RuntimeError(f"Cannot stack {values}.")


map_impl = MapImpl()
