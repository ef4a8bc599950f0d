"""Calls that arrive at the key ``Functionalize``: writes become values, and views remember where they are from."""

from __future__ import annotations

import corten
from corten import _C
from corten._functionalization import _special
from corten._functionalization._forms import check_writable, form_of, options_of
from corten._functionalization._state import (
    OUTSIDE, Below, State, refresh, replace, state_of, sync, thread, wrap, write,
)
from corten._functionalization._views import Step, copying, detached, geometry_of, is_known
from corten.utils._aliasing import flat
from corten.utils._python_dispatch import _overload

__all__ = []

_Tensor = _C.Tensor


class Call:
    """A call with the wrappers of the innermost level, and with their values in their places."""

    __slots__ = ("args", "form", "has_tensors", "kwargs", "level", "name", "reapply_views", "wrappers")

    def __init__(self, name, args, kwargs):
        self.name, self.args, self.kwargs = name, args, kwargs
        self.form = form_of(name)
        self.level, self.has_tensors, self.wrappers = OUTSIDE, False, 0
        for value in (*args, *kwargs.values()):
            self._look_at(value)
        views = self.level.reapply_views
        self.reapply_views = thread.reapply_views if views is None else views

    def _look_at(self, value):
        if isinstance(value, _Tensor):
            self.has_tensors = True
            state = state_of(value)
            if state is not None:
                if not self.wrappers or state.level.number > self.level.number:
                    self.level, self.wrappers = state.level, 0
                self.wrappers += state.level is self.level
        elif isinstance(value, (list, tuple)):
            for one in value:
                self._look_at(one)

    def is_wrapper(self, tensor):
        """Whether a tensor is a wrapper of the call's level."""
        state = state_of(tensor)
        return state is not None and state.level is self.level

    def inner(self, value):
        """What stands in an argument's place: values of wrappers that are brought up to date."""
        if isinstance(value, _Tensor):
            state = state_of(value)
            if state is None or state.level is not self.level:
                return value
            sync(value, state)
            return state.value
        if isinstance(value, (list, tuple)):
            return type(value)([self.inner(one) for one in value]) if type(value) in (list, tuple) else value
        return value

    def inner_arguments(self):
        """The arguments with values in the places of wrappers."""
        args = [self.inner(value) for value in self.args]
        return args, {name: self.inner(value) for name, value in self.kwargs.items()}

    def outer(self, value):
        """A result with wrappers in the places of values."""
        if isinstance(value, _Tensor):
            return wrap(value, self.level)
        if isinstance(value, (list, tuple)):
            return type(value)([self.outer(one) for one in value]) if type(value) in (list, tuple) else value
        return value

    def argument(self, place, name):
        """One argument, by its place or by its name."""
        return self.args[place] if name is None else self.kwargs[name]


def handle(name, *args, **kwargs):
    """The result of a call that arrived at the key."""
    call = Call(name, args, kwargs)
    if not call.wrappers and thread.levels:
        # Factories of the function that is made functional.
        call.level = thread.levels[-1]
        call.reapply_views = call.level.reapply_views
    special = _special.of(name)
    if special is not None:
        return special(call)
    form = call.form
    if form.view_in_place is not None:
        return view_in_place(call, form.view_in_place)
    if form.written:
        return written(call)
    if form.is_view:
        return view(call)
    return computed(call)


def run_below(call):
    """The call on values."""
    args, kwargs = call.inner_arguments()
    with Below(call.level):
        return _overload(call.name)(*args, **kwargs)


def computed(call):
    """A call that neither writes nor makes views."""
    result = run_below(call)
    return call.outer(result) if call.wrappers or not call.has_tensors else result


def view(call):
    """A call of a view operator."""
    base = call.args[0]
    if not call.is_wrapper(base):
        return run_below(call)
    if not is_known(call.name):
        return computed(call)
    state, copies = state_of(base), not call.reapply_views
    args, kwargs = list(call.args[1:]), call.kwargs
    shapes = geometry_of(call.name, base, args, kwargs) if copies else [None]
    steps, value = state.steps, state.value
    if call.name == "aten::as_strided" and copies and steps and not _is_like_memory(base):
        # What the strides are of is the memory, which the base has.
        if len(args) < 3 or args[2] is None:
            args = [*args[:2], base.storage_offset()]
        steps, value = [], state.group.base
    # The base need not be up to date: the view is made again before it is read.
    with Below(call.level):
        if call.name == "aten::detach":
            result = detached(value, copies)
        else:
            result = _overload(copying(call.name) if copies else call.name)(value, *args, **kwargs)
    if isinstance(result, _Tensor):
        return derived(base, state, result, steps, Step(call.name, args, kwargs, copies), shapes[0])
    return [
        derived(
            base, state, one, steps, Step(call.name, args, kwargs, copies, index), shapes[index] if copies else None,
        )
        for index, one in enumerate(result)
    ]


def _is_like_memory(wrapper):
    """Whether a copy of a view has the elements where the memory has them."""
    return wrapper.storage_offset() == 0 and wrapper.is_contiguous()


def derived(base, state, value, steps, step, geometry):
    """The wrapper of a view of a wrapper with a state."""
    made = State(value, state.level, state.group, steps, state.multi_output or step.index is not None)
    made.steps.append(step)
    made.storage_changed = state.storage_changed
    made.geometry = geometry
    return wrap(value, state.level, made, base)


