"""One operation on every tensor of a list: ``foreach.add(tensors, 1)``, ``foreach.exp_(tensors)``.

Lists go with lists of the same length, with one number for all, or with a number for each.
"""

from __future__ import annotations

import corten
from corten import _C
from corten._overriding import overridable

_PREFIX = "_foreach_"
#: Forms that the registry derives and PyTorch has not.
_DERIVED = ("copy", "zero")
__all__ = sorted({
    name.removeprefix(_PREFIX) for name in dir(_C._functions) if name.startswith(_PREFIX)
}.difference(_DERIVED))


def _public(name):
    operator = getattr(corten, _PREFIX + name)

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
