"""Functions that change a module in place and keep the names of what is in it."""

from __future__ import annotations

import functools
from collections import OrderedDict

from corten import nn
from corten.distributed._composable_state import _State


def generate_state_key(string="__composable_api_state_key"):
    """The attribute of modules in which something is kept."""
    return string


STATE_KEY = generate_state_key()
REGISTRY_KEY = generate_state_key("__composable_api_registry_key")


class RegistryItem:
    """Stands for the application of a function."""


def _get_root_modules(modules):
    """The modules that are not in another one of the list."""
    inside = {
        child for module in modules for child in module.modules() if child is not module
    }
    return [module for module in modules if module not in inside]


def _names(module):
    return [
        ("parameters", [name for name, _ in module.named_parameters()]),
        ("buffers", [name for name, _ in module.named_buffers()]),
        ("modules", [name for name, _ in module.named_modules()]),
    ]


def _check_names(before, after):
    for (kind, old), (_, new) in zip(before, after):
        if old == new:
            continue
        if set(old) == set(new):
            raise RuntimeError(
                f"Checking {kind}: Composable distributed API implementations cannot modify the order "
                f"of FQNs.\nOriginal FQNs: {old}\nNew FQNs: {new}"
            )
        raise RuntimeError(
            f"Checking {kind}: Composable distributed API implementations cannot modify FQNs.\n"
            f"FQNs only in original: {set(old) - set(new)}\nFQNs only in new: {set(new) - set(old)}"
        )


def _record(module, func, state, item):
    states = module.__dict__.setdefault(STATE_KEY, OrderedDict())
    registry = module.__dict__.setdefault(REGISTRY_KEY, OrderedDict())
    if func in states or func.__name__ in registry:
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. "
            f"{func.__name__} has already been applied to the following module:\n{module}"
        )
    states[func], registry[func.__name__] = state, item


def contract(state_cls=_State):
    """A decorator of functions that take a module, or several, and change it in place.

    The function can be applied to a module once; ``function.state(module)`` is the instance of ``state_cls``
    that belongs to the application. The names of parameters, buffers and modules have to stay.
    """

    def decorator(func):
        @functools.wraps(func)
        def wrapper(module, *args, **kwargs):
            modules = [module] if isinstance(module, nn.Module) else _get_root_modules(list(module))
            state, item = state_cls(), RegistryItem()
            for one in modules:
                _record(one, func, state, item)
            before = [_names(one) for one in modules]
            result = func(module, *args, **kwargs)
            result = module if result is None else result
            changed = [result] if isinstance(result, nn.Module) else _get_root_modules(list(module))
            if len(changed) != len(modules):
                raise AssertionError(
                    f"{func.__name__} should return the same number of modules as input modules"
                    f"Inputs: {len(modules)} modules\nOutputs: {len(changed)} modules"
                )
            for names, one in zip(before, changed):
                _check_names(names, _names(one))
            return result

        def get_state(module):
            return module.__dict__.get(STATE_KEY, {}).get(func)

        wrapper.state = get_state
        return wrapper

    return decorator


def _get_registry(module):
    """The functions that were applied to a module, by their names; nothing if none was."""
    return getattr(module, REGISTRY_KEY, None)
