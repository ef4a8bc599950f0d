"""One operation on every tensor of a list: ``foreach.add(tensors, 1)``, ``foreach.exp_(tensors)``.

Lists go with lists of the same length, with one number for all, or with a number for each.
"""

from __future__ import annotations

import corten
from corten._overriding import overridable

_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor",
    "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)
_OTHERS = (
    "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "div", "lerp", "maximum", "minimum",
    "mul", "pow", "sub",
)
__all__ = sorted([
    "clone", "copy_", "max", "mm", "norm", "zero_",
    *(name + ending for name in _UNARY + _OTHERS for ending in ("", "_")),
])


def _public(name):
    operator = getattr(corten, f"_foreach_{name}")

    @overridable
    def function(*args, **kwargs):
        if name.startswith("addc") and "value" in kwargs:
            # One factor or one for each: told apart by place, not by name.
            args += (kwargs.pop("value"),)
        return operator(*args, **kwargs)

    place = ", in place" if name.endswith("_") else ""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name.rstrip('_')}`` of every tensor of a list{place}."
    return function


globals().update((name, _public(name)) for name in __all__)
