"""``cond``: one of two functions, as a condition says."""

from __future__ import annotations

import warnings

import corten
from corten._ops import HigherOrderOperator, disabled_proxy_modes, proxy_mode
from corten.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["cond", "cond_op"]


def cond(pred, true_fn, false_fn, operands=()):
    """``true_fn(*operands)`` where ``pred`` is true, ``false_fn(*operands)`` otherwise.

    Args:
        pred: A truth value, or a tensor of one.
        true_fn: A function of the operands.
        false_fn: Another one, whose result has the same structure, shapes and dtypes.
        operands: A tuple of trees of tensors.

    Raises:
        RuntimeError: ``pred`` has several elements, or an argument is of another class than it should be.
    """
    if isinstance(pred, corten.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    for function in (true_fn, false_fn):
        if not callable(function):
            raise TypeError(f"{type(function).__name__!r} object is not callable")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )
    from corten.export._recorder import recording

    leaves, spec = tree_flatten(tuple(operands))
    is_number = isinstance(pred, (bool, int, float))
    if is_number and recording() is not None:
        warnings.warn(
            "Pred is a Python constant. When used with torch.cond, it specializes on one of the branches. If you "
            "want torch.cond to preserve two branches, please make the predicate a boolean tensor or a SymBool.",
            stacklevel=2,
        )
    if is_number or (recording() is None and proxy_mode() is None):
        return (true_fn if pred else false_fn)(*operands)
    specs = []

    def flat(function):
        def call(*values):
            made, structure = tree_flatten(function(*tree_unflatten(list(values), spec)))
            specs.append(structure)
            return tuple(made)

        return call

    results = cond_op(pred, flat(true_fn), flat(false_fn), tuple(leaves))
    if specs[0] != specs[-1]:
        raise RuntimeError(
            "Unmatched output spec from torch.cond branches: "
            f"true branch tree_spec {specs[0]} vs false branch tree_spec {specs[1]}."
        )
    return tree_unflatten(list(results), specs[0])


class CondOp(HigherOrderOperator):
    """``torch.ops.higher_order.cond``."""

    def __init__(self):
        super().__init__("cond")

    def run(self, pred, true_fn, false_fn, operands):
        """The results of one of the functions."""
        if not all(isinstance(one, (corten.Tensor, int, corten.SymInt)) for one in operands):
            raise RuntimeError(f"Dense implementation operands must be a list of tensors and ints {operands}")
        return (true_fn if pred else false_fn)(*operands)

    def trace(self, mode, pred, true_fn, false_fn, operands):
        """A node with the graphs of both functions; where an operand has a gradient, the derivative is one, too."""
        from corten._higher_order_ops._traced_branches import (
            differentiable, gradients, needs_grad, recording, spread,
        )

        if recording([pred]) is None:
            return self.run(pred, true_fn, false_fn, operands)
        functions = (true_fn, false_fn)
        if not needs_grad(operands):
            return _traced(self, mode, pred, functions, operands)

        def backward(operands, grads):
            count = len(operands)
            parts = [
                lambda *values, function=function: gradients(function, values[:count], values[count:])
                for function in functions
            ]
            grads = tuple(grad for grad in grads if grad is not None)
            return spread(operands, self(pred, *parts, (*operands, *grads)))

        return differentiable(lambda *given: _traced(self, mode, pred, functions, given), backward, operands)

    def record(self, recorder, pred, true_fn, false_fn, operands):
        """A node with the graphs of both functions."""
        from corten._higher_order_ops._branches import Branch, add, merged
        from corten.export._recorder import paused

        branches = [Branch(recorder, function, operands, "torch.cond") for function in (true_fn, false_fn)]
        with paused():
            _check_results(*branches)
            outer = [recorder.argument(value) for value in operands if isinstance(value, corten.Tensor)]
            inputs = merged(branches, outer)
            nodes = [
                add(recorder, f"{name}_graph", branch.module(tuple(branch.nodes)))
                for name, branch in zip(("true", "false"), branches)
            ]
            results = tuple(
                value.clone() if isinstance(value, corten.Tensor) else value for value in branches[0].results
            )
            recorder.emit_nodes(self, (recorder.argument(pred), *nodes, tuple(inputs)), results)
        return results


def _traced(operator, mode, pred, functions, operands):
    """A node with the graphs of both functions."""
    from corten._higher_order_ops._traced_branches import Trace

    trace = Trace(mode, functions, (operands, operands))
    with disabled_proxy_modes():
        values = [graph(*operands, *trace.captured) for graph in trace.graphs]
        _check_metadata(*values)
        known = trace.is_real and not bool(pred)
    given = trace.argument((*operands, *trace.captured))
    return trace.emit(
        operator, ("true_graph", "false_graph"), lambda *graphs: (trace.argument(pred), *graphs, given),
        tuple(values[1 if known else 0]),
    )


def _check_metadata(first, second):
    kinds = [
        [(tuple(one.shape), one.dtype) for one in values if isinstance(one, corten.Tensor)]
        for values in (first, second)
    ]
    if kinds[0] != kinds[1]:
        raise RuntimeError(f"Expected branches to return tensors with same metadata but got {kinds[0]} and {kinds[1]}")


def _check_results(first, second):
    from corten._dynamo.exc import UncapturedHigherOrderOpError

    if len(first.results) != len(second.results):
        raise UncapturedHigherOrderOpError(
            "Expected branches to return the same number of outputs but got "
            f"{len(first.results)} and {len(second.results)}"
        )
    for one, other in zip(first.results, second.results):
        for what in ("shape", "dtype", "device"):
            if getattr(one, what, None) != getattr(other, what, None):
                raise UncapturedHigherOrderOpError(
                    f"Expected branches to return tensors with same {what} but got "
                    f"{getattr(one, what, one)} and {getattr(other, what, other)}"
                )


cond_op = CondOp()
