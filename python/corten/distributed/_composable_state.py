"""What functions such as :func:`fully_shard` keep of the modules that they were applied to."""

from __future__ import annotations

import weakref


class _State:
    """The base class of what is kept of a module."""


_module_state_mapping: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _insert_module_state(module, state):
    if module in _module_state_mapping:
        raise AssertionError(f"Inserting {module} more than once.")
    _module_state_mapping[module] = weakref.ref(state)


def _get_module_state(module):
    """What is kept of a module, or nothing."""
    if isinstance(module, _State):
        return module
    reference = _module_state_mapping.get(module)
    if reference is None:
        return None
    state = reference()
    if state is None:
        raise AssertionError("State has already been garbage collected")
    return state
