"""Operators whose writes are of another kind: changes of size and of memory, new tensors, running statistics."""

from __future__ import annotations

import corten
from corten import _C
from corten._functionalization._state import (
    AliasGroup, Below, contiguous_strides, refresh, replace, state_of, sync, wrap, write,
)
from corten.utils._python_dispatch import _overload

__all__ = []


def of(name):
    """What calls of an operator are handed to, or nothing."""
    return _SPECIAL.get(name)


def _resize(call):
    from corten._functionalization import _calls
    from corten._functionalization._views import Step

    target, sizes = call.args[0], list(call.args[1])
    if not call.is_wrapper(target):
        return _calls.run_below(call)
    state = state_of(target)
    sync(target, state)
    with Below(call.level):
        value = _overload("aten::resize")(state.value, sizes, **call.kwargs)
    count = 1
    for size in sizes:
        count *= size
    needed = (count + target.storage_offset()) * target.element_size() if count else 0
    if needed > state.group.size:
        if state.steps:
            raise RuntimeError(
                "Attempted to resize a view tensor to a larger size. This is not allowed in the functionalization pass"
            )
        if state.group.members == 1:
            state.group = AliasGroup(value)
            state.group.members = 1
        else:
            state.group.base = value
            state.group.updates.clear()
            state.group.size = needed
            state.group.generation += 1
        state.geometry, state.generation = None, state.group.generation
        replace(target, state, value)
        return target
    strides = contiguous_strides(sizes)
    _calls.show(target, state, Step("aten::as_strided", [sizes, strides], {}, not call.reapply_views))
    return target


def _set_source(call):
    from corten._functionalization import _calls

    target, source = call.args[0], call.args[1]
    if not call.is_wrapper(target):
        if call.wrappers:
            raise RuntimeError("set_: a tensor that is not functional cannot show the memory of one that is")
        return _calls.run_below(call)
    if not call.is_wrapper(source):
        source = wrap(source, call.level)
    state, other = state_of(target), state_of(source)
    sync(source, other)
    state.value, state.group, state.generation = other.value, other.group, other.generation
    state.steps, state.geometry = list(other.steps), other.geometry
    state.storage_changed = state.metadata_mutated = True
    refresh(target, state)
    return target


def _set_empty(call):
    target = call.args[0]
    state = state_of(target)
    with Below(call.level):
        value = _overload("aten::empty.memory_format")([0], dtype=target.dtype, device=target.device)
    state.value, state.group, state.steps, state.generation = value, AliasGroup(value), [], 0
    state.storage_changed = state.metadata_mutated = True
    refresh(target, state)
    return target


def _lift_fresh(call):
    tensor = call.args[0]
    if call.is_wrapper(tensor):
        return _overload("aten::alias")(tensor)
    with Below(call.level):
        value = _overload("aten::lift_fresh_copy" if not call.reapply_views else call.name)(tensor)
    return wrap(value, call.level)


def _lift(call):
    tensor = call.args[0]
    if call.is_wrapper(tensor):
        return tensor
    with Below(call.level):
        value = _overload(call.name)(tensor)
    return wrap(value, call.level)


def _batch_norm(call):
    from corten._functionalization import _calls

    input, weight, bias, mean, var, training, momentum, eps = call.args
    if not (training and call.is_wrapper(mean) and call.is_wrapper(var)):
        return _calls.computed(call)
    args, _ = call.inner_arguments()
    with Below(call.level):
        results = _overload("aten::_native_batch_norm_legit_functional")(*args)
    for statistic, value in zip((mean, var), results[3:]):
        write(statistic, state_of(statistic), value)
    return tuple(wrap(one, call.level) for one in results[:3])


def _detach_(call):
    target = call.args[0]
    return target


def _resize_as(call):
    target, template = call.args[0], call.args[1]
    return _overload("aten::resize_")(target, template.size())


_SPECIAL = {
    "aten::resize_": _resize,
    "aten::resize_as_": _resize_as,
    "aten::set_.source_Tensor": _set_source,
    "aten::set_": _set_empty,
    "aten::lift": _lift,
    "aten::lift_fresh": _lift_fresh,
    "aten::lift_fresh_copy": _lift,
    "aten::native_batch_norm": _batch_norm,
    "aten::detach_": _detach_,
}
