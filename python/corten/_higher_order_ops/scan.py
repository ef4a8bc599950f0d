"""``scan``: a value that is carried along a dimension, and a result at every place."""

from __future__ import annotations

import corten
from corten._ops import HigherOrderOperator, disabled_proxy_modes
from corten.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["scan", "scan_op"]


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """``carry, y = combine_fn(carry, x)`` for the slices of ``xs``: the last carry, and all ``y`` stacked.

    Args:
        combine_fn: A function of the carried value and a slice.
        init: The carried value at the beginning: a tree of tensors.
        xs: A tree of tensors of one size in ``dim``.
        dim: The dimension of ``xs``.
        reverse: Whether the last slice comes first.

    Raises:
        ValueError: An argument is of another class than it should be.
        RuntimeError: The carried value changes its structure, shape or dtype.
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError("Dim must be an int, but got " + str(type(dim)))
    if not isinstance(reverse, bool):
        raise RuntimeError("Reverse must be a bool, but got " + str(type(reverse)))
    start, spec = tree_flatten(init)
    leaves, spec_xs = tree_flatten(xs)
    if not start:
        raise RuntimeError("scan() operator requires init leaves.")
    for leaf in start:
        if not isinstance(leaf, corten.Tensor):
            raise RuntimeError(f"All init leaves must be a Tensor but got {leaf}")
    for leaf in leaves:
        if not isinstance(leaf, corten.Tensor):
            raise RuntimeError(f"All xs leaves must be a Tensor but got {leaf}")
    if not leaves:
        return init, xs
    dim = dim + leaves[0].dim() if dim < 0 else dim
    leaves = [leaf.movedim(dim, 0) for leaf in leaves] if dim else leaves
    leaves = [leaf.flip(0) for leaf in leaves] if reverse else leaves
    structure = []

    def flat(*values):
        carry, x = tree_unflatten(list(values[:len(start)]), spec), tree_unflatten(list(values[len(start):]), spec_xs)
        made = combine_fn(carry, x)
        if not isinstance(made, (tuple, list)) or len(made) != 2:
            raise RuntimeError(f"combine_fn must return a carry and a value, but got {type(made)}")
        found, out = tree_flatten(made[0])
        if out != spec:
            raise RuntimeError(
                f"The tree structure of the inits and the carries are not identical: {spec} vs {out}"
            )
        values, structure[1:] = tree_flatten(made[1])[0], [tree_flatten(made[1])[1]]
        return [*found, *values]

    results = scan_op(flat, list(start), list(leaves), ())
    carry, ys = results[:len(start)], results[len(start):]
    ys = [y.flip(0) for y in ys] if reverse else ys
    return tree_unflatten(list(carry), spec), tree_unflatten(list(ys), structure[-1])


class ScanOp(HigherOrderOperator):
    """``torch.ops.higher_order.scan``."""

    def __init__(self):
        super().__init__("scan")

    def run(self, combine_fn, init, xs, additional_inputs):
        """The last carried values, and the results of all places."""
        carry, rows, count = list(init), [], len(init)
        for slices in zip(*(x.unbind(0) for x in xs)):
            made = list(combine_fn(*carry, *slices, *additional_inputs))
            _check(carry, made[:count])
            carry = made[:count]
            rows.append(made[count:])
        return (*(value.clone() for value in carry), *(corten.stack(list(values)) for values in zip(*rows)))

    def trace(self, mode, combine_fn, init, xs, additional_inputs):
        """A node with the graph of the function; where an operand has a gradient, the calls of all rounds."""
        from corten._higher_order_ops._traced_branches import Trace, needs_grad, recording
        from corten._higher_order_ops.map import spread_over

        operands, count = (*init, *xs, *additional_inputs), len(init)
        if recording(operands) is None or needs_grad(operands):
            return self.run(combine_fn, init, xs, additional_inputs)
        with disabled_proxy_modes():
            slices = [x.select(0, 0) for x in xs]
        trace = Trace(mode, (combine_fn,), ((*init, *slices, *additional_inputs),))
        more = (*additional_inputs, *trace.captured)
        with disabled_proxy_modes():
            if trace.is_real:
                results = self.run(*trace.graphs, init, xs, more)
            else:
                made = trace.graphs[0](*init, *slices, *more)
                _check(init, made[:count])
                rows = (spread_over(value, xs[0]) for value in made[count:])
                results = (*(value.clone() for value in made[:count]), *rows)
        given = trace.argument(list(init)), trace.argument(list(xs)), trace.argument(more)
        return trace.emit(self, ("scan_combine_graph",), lambda graph: (graph, *given), results)

    def record(self, recorder, combine_fn, init, xs, additional_inputs):
        """A node with the graph of the function."""
        from corten._higher_order_ops._branches import add, append_captured
        from corten.export._recorder import paused

        with paused():
            slices = [x.select(0, 0) for x in xs]
        branch = _branch(recorder, combine_fn, (*init, *slices, *additional_inputs))
        with paused():
            count, size = len(init), xs[0].shape[0]
            _check(init, branch.results[:count])
            more = append_captured([branch])
            node = add(recorder, "scan_combine_graph", branch.module(list(branch.nodes)))
            results = (
                *(value.clone() for value in branch.results[:count]),
                *(value.unsqueeze(0).expand(size, *value.shape).clone() for value in branch.results[count:]),
            )
            given = [[recorder.argument(value) for value in values] for values in (init, xs, additional_inputs)]
            recorder.emit_nodes(self, (node, given[0], given[1], (*given[2], *more)), results)
        return results


def _branch(recorder, function, operands):
    from corten._higher_order_ops._branches import Branch

    return Branch(recorder, function, operands, "torch.scan")


def _check(before, after):
    for one, other in zip(before, after):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise RuntimeError(
                "Expected init and carry to have same metadata, but found "
                f"{tuple(one.shape)} {one.dtype} and {tuple(other.shape)} {other.dtype}"
            )


scan_op = ScanOp()
