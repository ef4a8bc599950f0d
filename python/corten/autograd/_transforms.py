"""Functions of one's own under forward mode and `vmap`."""

from __future__ import annotations

from typing import NamedTuple

import corten
from corten import _C
from corten.autograd.function import Function
from corten.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

_Tensor = _C.Tensor


class VmapInfo(NamedTuple):
    """What the ``vmap`` of a function is told beside its arguments."""

    batch_size: int
    randomness: str


def apply(cls, args):
    """A call with arguments that carry tangents or hide a dimension."""
    tensors = [arg for arg in args if isinstance(arg, _Tensor)]
    if any(_C._unpack_dual(tensor)[1] is not None for tensor in tensors):
        return _with_tangents(cls, args)
    levels = [_C._batch_level(tensor) for tensor in tensors]
    level = max(level for level in levels if level is not None)
    if cls.generate_vmap_rule:
        return _item_by_item_rule(cls, args, level)
    if cls.vmap is Function.vmap:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
            "override and implement the vmap staticmethod or set generate_vmap_rule=True."
        )
    return own_rule(cls.vmap, cls.__name__, args, level)


def _with_tangents(cls, args):
    pairs = [_C._unpack_dual(a) if isinstance(a, _Tensor) else (a, None) for a in args]
    primals = [primal for primal, _ in pairs]
    if any(isinstance(primal, _Tensor) and _C._is_batched(primal) for primal in primals):
        raise NotImplementedError(
            f"{cls.__name__}: tangents of a custom function inside of vmap are not supported"
        )
    context = cls._backward_cls()
    output = _C._function_call(cls, context, *primals)
    tangents = [_tangent(context, primal, tangent) for primal, tangent in pairs]
    context._set_in_jvp(True)
    try:
        moved = cls.jvp(context, *tangents)
    finally:
        context._set_in_jvp(False)
    outputs = output if isinstance(output, tuple) else (output,)
    moved = moved if isinstance(moved, tuple) else (moved,)
    if len(moved) != len(outputs):
        raise RuntimeError(
            f"Function {cls.__name__} jvp returned an incorrect number of outputs (expected "
            f"{len(outputs)}, got {len(moved)})"
        )
    results = []
    for one, tangent in zip(outputs, moved):
        # What was written to comes back as the object that was given.
        same = [arg for arg, primal in zip(args, primals) if primal is one]
        one = same[0] if same and isinstance(one, _Tensor) else one
        if tangent is not None and isinstance(one, _Tensor):
            _C._attach_tangent(one, tangent)
        results.append(one)
    return tuple(results) if isinstance(output, tuple) else results[0]


def _tangent(context, primal, tangent):
    if tangent is None and isinstance(primal, _Tensor) and context.materialize_grads:
        if primal.is_floating_point() or primal.is_complex():
            return corten.zeros_like(primal)
    return tangent


def own_rule(rule, name, args, level):
    """The rule that a function brings along, which sees the tensors with all their items."""
    leaves, spec = tree_flatten(args)
    split = [
        _C._split_batch(leaf, level) if isinstance(leaf, _Tensor) else (leaf, None)
        for leaf in leaves
    ]
    values = tree_unflatten([value for value, _ in split], spec)
    in_dims = tree_unflatten([dim for _, dim in split], spec)
    visible = _C._vmap_hide(level)
    try:
        returned = rule(VmapInfo(*_C._vmap_info(level)), in_dims, *values)
    finally:
        _C._vmap_show(visible)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"The vmap function of {name} must return a pair: the output and its "
            "out_dims"
        )
    output, out_dims = returned
    outputs, out_spec = tree_flatten(output)
    dims = _broadcast_to_and_flatten(out_dims, out_spec)
    if dims is None:
        raise ValueError(
            f"The vmap function of {name} returned out_dims={out_dims}, which is not "
            f"compatible with the structure of its output: {out_spec}"
        )
    wrapped = [
        one if dim is None else _C._add_batch_dim(one, dim, level)
        for one, dim in zip(outputs, dims)
    ]
    return tree_unflatten(wrapped, out_spec)


