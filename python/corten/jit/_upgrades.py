"""Operators that meant something else in archives of older versions."""

from __future__ import annotations

import corten


def _division(a, b, **named):
    """Division before version 4: of integers towards zero."""
    from corten.jit._operators import operator

    whole = all(
        not one.is_floating_point() and not one.is_complex() if isinstance(one, corten.Tensor) else isinstance(one, int)
        for one in (a, b)
    )
    if isinstance(a, corten.Tensor) and whole and "rounding_mode" not in named:
        named["rounding_mode"] = "trunc"
    return operator("aten::div")(a, b, **named)


def _division_in_place(a, b, **named):
    """Division in place before version 4."""
    made = _division(a, b, **named)
    return a.copy_(made) if isinstance(a, corten.Tensor) else made


def _full(size, value, *, dtype=None, layout=None, device=None, pin_memory=None, **named):
    """``full`` before version 5: of floating point, whatever fills it."""
    from corten.jit._operators import number_of, operator

    if dtype is None:
        dtype = number_of(corten.get_default_dtype())
    return operator("aten::full")(size, value, dtype=dtype, device=device, **named)


def _spaced(name):
    """``linspace`` and ``logspace`` before the number of steps had to be given: of 100 steps."""

    def function(start, end, steps=None, *rest, **named):
        from corten.jit._operators import operator

        return operator(f"aten::{name}")(start, end, 100 if steps is None else steps, *rest, **named)

    return function


#: By operator: the first version in which it means what it means now, and what it meant before.
_CHANGED = {
    "aten::div": (4, _division), "aten::div_": (4, _division_in_place), "aten::full": (5, _full),
    "aten::linspace": (8, _spaced("linspace")), "aten::logspace": (9, _spaced("logspace")),
}


def upgraded(qualified, overload, version):
    """What an operator meant in a version, or None where it means the same now."""
    found = _CHANGED.get(qualified)
    return found[1] if found is not None and version < found[0] else None
