"""Which overload stands in exported graphs where one of several that do the same was called."""

from __future__ import annotations

import ast
import functools

import corten
from corten.utils._python_dispatch import _overload, _parts

__all__ = ["chosen", "without_defaults"]

#: A number as the second operand is an operand like a tensor.
_WITH_NUMBERS = {
    f"aten::{name}.Scalar": f"aten::{name}.Tensor" for operator in ("add", "sub", "mul", "div")
    for name in (operator, operator + "_")
}


def chosen(name, args, kwargs):
    """The overload, and its arguments."""
    if name in _WITH_NUMBERS:
        return _WITH_NUMBERS[name], args, kwargs
    rule = _RULES.get(name)
    return (name, args, kwargs) if rule is None else rule(args, kwargs)


_NAMED = {
    "contiguous_format": corten.contiguous_format, "preserve_format": corten.preserve_format, "Mean": 1, "Sum": 2,
    "long": corten.int64, "float": corten.float32, "strided": corten.strided, "None": None, "False": False,
    "True": True,
}
_REQUIRED = object()


@functools.cache
def _defaults(name):
    """The default values of an operator: of positional arguments in order, of the others by name."""
    positional, named, by_name = [], {}, False
    for declared in _parts(_overload(name)._schema)[0]:
        parameter, _, value = declared.rpartition(" ")[2].partition("=")
        if parameter == "*":
            by_name = True
            continue
        default = _NAMED.get(value, _REQUIRED)
        if declared.startswith("MemoryFormat ") and value == "0":
            default = corten.contiguous_format
        if default is _REQUIRED and value:
            try:
                default = ast.literal_eval(value)
            except (SyntaxError, ValueError):
                default = _REQUIRED
        if by_name:
            named[parameter] = default
        else:
            positional.append(default)
    return positional, named


def without_defaults(name, args, kwargs):
    """Arguments without the last ones that have their default values."""
    positional, named = _defaults(name)
    count = len(args)
    while count and _is_default(args[count - 1], positional[count - 1]):
        count -= 1
    return args[:count], {
        key: value for key, value in kwargs.items() if not _is_default(value, named.get(key, _REQUIRED))
    }


def _is_default(value, default):
    if default is _REQUIRED or isinstance(value, corten.Tensor):
        return False
    if isinstance(value, (list, tuple)):
        values = list(value)
        if isinstance(default, int) and type(default) is int:
            return all(type(one) is int and one == default for one in values)
        return isinstance(default, list) and values == default
    if type(value) in (int, float) and type(default) in (int, float):
        return value == default
    return value is default or type(value) is type(default) and value == default


def _to(args, kwargs):
    """A conversion, by the arguments that were given."""
    dtype, device, layout = (kwargs.get(key) for key in ("dtype", "device", "layout"))
    rest = {
        key: kwargs[key] for key in ("non_blocking", "copy", "memory_format")
        if kwargs.get(key) not in (None, False)
    }
    if device is None and layout is None and dtype is not None:
        return "aten::to.dtype", (args[0], dtype), rest
    if device is not None and dtype is not None and layout is None:
        return "aten::to.device", (args[0], corten.device(device), dtype), rest
    return "aten::to.dtype_layout", args, {key: one for key, one in kwargs.items() if one is not None}


_RULES = {"aten::to.dtype_layout": _to}
