"""Which overload stands in exported graphs where one of several that do the same was called."""

from __future__ import annotations

import functools

import corten
from corten.utils._python_dispatch import _overload

__all__ = ["chosen", "without_defaults"]

#: A number as the second operand is an operand like a tensor.
_WITH_NUMBERS = {
    f"aten::{name}.Scalar": f"aten::{name}.Tensor" for operator in ("mul", "div")
    for name in (operator, operator + "_")
}


def chosen(name, args, kwargs):
    """The overload, and its arguments."""
    if name in _WITH_NUMBERS:
        return _WITH_NUMBERS[name], args, kwargs
    rule = _RULES.get(name)
    if rule is not None:
        return rule(args, kwargs)
    return name, args, kwargs


_REQUIRED = object()


@functools.cache
def _defaults(name):
    """The default values of an operator: of positional arguments in order, of the others by name."""
    positional, named = [], {}
    for declared in _overload(name)._schema.arguments:
        default = declared.default_value if declared.has_default else _REQUIRED
        if declared.type.text == "MemoryFormat" and default == 0:
            default = corten.contiguous_format
        if declared.type.text == "float" and type(default) is int:
            default = float(default)
        if declared.kwarg_only:
            named[declared.name] = default
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
    return value is default or type(value) is type(default) and value == default


def _scalar_alpha(name):
    def rule(args, kwargs):
        if len(args) == 3:
            args, kwargs = args[:2], {**kwargs, "alpha": args[2]}
        return name, args, kwargs

    return rule


def _upsample(name, with_corners):
    """Sizes or factors, as they were given."""

    def rule(args, kwargs):
        count = 3 if with_corners else 2
        size, corners, scales = list(args[1]), list(args[2:count]), [one for one in args[count:] if one is not None]
        return name + ".vec", (args[0], None if scales else size, *corners, scales or None), kwargs

    return rule


def _renamed(name):
    return lambda args, kwargs: (name, args, kwargs)


def _converted(args, kwargs):
    """A conversion to a dtype alone."""
    if kwargs.get("dtype") is None or any(kwargs.get(key) is not None for key in ("layout", "device", "pin_memory")):
        return "aten::to.dtype_layout", args, kwargs
    extra = (kwargs.get("non_blocking", False), kwargs.get("copy", False))
    return "aten::to.dtype", (args[0], kwargs["dtype"], *extra), {"memory_format": kwargs.get("memory_format")}


_RULES = {
    "aten::to.dtype_layout": _converted,
    **{f"aten::{name}.Scalar": _scalar_alpha(f"aten::{name}.Tensor") for name in ("add", "sub", "add_", "sub_")},
    **{
        f"aten::upsample_{kind}": _upsample(f"aten::upsample_{kind}", corners)
        for kind, corners in (
            ("nearest1d", False), ("nearest2d", False), ("nearest3d", False), ("_nearest_exact1d", False),
            ("linear1d", True), ("bilinear2d", True), ("trilinear3d", True), ("bicubic2d", True),
        )
    },
    **{
        f"aten::_upsample_nearest_exact{rank}d": _upsample(f"aten::_upsample_nearest_exact{rank}d", False)
        for rank in (1, 2, 3)
    },
    "aten::floor_divide.Scalar": _renamed("aten::floor_divide"), "aten::split.sizes": _renamed("aten::split_with_sizes"),
}

def conversion(args, kwargs):
    """The operator of ``Tensor.to`` with these arguments."""
    self, *rest = args
    kwargs = dict(kwargs)
    other = rest[0] if rest else kwargs.pop("other", None)
    more = {}
    if isinstance(other, corten.Tensor):
        device, dtype, rest = other.device, other.dtype, rest[1:]
    elif isinstance(other, corten.dtype):
        device, dtype, rest = None, other, rest[1:]
    elif other is not None:
        device, dtype, rest = corten.device(other), None, rest[1:]
        if rest and isinstance(rest[0], corten.dtype):
            dtype, rest = rest[0], rest[1:]
    else:
        device = dtype = None
    device, dtype = kwargs.pop("device", device), kwargs.pop("dtype", dtype)
    for name, value in (*zip(("non_blocking", "copy"), rest), *kwargs.items()):
        if value not in (None, False):
            more[name] = value
    if device is None and dtype is not None:
        return "aten::to.dtype", (self, dtype, more.pop("non_blocking", False), more.pop("copy", False)), more
    if device is not None and dtype is not None:
        extra = (more.pop("non_blocking", False), more.pop("copy", False))
        return "aten::to.device", (self, corten.device(device), dtype, *extra), more
    given = {"dtype": self.dtype, "layout": self.layout, "device": corten.device(device or self.device)}
    return "aten::to.dtype_layout", (self,), {**given, **more}


#: The operator of a method of Python, where another one does the same.
_OF_METHODS = {"__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor"}


def of_method(name, method):
    """The overload that a method of Python calls."""
    other = _OF_METHODS.get(method)
    if other is not None and name.startswith(f"aten::{other}."):
        return name.replace(other, method)
    return name
