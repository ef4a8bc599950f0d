"""What compiled functions do when they are called: inputs that were written to are written back, outputs that are
views of inputs are made of them, and the backward pass is a node of the graph."""

from __future__ import annotations

import functools

import corten
from corten.utils import _pytree as pytree

from ._aot_capture import differentiable

__all__ = ["call_compiled", "inference_runner", "training_runner"]


def call_compiled(compiled, args):
    """The results of a compiled graph, as a list; one that takes a list is given one."""
    if getattr(compiled, "_boxed_call", False):
        made = compiled(list(args))
    else:
        made = compiled(*args)
    return list(made) if isinstance(made, (tuple, list)) else [made]


def _write_back(facts, leaves, values):
    with corten.no_grad() if not corten.is_grad_enabled() else corten.enable_grad():
        for place, value in zip(facts.mutated, values):
            if value is not leaves[place]:
                leaves[place].copy_(value)


def _outputs(facts, leaves, values):
    made = []
    for value, own, alias in zip(values, facts.is_input, facts.alias):
        if own is not None:
            value = leaves[own]
        elif alias is not None:
            place, size, stride, offset = alias
            value = _view(leaves[place], value, size, stride, offset)
        made.append(value)
    return made


def _view(source, value, size, stride, offset):
    """The view of an input that an output is."""
    if source.dtype != value.dtype or source.is_complex() != value.is_complex():
        return value
    if source.is_contiguous() and corten.Size(size).numel() == source.numel() and offset == source.storage_offset():
        dense = corten.empty(size, device="meta").stride()
        if tuple(dense) == tuple(stride):
            return source.view(size)
    return source.as_strided(size, stride, offset)


def inference_runner(compiled, facts):
    """A function of the leaves of arguments that runs a compiled forward pass."""
    count = len(facts.mutated)

    def run(leaves):
        values = call_compiled(compiled, leaves)
        _write_back(facts, leaves, values[:count])
        return pytree.tree_unflatten(_outputs(facts, leaves, values[count:]), facts.out_spec)

    return run


def training_runner(forward, make_backward, facts, num_outputs):
    """As :func:`inference_runner`, with a backward pass, which is compiled when it is first needed."""
    backward = functools.cache(make_backward)
    count, wanted = len(facts.mutated), differentiable(facts)

    class CompiledFunction(corten.autograd.Function):
        """The node of a compiled function."""

        @staticmethod
        def forward(ctx, *leaves):
            inputs = [one.detach() if isinstance(one, corten.Tensor) else one for one in leaves]
            values = call_compiled(forward, inputs)
            written = {id(inputs[place]) for place in facts.mutated}
            # What is written to afterwards is saved as it is now.
            saved = [one.clone() if id(one) in written else one for one in values[num_outputs:]]
            ctx.places = [isinstance(one, corten.Tensor) for one in saved]
            ctx.save_for_backward(*(one for one in saved if isinstance(one, corten.Tensor)))
            ctx.numbers = [one for one in saved if not isinstance(one, corten.Tensor)]
            given = {id(leaf) for leaf in inputs}
            results = [one.view_as(one) if id(one) in given else one for one in values[:num_outputs]]
            plain = [
                one for place, one in enumerate(results)
                if isinstance(one, corten.Tensor) and place - count not in wanted
                and not (place < count and leaves[facts.mutated[place]].requires_grad)
            ]
            ctx.mark_non_differentiable(*plain)
            return tuple(results)

        @staticmethod
        def backward(ctx, *grads):
            tensors, numbers = iter(ctx.saved_tensors), iter(ctx.numbers)
            saved = [next(tensors) if tensor else next(numbers) for tensor in ctx.places]
            tangents = [grads[count + place] for place in wanted]
            with corten.no_grad():
                return tuple(call_compiled(backward(), [*saved, *tangents]))

    def run(leaves):
        made = CompiledFunction.apply(*leaves)
        _write_back(facts, leaves, made[:count])
        return pytree.tree_unflatten(_outputs(facts, leaves, made[count:]), facts.out_spec)

    return run
