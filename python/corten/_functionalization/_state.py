"""Tensors that stand for values: what a wrapper holds, and what it shares with its aliases.

A wrapper is an ordinary tensor without memory, whose calls arrive at the key ``Functionalize``. It stands for
a value, a tensor that nothing writes to. Wrappers that would share memory share an :class:`AliasGroup`: the
value of the base, and what was written to its views since. A wrapper of a view knows the steps from the base
to itself; it is made again from the base when it is read after another alias was written to.
"""

from __future__ import annotations

import threading

from corten import _C

__all__ = []

_FUNCTIONALIZE = _C._keyset_of("Functionalize")
#: Autograd, the bookkeeping of views, and the modes of ``vmap``: what belongs to the transforms around.
_AROUND = 0
for _key in (
    "AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView", "FuncTorchVmapMode",
):
    _AROUND |= _C._keyset_of(_key)
_VMAP_MODE = _C._keyset_of("FuncTorchVmapMode")


class Level:
    """A call of ``functionalize``: whether views stay views, and the keys of the thread around it."""

    __slots__ = ("exclude", "include", "number", "reapply_views")

    def __init__(self, number, reapply_views, include=0, exclude=0):
        self.number, self.reapply_views = number, reapply_views
        self.include, self.exclude = include, exclude


#: What wrappers belong to that were made without ``functionalize``.
OUTSIDE = Level(0, None)


class _Thread(threading.local):
    def __init__(self):
        self.levels = []
        self.reapply_views = False


thread = _Thread()


def reapply_views():
    """Whether views are made by operators that make views."""
    return thread.reapply_views


class Below:
    """A block in which calls are those of values, and not of wrappers of a level."""

    __slots__ = ("before", "level", "levels")

    def __init__(self, level):
        self.level = level

    def __enter__(self):
        include, exclude = _C._tls_key_sets()
        level = self.level
        include &= ~_FUNCTIONALIZE
        if level.number:
            include = include & ~_AROUND | level.include & (_AROUND | _FUNCTIONALIZE)
            exclude = exclude & ~_AROUND | level.exclude & _AROUND
        self.levels = thread.levels
        thread.levels = [one for one in self.levels if one.number < level.number]
        self.before = _C._set_tls_key_sets(include, exclude)
        return self

    def __exit__(self, *error):
        thread.levels = self.levels
        _C._set_tls_key_sets(*self.before)


class AliasGroup:
    """What wrappers share that would share memory."""

    __slots__ = ("base", "frozen", "generation", "hidden_from_autograd", "members", "mutations", "size", "updates")

    def __init__(self, base):
        self.base = base
        self.updates = []
        self.generation = 0
        self.frozen = False
        self.mutations = 0
        self.hidden_from_autograd = 0
        #: How many wrappers were made of it.
        self.members = 0
        self.size = base.numel() * base.element_size()

    def add(self, value, steps):
        """Remembers that the view at the end of some steps has another value now.

        Raises:
            RuntimeError: The group is frozen.
        """
        if self.frozen:
            raise RuntimeError("cannot mutate tensors with frozen storage")
        self.generation += 1
        self.mutations += 1
        self.updates.append((value, list(steps)))

    def apply(self):
        """Brings the base up to date; says whether there was something to do."""
        if not self.updates:
            return False
        updates, self.updates = self.updates, []
        for value, steps in updates:
            self.base = _written_back(self.base, value, steps)
        return True


def _written_back(base, value, steps):
    if not steps:
        return value
    inputs = [base]
    for step in steps[:-1]:
        inputs.append(step.forward(inputs[-1]))
    for step, given in zip(reversed(steps), reversed(inputs)):
        value = step.inverse(given, value)
    return value


class State:
    """What a wrapper holds."""

    __slots__ = ("generation", "geometry", "group", "level", "metadata_mutated", "multi_output", "steps",
                 "storage_changed", "value")

    def __init__(self, value, level, group=None, steps=(), multi_output=False):
        self.value, self.level = value, level
        self.group = AliasGroup(value) if group is None else group
        self.group.members += 1
        self.steps = list(steps)
        self.generation = 0
        self.multi_output = multi_output
        self.metadata_mutated = self.storage_changed = False
        #: Sizes, strides and offset of a view whose value is a copy.
        self.geometry = None


def state_of(tensor):
    """What a wrapper holds; nothing for other tensors."""
    if not isinstance(tensor, _C.Tensor) or not _C._key_set(tensor) & _FUNCTIONALIZE:
        return None
    return _C._held_object(tensor)


def wrap(value, level, state=None, viewed=None):
    """A wrapper that stands for a value. That of a view counts versions with the wrapper that is viewed: so autograd
    learns that what it recorded of the view is out of date."""
    geometry = _geometry(value) if state is None or state.geometry is None else state.geometry
    made = _C._make_keyed(value, *geometry, "Functionalize", viewed)
    _C._hold_object(made, State(value, level) if state is None else state)
    return made


def _geometry(value):
    if value.layout == _C.strided:
        return value.size(), value.stride(), value.storage_offset()
    return value.size(), contiguous_strides(value.size()), 0


def contiguous_strides(sizes):
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= max(size, 1)
    return strides


def refresh(wrapper, state):
    """Gives a wrapper the sizes and strides of its value, or of the view that its value is a copy of."""
    _C._set_geometry(wrapper, *(state.geometry or _geometry(state.value)))


def replace(wrapper, state, value):
    """Lets a wrapper stand for another value, in its own dtype."""
    import corten

    if value.dtype != wrapper.dtype or value.layout != wrapper.layout:
        with Below(state.level):
            value = corten.ops.aten._to_copy.default(value, dtype=wrapper.dtype, layout=wrapper.layout)
    if state.geometry is not None and value.size() != state.geometry[0]:
        state.geometry = None
    state.value = value
    if value.layout == wrapper.layout:
        refresh(wrapper, state)


def regenerate(wrapper, state):
    """Makes the value of a wrapper again from that of its base."""
    with Below(state.level):
        value = state.group.base
        for step in state.steps:
            value = step.forward(value)
    replace(wrapper, state, value)
    state.generation = state.group.generation


def apply_updates(state):
    """Brings the base of a wrapper up to date; says whether there was something to do."""
    if not state.group.updates:
        return False
    with Below(state.level):
        return state.group.apply()


def sync(wrapper, state):
    """Brings a wrapper up to date."""
    if state.generation == state.group.generation:
        return
    apply_updates(state)
    regenerate(wrapper, state)


def write(wrapper, state, value):
    """Lets a wrapper stand for another value, and tells its aliases."""
    replace(wrapper, state, value)
    state.group.add(state.value, state.steps)
    sync(wrapper, state)
