"""Keys of the dispatcher as Python objects: what packages exclude and what they register kernels for."""

from __future__ import annotations

import enum

import corten
from corten import _C

__all__ = ["DispatchKey", "DispatchKeySet"]

DispatchKey = enum.Enum("DispatchKey", {name: nr for nr, name in enumerate(_C._dispatch_keys())}, module=__name__)
DispatchKey.__doc__ = "A key of the dispatcher."


class DispatchKeySet:
    """Some keys of the dispatcher."""

    def __init__(self, keys=()):
        if isinstance(keys, DispatchKeySet):
            keys = keys._keys
        self._keys = frozenset((keys,) if isinstance(keys, DispatchKey) else keys)

    def has(self, key):
        """Whether the key is one of them."""
        return key in self._keys

    def add(self, key):
        """These keys and another one."""
        return DispatchKeySet(self._keys | {key})

    def remove(self, key):
        """These keys without one."""
        return DispatchKeySet(self._keys - {key})

    def __or__(self, other):
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other):
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other):
        return DispatchKeySet(self._keys - other._keys)

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)

    def __iter__(self):
        return iter(sorted(self._keys, key=lambda key: key.value))

    def __repr__(self):
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


class _ExcludeDispatchKeyGuard:
    """A region in which calls pass keys by: those of automatic casts, and those of autograd.

    Raises:
        NotImplementedError: Other keys cannot be passed by.
    """

    def __init__(self, keys):
        names = {key.name for key in DispatchKeySet(keys)}
        others = {name for name in names if not name.startswith(("Autocast", "Autograd"))}
        if others:
            raise NotImplementedError(f"calls cannot pass the keys {', '.join(sorted(others))} by")
        self._regions = []
        if "AutocastCPU" in names:
            self._regions.append(corten.amp.autocast("cpu", enabled=False))
        if any(name.startswith("Autograd") for name in names):
            self._regions.append(corten.no_grad())

    def __enter__(self):
        for region in self._regions:
            region.__enter__()
        return self

    def __exit__(self, *error):
        for region in reversed(self._regions):
            region.__exit__(*error)
