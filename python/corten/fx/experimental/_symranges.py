"""What follows for expressions from the ranges of their symbols."""

from __future__ import annotations

import math

from ._symexpr import Call, Condition, Expr, Poly, Symbol, add, mul


def bounds(expr, ranges):
    """The least and greatest value of an expression, with those of its symbols; infinities where not known."""
    if not isinstance(expr, Expr):
        return expr, expr
    if isinstance(expr, Symbol):
        return ranges(expr)
    if isinstance(expr, Poly):
        low = high = 0
        for term, factor in expr.terms.items():
            least, most = 1, 1
            for atom, power in term:
                for _ in range(power):
                    least, most = _times((least, most), bounds(atom, ranges))
            least, most = _times((least, most), (factor, factor))
            low, high = low + least, high + most
        return low, high
    if isinstance(expr, Call):
        return _bounds_of_call(expr, [bounds(arg, ranges) for arg in expr.args])
    return 0, 1


def _times(a, b):
    products = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(products), max(products)


def _bounds_of_call(expr, args):
    if expr.name in ("Max", "Min"):
        pick = max if expr.name == "Max" else min
        return pick(low for low, _ in args), pick(high for _, high in args)
    if expr.name == "FloorDiv" and args[1][0] > 0:
        (low, high), (least, most) = args
        ends = [math.floor(x / y) if abs(x) != math.inf and abs(y) != math.inf
                else (x if abs(x) == math.inf else (0 if x >= 0 else -1)) for x in (low, high) for y in (least, most)]
        return min(ends), max(ends)
    if expr.name == "Mod" and args[1][0] > 0:
        low, high = args[0]
        return 0, min(args[1][1] - 1, high) if low >= 0 else args[1][1] - 1
    if expr.name == "Abs":
        low, high = args[0]
        return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    if expr.name == "ToFloat":
        return args[0]
    if expr.name == "Piecewise":
        return min(args[1][0], args[2][0]), max(args[1][1], args[2][1])
    return -math.inf, math.inf


def decide(condition, ranges):
    """Whether a condition holds for all values in the ranges of its symbols (True), none (False) or some (None)."""
    if not isinstance(condition, Expr):
        return bool(condition)
    if condition.name in ("And", "Or"):
        known = [decide(arg, ranges) for arg in condition.args]
        stop = condition.name == "Or"
        return stop if stop in known else None if None in known else not stop
    if condition.name == "Not":
        known = decide(condition.args[0], ranges)
        return None if known is None else not known
    if any(isinstance(arg, (Condition, bool)) for arg in condition.args):
        return None
    low, high = bounds(add(condition.args[0], mul(condition.args[1], -1)), ranges)
    name = condition.name
    if name in ("Eq", "Ne"):
        outside = low > 0 or high < 0
        known = False if outside else True if low == high == 0 else None
        return known if name == "Eq" or known is None else not known
    if name in ("Lt", "Ge"):
        known = True if high < 0 else False if low >= 0 else None
    else:
        known = True if high <= 0 else False if low > 0 else None
    return known if name in ("Lt", "Le") or known is None else not known
