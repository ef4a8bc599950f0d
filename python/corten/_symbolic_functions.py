"""Functions of numbers, symbolic ones among them: ``sym_max``, ``sym_not`` and the like."""

from __future__ import annotations

import math

from corten._overriding import overridable
from corten._symbolic_numbers import SymBool, SymFloat, SymInt

_NUMBERS = (SymInt, SymFloat)


@overridable
def sym_not(a):
    """The negation."""
    return a.__sym_not__() if isinstance(a, SymBool) else not a


@overridable
def sym_float(a):
    """The number as a float."""
    if isinstance(a, _NUMBERS):
        return a.__sym_float__()
    return float(a)


@overridable
def sym_int(a):
    """The number rounded towards zero."""
    if isinstance(a, SymInt):
        return a
    if isinstance(a, SymFloat):
        return math.trunc(a)
    return math.floor(a) if a >= 0 else math.ceil(a)


@overridable
def sym_max(a, b):
    """The greater one, as a float if one is a float."""
    return _extreme(a, b, "__sym_max__", max)


@overridable
def sym_min(a, b):
    """The lesser one, as a float if one is a float."""
    return _extreme(a, b, "__sym_min__", min)


def _extreme(a, b, method, function):
    if isinstance(a, _NUMBERS):
        return getattr(a, method)(b)
    if isinstance(b, _NUMBERS):
        return getattr(b, method)(a)
    both = type(a) is float or type(b) is float
    return float(function(a, b)) if both else function(a, b)


@overridable
def sym_sum(args):
    """The sum."""
    args = tuple(args)
    if any(isinstance(one, SymInt) for one in args):
        from corten.fx.experimental.sym_node import total

        return total(args)
    return sum(args)


@overridable
def sym_ite(b, t, f):
    """One of two values of one type."""
    if not isinstance(b, (bool, SymBool)):
        raise AssertionError("expected bool")
    if isinstance(b, SymBool):
        return b.__sym_ite__(t, f)
    if type(t) is not type(f):
        raise AssertionError("expected values of one type")
    return t if b else f


def sym_fresh_size(expr):
    """Refused: a size comes from a tensor."""
    raise NotImplementedError("there are no sizes without a number")


def sym_constrain_range(size, *, min=None, max=None):
    """That a number is within a range.

    Raises:
        RuntimeError: It is not.
    """
    if isinstance(size, SymInt):
        from corten.fx.experimental.symbolic_shapes import constrain_range

        constrain_range(size, min=min, max=max)
        return
    low = -(1 << 63) if min is None else min
    high = (1 << 63) - 1 if max is None else max
    if not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


def sym_constrain_range_for_size(size, *, min=None, max=None):
    """That a size is within a range; see :func:`sym_constrain_range`."""
    if isinstance(size, SymInt):
        from corten.fx.experimental.symbolic_shapes import _constrain_range_for_size

        _constrain_range_for_size(size, min, max)
        return
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def _function(name):
    def function(a):
        if isinstance(a, _NUMBERS):
            return getattr(a, f"__sym_{name}__")()
        return getattr(math, name)(a)

    function.__name__ = function.__qualname__ = f"_sym_{name}"
    function.__doc__ = f"``math.{name}`` of a number, which may be symbolic."
    return overridable(function)


_FUNCTIONS = ("sqrt", "cos", "sin", "tan", "cosh", "sinh", "tanh", "acos", "asin", "atan", "exp", "log", "log2")
for _name in _FUNCTIONS:
    globals()[f"_sym_{_name}"] = _function(_name)
sym_sqrt = _function("sqrt")
sym_sqrt.__name__ = sym_sqrt.__qualname__ = "sym_sqrt"
