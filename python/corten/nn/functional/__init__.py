"""Functions of neural networks.

A function is here if, and only if, the operators it needs are. All names are here from the start, and
nothing looks for others: the interpreter remembers where the names of a module without `__getattr__`
are.
"""

from __future__ import annotations

from . import activation, attention, dropout as _dropout, linear as _linear
from . import loss, normalization, pooling, vision
from ._names import *  # noqa: F403
from .grouped import (
    ScalingType, SwizzleType, conv_tbc, grouped_mm, scaled_addmm, scaled_addmm_, scaled_grouped_mm,
    scaled_mm,
)

_HOMES = (activation, _linear, _dropout, normalization, pooling, vision, loss, attention)

__all__ = []
for _home in _HOMES:
    for _name in _home.__all__:
        _function = globals()[_name] = getattr(_home, _name)
        if getattr(_function, "__module__", None) == _home.__name__:
            _function.__module__ = __name__
        __all__.append(_name)

_threshold = activation._threshold

# Modules take functions from here, and some helpers are theirs.
from ._helpers import *  # noqa: E402, F403


def assert_int_or_pair(arg, arg_name, message):
    """Raises unless ``arg`` is one number or two."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))
