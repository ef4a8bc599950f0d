"""``while_loop``: values that a function replaces as long as another one says so."""

from __future__ import annotations

import corten
from corten._ops import HigherOrderOperator, disabled_proxy_modes
from corten.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["while_loop", "while_loop_op"]


def while_loop(cond_fn, body_fn, carried_inputs):
    """The values after ``body_fn(*values)`` replaced them as long as ``cond_fn(*values)`` was true.

    Raises:
        RuntimeError: An argument is of another class than it should be, or the body changes the structure.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"Expect carried_inputs to be a tuple or a list of possibly nested dict/list/tuple that only consists of "
            f"tensor or int leaves, but got {carried_inputs}."
        )
    leaves, spec = tree_flatten(tuple(carried_inputs))
    if not all(isinstance(leaf, (corten.Tensor, int)) for leaf in leaves):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of tensor or "
            f"int leaves, but got {carried_inputs}."
        )

    def flat_condition(*values):
        return cond_fn(*tree_unflatten(list(values), spec))

    def flat_body(*values):
        made = body_fn(*tree_unflatten(list(values), spec))
        found, structure = tree_flatten(tuple(made) if isinstance(made, (tuple, list)) else made)
        if structure != spec:
            raise RuntimeError(
                f"body_fn should return values of the structure of carried_inputs, {spec}, but got {structure}"
            )
        return tuple(found)

    return tree_unflatten(list(while_loop_op(flat_condition, flat_body, tuple(leaves), ())), spec)


class WhileLoopOp(HigherOrderOperator):
    """``torch.ops.higher_order.while_loop``."""

    def __init__(self):
        super().__init__("while_loop")

    def run(self, cond_fn, body_fn, carried_inputs, additional_inputs):
        """The values at the end."""
        values = tuple(carried_inputs)
        while _holds(cond_fn(*values, *additional_inputs)):
            values = _replaced(values, body_fn(*values, *additional_inputs))
        return values

    def trace(self, mode, cond_fn, body_fn, carried_inputs, additional_inputs):
        """A node with the graphs of both functions; where an operand has a gradient, the calls of all rounds."""
        from corten._higher_order_ops._traced_branches import Trace, needs_grad, recording

        operands = (*carried_inputs, *additional_inputs)
        is_tensor = all(isinstance(one, corten.Tensor) for one in operands)
        if recording(operands) is None or not is_tensor or needs_grad(operands):
            return self.run(cond_fn, body_fn, carried_inputs, additional_inputs)
        trace = Trace(mode, (cond_fn, body_fn), (operands, operands))
        more = (*additional_inputs, *trace.captured)
        with disabled_proxy_modes():
            if trace.is_real:
                results = self.run(*trace.graphs, carried_inputs, more)
            else:
                results = _replaced(carried_inputs, tuple(trace.graphs[1](*carried_inputs, *more)))
            results = tuple(value.clone() for value in results)
        given = trace.argument(tuple(carried_inputs)), trace.argument(tuple(more))
        return trace.emit(
            self, ("while_loop_cond_graph", "while_loop_body_graph"), lambda *graphs: (*graphs, *given), results
        )

    def record(self, recorder, cond_fn, body_fn, carried_inputs, additional_inputs):
        """A node with the graphs of both functions."""
        from corten._higher_order_ops._branches import Branch, add, append_captured
        from corten.export._recorder import paused

        operands = tuple(
            corten.tensor(value) if type(value) is int else value for value in (*carried_inputs, *additional_inputs)
        )
        branches = [Branch(recorder, function, operands, "torch.while_loop") for function in (cond_fn, body_fn)]
        with paused():
            made = _replaced(operands[:len(carried_inputs)], tuple(branches[1].results))
            more = append_captured(branches)
            condition, body = branches
            nodes = [
                add(recorder, "while_loop_cond_graph", condition.module(condition.nodes[0])),
                add(recorder, "while_loop_body_graph", body.module(tuple(body.nodes))),
            ]
            given = [recorder.argument(value) for value in operands]
            split = len(carried_inputs)
            results = tuple(value.clone() for value in made)
            recorder.emit_nodes(self, (*nodes, tuple(given[:split]), (*given[split:], *more)), results)
        return results


def _holds(value):
    if isinstance(value, corten.Tensor):
        if value.numel() != 1 or value.dtype != corten.bool:
            raise RuntimeError(
                f"cond_fn must return a boolean scalar tensor or a boolean but got {value}"
            )
        return bool(value)
    if not isinstance(value, bool):
        raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {value}")
    return value


def _replaced(values, made):
    if not isinstance(made, (tuple, list)):
        raise RuntimeError(f"body_fn should return a tuple but got {type(made)}")
    if len(made) != len(values):
        raise RuntimeError(
            f"body_fn should return the same number of elements as carried_inputs: {len(values)} vs {len(made)}"
        )
    for before, after in zip(values, made):
        if not isinstance(before, corten.Tensor):
            continue
        if before.shape != after.shape or before.dtype != after.dtype:
            raise RuntimeError(
                "body_fn should keep the shapes and dtypes of carried_inputs: "
                f"{tuple(before.shape)} {before.dtype} became {tuple(after.shape)} {after.dtype}"
            )
    return tuple(made)


while_loop_op = WhileLoopOp()