def view_in_place(call, operator):
    """A call that changes what a tensor shows."""
    target = call.args[0]
    if not call.is_wrapper(target):
        return run_below(call)
    show(target, state_of(target), Step(operator, list(call.args[1:]), call.kwargs, not call.reapply_views))
    return target


def show(target, state, step):
    """Lets a wrapper show something else of its memory."""
    value, steps = state.value, [*state.steps, step]
    if step.copies:
        if step.name == "aten::as_strided" and state.steps and not _is_like_memory(target):
            if len(step.args) < 3 or step.args[2] is None:
                step.args = [*step.args[:2], target.storage_offset()]
            value, steps = state.group.base, [step]
        state.geometry, = geometry_of(step.name, target, step.args, step.kwargs)
    state.steps, state.metadata_mutated = steps, True
    with Below(state.level):
        state.value = step.forward(value)
    refresh(target, state)


def written(call):
    """A call that writes to arguments."""
    targets = [call.argument(place, name) for place, name in call.form.written]
    flat = [one for target in targets for one in (target if isinstance(target, (list, tuple)) else [target])
            if one is not None]
    args, kwargs = call.inner_arguments()
    if not all(call.is_wrapper(one) for one in flat):
        return _onto_values(call, flat, args, kwargs)
    if any(_overlaps(one) for one in flat):
        raise RuntimeError(
            "functionalization: encountered a tensor being mutated that has internal overlap. Please clone() the tensor "
            "before performing the operation."
        )
    values = _values_written(call, targets, args, kwargs)
    _check(call, flat, values)
    for target, value in zip(flat, values[:len(flat)]):
        write(target, state_of(target), value)
    return _results(call, targets, values[len(flat):])


def _overlaps(tensor):
    """Whether two elements of a tensor have one place in memory."""
    dims = sorted((step, size) for size, step in zip(tensor.size(), tensor.stride()) if size > 1)
    if not tensor.numel() or tensor.layout != _C.strided:
        return False
    extent = 1
    for step, size in dims:
        if step < extent:
            break
        extent += (size - 1) * step
    else:
        return False
    places = [0]
    for step, size in dims:
        places = [place + step * index for place in places for index in range(size)]
    return len(set(places)) < len(places)


def _onto_values(call, flat, args, kwargs):
    if any(not call.is_wrapper(one) for one in flat) and call.wrappers:
        raise RuntimeError(
            "mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of "
            "your inputs are wrapped inside of a functionalize() call."
        )
    with Below(call.level):
        result = _overload(call.name)(*args, **kwargs)
    return result


def _values_written(call, targets, args, kwargs):
    """What is written, one value for each tensor, and further results behind them."""
    form = call.form
    if form.functional is None:
        return _written_to_copies(call, args, kwargs)
    outputs = {name for place, name in form.written if name is not None}
    kept = {name: value for name, value in kwargs.items() if name not in outputs}
    if outputs:
        kept |= options_of(form.functional, targets[0])
    with Below(call.level):
        result = _overload(form.functional)(*args, **kept)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    if outputs or len(form.written) == 1 and _returns_written(form):
        return flat(results)
    # What the operator returns comes first, what it writes behind.
    count = len(form.written)
    return flat(results[len(results) - count:]) + results[:len(results) - count]


def _returns_written(form):
    return any(one.alias_info is not None and one.alias_info.is_write for one in form.schema.returns)


def _written_to_copies(call, args, kwargs):
    """Runs an operator that has no form without writes on copies of what it writes to."""
    copies, args, kwargs = [], list(args), dict(kwargs)
    clone = _overload("aten::clone")

    def copied(value):
        if isinstance(value, (list, tuple)):
            return [copied(one) for one in value]
        if value is None:
            return None
        copies.append(clone(value))
        return copies[-1]

    with Below(call.level):
        for place, name in call.form.written:
            if name is None:
                args[place] = copied(args[place])
            else:
                kwargs[name] = copied(kwargs[name])
        result = _overload(call.name)(*args, **kwargs)
    returned = list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]
    return copies + [one for one in returned if all(one is not copy for copy in copies)]


def _check(call, targets, values):
    """Refuses writes that change sizes, or that do not fit the dtype, where no output may be resized."""
    if any(name is not None for _, name in call.form.written):
        return
    for target, value in zip(targets, values):
        if isinstance(value, _Tensor) and (value.size() != target.size() or value.dtype != target.dtype):
            check_writable(call.name, call.args, call.kwargs)
            return


def _results(call, targets, further):
    """The results of a writing operator: what it wrote to, and what else it computes."""
    returns = call.form.schema.returns
    if not returns:
        return None
    arguments, further, results = call.form.schema.arguments, list(further), []
    for returned in returns:
        if returned.alias_info is not None and returned.alias_info.is_write:
            place = next(
                i for i, (place, _) in enumerate(call.form.written)
                if arguments[place].alias_info.before_set == returned.alias_info.before_set
            )
            results.append(targets[place])
        else:
            results.append(call.outer(further.pop(0)))
    return results[0] if len(results) == 1 else tuple(results)


_C._library_fallback("Functionalize", handle)
