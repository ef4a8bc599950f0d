"""Functionalisation: programs without writes that compute what programs with writes compute.

:func:`corten.func.functionalize` and the functions that PyTorch has for tools are here; tensors are described
in :mod:`._state`, calls in :mod:`._calls`.
"""

from __future__ import annotations

import functools

import corten
from corten import _C
from corten._functionalization import _calls as _calls
from corten._functionalization._state import (
    OUTSIDE, Below, Level, _AROUND, _FUNCTIONALIZE, _VMAP_MODE, apply_updates, regenerate, replace, state_of, sync,
    thread, wrap, write,
)
from corten.utils._pytree import tree_leaves, tree_map

__all__ = [
    "_disable_functionalization", "_enable_functionalization", "_freeze_functional_tensor", "_from_functional_tensor",
    "_functionalize_sync", "_is_functional_tensor", "_sync", "_to_functional_tensor", "functionalize",
]

_Tensor = _C.Tensor
_strided = corten.strided


def _to_functional_tensor(t):
    """A tensor without memory that stands for ``t``."""
    made = wrap(t, OUTSIDE)
    return made.requires_grad_() if t.requires_grad and t.is_leaf else made


def _wrapper(t, name):
    state = state_of(t)
    if state is None:
        raise RuntimeError(f"{name}: the tensor is not functional")
    return state


def _from_functional_tensor(t):
    """The value that a functional tensor stands for."""
    return _wrapper(t, "_from_functional_tensor").value


def _is_functional_tensor(t):
    """Whether a tensor stands for a value."""
    return state_of(t) is not None


def _sync(t):
    """Brings the value of a functional tensor up to date."""
    sync(t, _wrapper(t, "_sync"))


_functionalize_sync = _sync


def _is_functional_tensor_base(t):
    """Whether a functional tensor is no view."""
    return not _wrapper(t, "_is_functional_tensor_base").steps


def _freeze_functional_tensor(t):
    """Refuses writes to a functional tensor and to its aliases from now on."""
    _wrapper(t, "_freeze_functional_tensor").group.frozen = True


def _enable_functionalization(*, reapply_views=False):
    """Lets factories of this thread make functional tensors.

    Raises:
        RuntimeError: They do so already.
    """
    include, exclude = _C._tls_key_sets()
    if include & _FUNCTIONALIZE:
        raise RuntimeError(
            "multiple layers of mode-style functionalization nesting is not currently supported, outside of the "
            "functionalize() transform"
        )
    thread.reapply_views = reapply_views
    _C._set_tls_key_sets(include | _FUNCTIONALIZE, exclude)


def _disable_functionalization():
    """Lets factories of this thread make ordinary tensors again."""
    include, exclude = _C._tls_key_sets()
    thread.reapply_views = False
    _C._set_tls_key_sets(include & ~_FUNCTIONALIZE, exclude)


def _functionalize_enable_reapply_views(enabled):
    """Whether views are made by operators that make views; gives what was so before."""
    before, thread.reapply_views = thread.reapply_views, enabled
    return before


def _functionalize_has_metadata_mutation(t):
    """Whether the sizes or strides of a functional tensor were changed in place."""
    return _wrapper(t, "_functionalize_has_metadata_mutation").metadata_mutated


def _functionalize_has_data_mutation(t):
    """Whether a functional tensor or an alias of it was written to."""
    return _wrapper(t, "_functionalize_has_data_mutation").group.mutations > 0


def _functionalize_was_storage_changed(t):
    """Whether a functional tensor was given the memory of another one."""
    return _wrapper(t, "_functionalize_was_storage_changed").storage_changed


def _functionalize_set_storage_changed(t):
    """Says that a functional tensor has the memory of another one."""
    _wrapper(t, "_functionalize_set_storage_changed").storage_changed = True


def _functionalize_is_multi_output_view(t):
    """Whether a functional tensor is one of several views that one call made."""
    return _wrapper(t, "_functionalize_is_multi_output_view").multi_output


def _functionalize_mark_mutation_hidden_from_autograd(t):
    """Says that the last write was not recorded for differentiation."""
    group = _wrapper(t, "_functionalize_mark_mutation_hidden_from_autograd").group
    group.hidden_from_autograd += 1


def _functionalize_are_all_mutations_hidden_from_autograd(t):
    """Whether no write was recorded for differentiation."""
    group = _wrapper(t, "_functionalize_are_all_mutations_hidden_from_autograd").group
    return group.hidden_from_autograd >= group.mutations


_functionalize_are_all_mutations_under_no_grad_or_inference_mode = (
    _functionalize_are_all_mutations_hidden_from_autograd
)


