"""What packages take from the inside of TorchScript: marks of functions, and questions about annotations."""

from __future__ import annotations

import types
import typing
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401

from corten.futures import Future
from corten.jit import (  # noqa: F401
    _overload, _overload_method, export, ignore, is_scripting, unused,
)
from corten.nn.functional._names import boolean_dispatch  # noqa: F401


class BroadcastingListCls:
    """Annotates lists that may be given as one number, for all elements."""

    def __getitem__(self, types):
        return None


BroadcastingList1 = BroadcastingListCls()
for _size in range(2, 7):
    globals()[f"BroadcastingList{_size}"] = BroadcastingList1


class FunctionModifiers:
    """How a compiler takes a method."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from an exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method onto the scripted model"
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


def _marked(mark):
    def decorate(fn):
        fn._torchscript_modifier = mark
        return fn

    return decorate


_copy_to_script_wrapper = _marked(FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)
_drop = _marked(FunctionModifiers._DROP)


def get_torchscript_modifier(fn):
    """How a compiler takes a function."""
    if not callable(fn):
        return None
    fn = getattr(fn, "__func__", fn)
    return getattr(fn, "_torchscript_modifier", FunctionModifiers.DEFAULT)


def copy_torchscript_modifier(orig, new):
    """Marks a function as another one is."""
    new._torchscript_modifier = get_torchscript_modifier(orig)


def is_ignored_fn(fn):
    """Whether a compiler leaves a function out."""
    marks = (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE, FunctionModifiers._DROP)
    return get_torchscript_modifier(fn) in marks


def should_drop(fn):
    """Whether a call of a function becomes an exception."""
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers._DROP)


def module_has_exports(mod):
    """Whether a module has a method that is compiled though nothing calls it."""
    found = (getattr(mod, name, None) for name in dir(mod))
    return any(get_torchscript_modifier(value) is FunctionModifiers.EXPORT for value in found)


def is_final(ann):
    """Whether an annotation is ``Final``."""
    return ann is Final or typing.get_origin(ann) is Final


def is_tuple(ann):
    """Whether an annotation is that of tuples."""
    return ann is tuple or typing.get_origin(ann) is tuple


def is_list(ann):
    """Whether an annotation is that of lists."""
    return typing.get_origin(ann) is list


def is_dict(ann):
    """Whether an annotation is that of dictionaries."""
    return typing.get_origin(ann) is dict


def is_union(ann):
    """Whether an annotation is that of one of several types."""
    return ann is Union or typing.get_origin(ann) in (Union, types.UnionType)


def is_optional(ann):
    """Whether an annotation is that of a type or None."""
    return is_union(ann) and type(None) in typing.get_args(ann)


def is_future(ann):
    """Whether an annotation is that of futures."""
    return ann is Future or typing.get_origin(ann) is Future


def _qualified_name(obj, mangle_name=True):
    """The name of a function or class in compiled code."""
    if hasattr(obj, "_jit_override_qualname"):
        return obj._jit_override_qualname
    name, module = obj.__name__, obj.__module__
    if name == "<lambda>":
        name = "_lambda"
    module = "__torch__" if module == "__main__" else f"__torch__.{module}"
    return f"{module}.{name}"


def _isinstance(obj, target_type):
    """Whether an object, with what it contains, is of a type."""
    from corten.jit import isinstance as is_of

    return is_of(obj, target_type)
