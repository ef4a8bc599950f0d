"""Modules that were scripted or traced: they run as Python, with the parameters of the module that
they were made of, and are modules of their own otherwise."""

from __future__ import annotations

import functools
import inspect

from corten.nn import Module

_MADE_BY_THIS = "_scripted_as"


class ScriptModule(Module):
    """A module that was scripted or traced, or is written as one; nothing is compiled."""

    @property
    def original_name(self):
        """The name of the class that it was made of."""
        return _original(type(self)).__name__

    @property
    def code(self):
        """The source of ``forward``."""
        return inspect.getsource(_original(type(self)).forward)

    def save(self, f, **kwargs):
        """Refused: ``torch.save(m.state_dict(), f)`` saves parameters."""
        from corten.jit import save

        save(self, f)


class RecursiveScriptModule(ScriptModule):
    """What :func:`corten.jit.script` makes of a module."""


class TopLevelTracedModule(ScriptModule):
    """What :func:`corten.jit.trace` makes of a module."""


def _original(kind):
    return vars(kind).get(_MADE_BY_THIS, kind)


@functools.cache
def _class_of(original, kind):
    """The class of modules of a class that were scripted or traced."""
    body = {
        _MADE_BY_THIS: original,
        "__module__": kind.__module__,
        "extra_repr": _extra_repr,
        "__reduce_ex__": _reduce,
    }
    return type(original)(kind.__name__, (kind, original), body)


def _extra_repr(self):
    return f"original_name={self.original_name}"


def _reduce(self, protocol):
    kind = next(one for one in type(self).__mro__ if one in (RecursiveScriptModule, TopLevelTracedModule))
    return _empty, (_original(type(self)), kind), self.__dict__


def _empty(original, kind):
    made = _class_of(original, kind)
    return made.__new__(made)


def scripted(module, kind=RecursiveScriptModule, memo=None):
    """A module of its own with the parameters and buffers of another."""
    if isinstance(module, ScriptModule):
        return module
    memo = {} if memo is None else memo
    if id(module) not in memo:
        made = memo[id(module)] = _empty(type(module), kind)
        for name, value in vars(module).items():
            vars(made)[name] = value.copy() if name.startswith("_") and isinstance(value, dict) else value
        for name, child in module._modules.items():
            if child is not None:
                made._modules[name] = scripted(child, RecursiveScriptModule, memo)
    return memo[id(module)]


class _Marked(type):
    def __instancecheck__(cls, instance):
        return getattr(instance, "_is_scripted_function", False) is True


class ScriptFunction(metaclass=_Marked):
    """The class of functions that were scripted or traced: they stay functions of Python."""

    def __new__(cls, *args, **kwargs):
        raise RuntimeError(
            "compiled functions: there is no TorchScript here; functions and modules run as Python"
        )


def mark(function):
    """Makes a function an instance of :class:`ScriptFunction`, where it can remember that."""
    if inspect.isfunction(function):
        function._is_scripted_function = True
    return function
