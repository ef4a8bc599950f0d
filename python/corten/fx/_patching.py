"""Changes of modules and classes while a program is traced."""

from __future__ import annotations

import builtins
import functools

from .node import map_aggregate
from .proxy import Proxy

#: The dictionaries and names of functions that are not looked into.
wrapped_functions = {}
#: Classes and names of methods that are not looked into.
wrapped_methods = []


def first_proxy(args, kwargs):
    """A value that is not known, among arguments or in them."""
    found = []
    map_aggregate((args, kwargs), lambda leaf: found.append(leaf) if isinstance(leaf, Proxy) else None)
    return found[0] if found else None


def create_wrapped_func(function):
    """A function whose calls with unknown values become nodes."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        proxy = first_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return call


def create_wrapped_method(cls, name):
    """As :func:`create_wrapped_func`, for a method of a class."""
    method = getattr(cls, name)

    @functools.wraps(method)
    def call(*args, **kwargs):
        proxy = first_proxy(args, kwargs)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return call


class Patcher:
    """A block at whose end everything is as it was before."""

    _missing = object()

    def __init__(self):
        self._undo, self._done, self.visited = [], set(), set()

    def patch(self, frame_dict, name, new_fn, deduplicate=True):
        """Sets an entry of a dictionary, once unless it may be set again."""
        if deduplicate and not self._first(frame_dict, name):
            return
        old = frame_dict.get(name, self._missing)
        self._undo.append(
            lambda: frame_dict.pop(name, None) if old is self._missing else frame_dict.update({name: old})
        )
        frame_dict[name] = new_fn

    def patch_method(self, cls, name, new_fn, deduplicate=True):
        """Sets an attribute of a class, once unless it may be set again."""
        if deduplicate and not self._first(cls, name):
            return
        old = vars(cls).get(name, self._missing)
        self._undo.append(
            lambda: delattr(cls, name) if old is self._missing else setattr(cls, name, old)
        )
        setattr(cls, name, new_fn)

    def _first(self, owner, name):
        key = id(owner), name
        first = key not in self._done
        self._done.add(key)
        return first

    def visit_once(self, thing):
        """Whether this is the first time that it is asked of an object."""
        first = id(thing) not in self.visited
        self.visited.add(id(thing))
        return first

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        for step in reversed(self._undo):
            step()
        self._undo.clear()
        self._done.clear()
        self.visited.clear()


def patch_wrapped_functions(patcher):
    """Lets calls of functions and methods that :func:`corten.fx.wrap` named be recorded."""
    for (_, name), space in list(wrapped_functions.items()):
        function = space[name] if name in space else getattr(builtins, name)
        patcher.patch(space, name, create_wrapped_func(function))
    for cls, name in wrapped_methods:
        patcher.patch_method(cls, name, create_wrapped_method(cls, name))


def autowrap_check(patcher, frame_dict, function_ids):
    """Lets calls be recorded of functions that a module imported by name."""
    if not patcher.visit_once(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, create_wrapped_func(value))
