"""``map``: a function of each slice along the first dimension."""

from __future__ import annotations

import builtins

import corten
from corten._ops import HigherOrderOperator
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
        made = f(tree_unflatten(list(values[:len(leaves)]), spec), *tree_unflatten(list(values[len(leaves):]), more_spec))
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


def _stacked(values):
    if all(isinstance(value, corten.Tensor) for value in values):
        return corten.stack(builtins.list(values))
    if all(value is None for value in values):
        return None
    raise RuntimeError(f"Cannot stack {values}.")


map_impl = MapImpl()
