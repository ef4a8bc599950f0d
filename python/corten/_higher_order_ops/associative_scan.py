"""``associative_scan``: prefixes of an operation that may be grouped in any way."""

from __future__ import annotations

import corten
from corten._ops import HigherOrderOperator, disabled_proxy_modes
from corten.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan", "associative_scan_op"]


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """The prefixes along a dimension: ``x[0]``, ``combine_fn(x[0], x[1])`` and so on.

    Args:
        combine_fn: A function of two values, for which it does not matter how several are grouped.
        xs: A tree of tensors.
        dim: The dimension.
        reverse: Whether suffixes are made.
        combine_mode: ``"pointwise"``, or ``"generic"`` for functions that are not by element.

    Raises:
        ValueError: An argument is of another class than it should be.
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError("Dim must be an int, but got " + str(type(dim)))
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(leaf, corten.Tensor) for leaf in leaves):
        raise ValueError("xs leaves must be a Tensor")
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    if any(leaf.shape[0] == 0 for leaf in leaves):
        raise ValueError("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    leaves = [leaf.flip(0) for leaf in leaves] if reverse else leaves

    def flat(*values):
        half = len(values) // 2
        made = combine_fn(tree_unflatten(list(values[:half]), spec), tree_unflatten(list(values[half:]), spec))
        return tree_flatten(made)[0]

    made = associative_scan_op(flat, leaves, ())
    made = [value.flip(0) for value in made] if reverse else made
    return tree_unflatten([value.movedim(0, dim) for value in made], spec)


class AssociativeScanOp(HigherOrderOperator):
    """``torch.ops.higher_order.associative_scan``."""

    def __init__(self):
        super().__init__("associative_scan")

    def run(self, combine_fn, xs, additional_inputs):
        """The prefixes."""
        columns = [x.unbind(0) for x in xs]
        rows = [[column[0] for column in columns]]
        for place in range(1, len(columns[0])):
            slices = [column[place] for column in columns]
            rows.append(list(combine_fn(*rows[-1], *slices, *additional_inputs)))
        return tuple(corten.stack(list(values)) for values in zip(*rows))

    def trace(self, mode, combine_fn, xs, additional_inputs):
        """A node with the graph of the function; where an operand has a gradient, the calls of all rounds."""
        from corten._higher_order_ops._traced_branches import Trace, needs_grad, recording

        operands = (*xs, *additional_inputs)
        if recording(operands) is None or needs_grad(operands):
            return self.run(combine_fn, xs, additional_inputs)
        with disabled_proxy_modes():
            slices = [x.select(0, 0) for x in xs]
        trace = Trace(mode, (combine_fn,), ((*slices, *slices, *additional_inputs),))
        more = (*additional_inputs, *trace.captured)
        with disabled_proxy_modes():
            if trace.is_real:
                results = self.run(*trace.graphs, xs, more)
            else:
                results = tuple(x.clone(memory_format=corten.contiguous_format) for x in xs)
        given = trace.argument(list(xs)), trace.argument(more)
        return trace.emit(self, ("associative_scan_combine_graph",), lambda graph: (graph, *given), results)

    def record(self, recorder, combine_fn, xs, additional_inputs):
        """A node with the graph of the function."""
        from corten._higher_order_ops._branches import Branch, add, append_captured
        from corten.export._recorder import paused

        with paused():
            slices = [x.select(0, 0) for x in xs]
        branch = Branch(recorder, combine_fn, (*slices, *slices, *additional_inputs), "torch.associative_scan")
        with paused():
            more = append_captured([branch])
            node = add(recorder, "associative_scan_combine_graph", branch.module(list(branch.nodes)))
            results = tuple(x.clone() for x in xs)
            given = [recorder.argument(value) for value in xs]
            rest = [recorder.argument(value) for value in additional_inputs]
            recorder.emit_nodes(self, (node, given, (*rest, *more)), results)
        return results


associative_scan_op = AssociativeScanOp()