def _functionalize_is_symbolic(t):
    """Whether a view of the tensor was made with sizes that are expressions."""
    state = _wrapper(t, "_functionalize_is_symbolic")
    return any(
        isinstance(leaf, corten.SymInt) for step in state.steps for leaf in tree_leaves((step.args, step.kwargs))
    )


def _functionalize_replace(t, other):
    """Lets a functional tensor stand for another value."""
    replace(t, _wrapper(t, "_functionalize_replace"), other)


def _functionalize_commit_update(t):
    """Tells the aliases of a functional tensor that it has another value."""
    state = _wrapper(t, "_functionalize_commit_update")
    state.group.add(state.value, state.steps)


def _functionalize_unsafe_set(t, other):
    """Gives a functional tensor the memory of another one."""
    state, source = _wrapper(t, "_functionalize_unsafe_set"), _wrapper(other, "_functionalize_unsafe_set")
    state.value, state.group, state.generation = source.value, source.group, source.generation
    state.steps, state.storage_changed = list(source.steps), True


def _functionalize_apply_view_metas(t, base):
    """The view of a value that a functional tensor is of its base."""
    state = _wrapper(t, "_functionalize_apply_view_metas")
    with Below(state.level):
        for step in state.steps:
            base = step.forward(base)
    return base


def _functionalize_get_storage_size(t, before):
    """How many bytes the memory has that a functional tensor would have."""
    return _wrapper(t, "_functionalize_get_storage_size").group.size


def _mirror_autograd_meta_to(source, target):
    """Lets a tensor require a gradient as another one does."""
    if source.requires_grad and not target.requires_grad:
        target.requires_grad_()


def _unwrapped(leaf, level):
    if not isinstance(leaf, _Tensor) or (state := state_of(leaf)) is None or state.level is not level:
        return leaf
    # Values that are returned are views again where views are left.
    if apply_updates(state) or state.generation != state.group.generation:
        regenerate(leaf, state)
    return state.value


def _write_back(given, wrapper):
    """Writes what a function made of an argument to the argument."""
    state = state_of(wrapper)
    sync(wrapper, state)
    value = state.value
    if value is given:
        return
    if _shares_memory(given, value):
        # Nothing was written: a copy would read what it writes.
        given.as_strided_(value.size(), value.stride(), value.storage_offset())
        return
    if given.nbytes != value.nbytes:
        given.resize_(value.size())
    if given.size() != value.size():
        given.as_strided_(value.size(), value.stride())
    given.copy_(value)


def _shares_memory(given, value):
    strided = given.layout == value.layout == _strided
    return strided and given.dtype == value.dtype and given.untyped_storage()._cdata == value.untyped_storage()._cdata


class _Block:
    """A call of ``functionalize``."""

    def __init__(self, reapply_views):
        include, exclude = _C._tls_key_sets()
        number = thread.levels[-1].number + 1 if thread.levels else 1
        self.level = Level(number, reapply_views, include, exclude)

    def __enter__(self):
        include, exclude = self.level.include, self.level.exclude
        thread.levels = [*thread.levels, self.level]
        _C._set_tls_key_sets((include | _FUNCTIONALIZE) & ~_VMAP_MODE, exclude)
        return self.level

    def __exit__(self, *error):
        thread.levels = thread.levels[:-1]
        _C._set_tls_key_sets(self.level.include, self.level.exclude)


def functionalize(func, *, remove="mutations"):
    """A function with the same results whose operators write to nothing. What it writes to its arguments is
    written to them at the end. With ``remove="mutations_and_views"`` views are copies, too.

    Raises:
        RuntimeError: There is no such way of removing writes.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options "
            "are:\n     remove='mutations': all inplace and out= operators will be removed from the program, and "
            "replaced with their out-of-place equivalents.\n     remove='mutations_and_views': In addition to the "
            "above, all aliasing operators {view} will be replaced with their non-aliasing counterparts, "
            "{view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        block = _Block(remove == "mutations")
        level, pairs = block.level, []

        def wrapper(leaf):
            if not isinstance(leaf, _Tensor):
                return leaf
            pairs.append((leaf, wrap(leaf, level)))
            return pairs[-1][1]

        inner_args, inner_kwargs = tree_map(wrapper, (args, kwargs))
        with block:
            results = func(*inner_args, **inner_kwargs)
        results = tree_map(lambda leaf: _unwrapped(leaf, level), results)
        for _, one in pairs:
            sync(one, state_of(one))
        for given, one in pairs:
            _write_back(given, one)
        return results

    return wrapped
