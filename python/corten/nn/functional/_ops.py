"""Operators by name, and functions that exist only where their operators do."""

from __future__ import annotations

from collections.abc import Iterable

import corten
from corten import _C

_ABSENT = "_needs_absent"


def find(name):
    """The operator `name` of the extension module, or None."""
    for home in (getattr(_C, "_nn", None), corten):
        found = getattr(home, name, None)
        if found is not None:
            return found
    return None


class _Operators:
    """`ops.name` is the operator; looked up once."""

    def __getattr__(self, name):
        found = find(name)
        if found is None:
            raise AttributeError(f"corten has no operator {name!r}")
        setattr(self, name, found)
        return found


ops = _Operators()


def needs(*names):
    """Leaves a function out of its module's ``__all__`` while an operator it needs is absent."""

    def mark(function):
        if any(find(name) is None for name in names):
            setattr(function, _ABSENT, True)
        return function

    return mark


def available(namespace):
    """The public functions of a module whose operators exist: its ``__all__``."""
    module = namespace["__name__"]
    return [
        name for name, value in namespace.items()
        if not name.startswith("_") and callable(value) and not hasattr(value, _ABSENT)
        and (getattr(value, "__module__", None) == module or name in namespace.get("_DIRECT", ()))
    ]


def direct(namespace, names):
    """Binds operators that need no wrapper under their own names."""
    found = {name: find(op) for name, op in names.items()}
    namespace.update((name, op) for name, op in found.items() if op is not None)
    namespace["_DIRECT"] = frozenset(name for name, op in found.items() if op is not None)


def pair_of(value, n):
    """`value` repeated to a list of `n`, if it is one number."""
    return list(value) if isinstance(value, Iterable) else [value] * n