def _item_by_item_rule(cls, args, level):
    """The function of all items whose parts are those of ``cls`` under `vmap`."""
    if cls.vmap is not Function.vmap:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and "
            "an overriden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            "overriden vmap staticmethod to avoid ambiguity."
        )
    if not cls._has_setup_context():
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
            "jacrev, ...), it must override the setup_context staticmethod."
        )
    split = [
        _C._split_batch(arg, level) if isinstance(arg, _Tensor) else (arg, None) for arg in args
    ]
    dims = [dim for _, dim in split]
    size, randomness = _C._vmap_info(level)
    batch = _Batch(size, randomness)
    visible = _C._vmap_hide(level)
    try:
        output = _function_of_batches(cls, dims, batch).apply(*(value for value, _ in split))
    finally:
        _C._vmap_show(visible)
    if isinstance(output, tuple):
        return tuple(_C._add_batch_dim(one, 0, level) for one in output)
    return _C._add_batch_dim(output, 0, level)


class _Batch:
    """Opens levels for the same items again and again."""

    def __init__(self, size, randomness):
        self.size, self.randomness = size, randomness

    def __enter__(self):
        self.level = _C._vmap_increment_nesting(self.size, self.randomness)
        return self

    def __exit__(self, *_error):
        _C._vmap_decrement_nesting(self.level)

    def hide(self, values, dims):
        """The tensors with the items along these dimensions."""
        return [
            value if dim is None else _C._add_batch_dim(value, dim, self.level)
            for value, dim in zip(values, dims)
        ]

    def front(self, tensor, dim=0):
        """The tensor with its items along a dimension."""
        return _C._remove_batch_dim(tensor, self.level, self.size, dim)

    def split(self, tensor):
        return (None, None) if tensor is None else _C._split_batch(tensor, self.level)


class _ItemContext:
    """The context that the functions of items see."""

    def __init__(self):
        self._to_save, self._unmarked, self._dirty = (), (), ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors):
        self._to_save = tensors

    def save_for_forward(self, *tensors):
        pass

    def mark_non_differentiable(self, *tensors):
        self._unmarked = tensors

    def mark_dirty(self, *tensors):
        self._dirty = tensors

    def set_materialize_grads(self, value):
        self.materialize_grads = value


def _function_of_batches(cls, in_dims, batch):
    def forward(*values):
        with batch:
            output = cls.forward(*batch.hide(values, in_dims))
            if isinstance(output, tuple):
                return tuple(batch.front(one) for one in output)
            return batch.front(output)

    def setup_context(ctx, inputs, output):
        several = isinstance(output, tuple)
        whole = output if several else (output,)
        ctx.item = item = _ItemContext()
        with batch:
            outputs = batch.hide(whole, [0] * len(whole))
            given = tuple(batch.hide(inputs, in_dims))
            cls.setup_context(item, given, tuple(outputs) if several else outputs[0])
            if item._dirty:
                raise RuntimeError(
                    f"{cls.__name__}: mark_dirty is not supported with generate_vmap_rule=True"
                )
            saved = [batch.split(tensor) for tensor in item._to_save]
        ctx.save_for_backward(*(value for value, _ in saved))
        ctx.saved_dims = [dim for _, dim in saved]
        ctx.set_materialize_grads(item.materialize_grads)
        unmarked = [id(one) for one in item._unmarked]
        ctx.mark_non_differentiable(
            *(one for one, hidden in zip(whole, outputs) if id(hidden) in unmarked)
        )

    def backward(ctx, *grads):
        item = ctx.item
        with batch:
            item.saved_tensors = tuple(batch.hide(ctx.saved_tensors, ctx.saved_dims))
            item.needs_input_grad = ctx.needs_input_grad
            hidden = batch.hide(grads, [None if grad is None else 0 for grad in grads])
            found = cls._backward_method()(item, *hidden)
            found = found if isinstance(found, tuple) else (found,)
            return tuple(_of_input(batch, grad, dim) for grad, dim in zip(found, in_dims))

    return type(cls)(
        f"Vmapped{cls.__name__}",
        (Function,),
        {
            "forward": staticmethod(forward),
            "setup_context": staticmethod(setup_context),
            "backward": staticmethod(backward),
        },
    )


def _of_input(batch, gradient, dim):
    """The gradient of an input: summed over the items where these share it."""
    if gradient is None:
        return None
    if dim is not None:
        return batch.front(gradient, dim)
    return batch.front(gradient).sum(0)
