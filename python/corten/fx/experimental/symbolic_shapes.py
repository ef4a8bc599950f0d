"""Sizes of traced programs. They are numbers here, so that questions about unknown ones have plain answers."""

from __future__ import annotations

__all__ = [
    "free_symbols", "free_unbacked_symbols", "guard_bool", "guard_float", "guard_int", "guard_or_false",
    "guard_or_true", "guard_scalar", "guard_size_oblivious", "has_free_symbols",
    "has_free_unbacked_symbols", "has_hint", "hint_int", "is_concrete_bool", "is_concrete_float",
    "is_concrete_int", "is_symbolic", "statically_known_false", "statically_known_true", "sym_and", "sym_eq",
    "sym_or",
]


def is_symbolic(val):
    """Whether a number is unknown."""
    return False


def is_concrete_int(a):
    """Whether a number is known."""
    return True


is_concrete_bool = is_concrete_float = has_hint = is_concrete_int


def has_free_symbols(val):
    """Whether unknown numbers are part of something."""
    return False


has_free_unbacked_symbols = has_free_symbols


def free_symbols(val):
    """The unknown numbers that are part of something."""
    return set()


free_unbacked_symbols = free_symbols


def guard_bool(a):
    """The condition."""
    return bool(a)


guard_or_false = guard_or_true = guard_size_oblivious = statically_known_true = guard_bool


def statically_known_false(x):
    """Whether a condition is false."""
    return not x


def guard_int(a):
    """The number."""
    return int(a)


def hint_int(a, fallback=None):
    """The number."""
    return int(a)


def guard_float(a):
    """The number."""
    return float(a)


def guard_scalar(a):
    """The number."""
    return a


def sym_eq(x, y):
    """Whether numbers, or sequences of them, are equal."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    return x == y


def sym_and(x, *others):
    """Whether all conditions are true."""
    return all((x, *others))


def sym_or(x, *others):
    """Whether one condition is true."""
    return any((x, *others))
