"""Functions of neural networks.

A function is here if, and only if, the operators it needs are.
"""

from __future__ import annotations

from . import activation, attention, dropout as _dropout, linear as _linear
from . import loss, normalization, pooling, vision
from ._ops import find as _find

_HOMES = (activation, _linear, _dropout, normalization, pooling, vision, loss, attention)

__all__ = []
for _home in _HOMES:
    for _name in _home.__all__:
        globals()[_name] = getattr(_home, _name)
        __all__.append(_name)

_threshold = activation._threshold


def assert_int_or_pair(arg, arg_name, message):
    """Raises unless ``arg`` is one number or two."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def __getattr__(name):
    """Operators of this home that need no Python around them, and names that are no functions."""
    if name in _NAMES or name in _GROUPED:
        import importlib

        home = "_names" if name in _NAMES else "grouped"
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    found = None if name.startswith("__") else _find(name)
    if found is None or name not in _FURTHER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


_FURTHER = frozenset(("scaled_grouped_mm", "pad_sequence"))
_GROUPED = frozenset(("ScalingType", "SwizzleType", "conv_tbc", "grouped_mm", "scaled_mm"))
_NAMES = frozenset((
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3",
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "TYPE_CHECKING", "Tensor",
    "boolean_dispatch", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "reproducibility_notes", "sparse_support_notes", "tf32_notes",
))
