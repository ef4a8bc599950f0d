"""Guards on symbolic sizes as conditions on the inputs of a program."""

from __future__ import annotations

import math

import corten
from corten._symbolic_numbers import SymInt

from . import _symexpr as ex
from ._sym_errors import ConstraintViolationError


def _leaves(placeholders, args):
    """Symbols and expressions of the sizes of placeholders, with the names and sizes of inputs."""
    for place, (fake, real) in enumerate(zip(placeholders, args)):
        if isinstance(fake, corten.Tensor):
            for dim, size in enumerate(fake.shape):
                yield f"L['args'][{place}].size()[{dim}]", size, None if real is None else real.shape[dim]
        elif isinstance(fake, SymInt):
            yield f"L['args'][{place}]", fake, real
        elif isinstance(fake, int) and not isinstance(fake, bool):
            yield f"L['args'][{place}]", fake, real


def bind_symbols(placeholders, args):
    """The symbols of the sizes of placeholders with the sizes of inputs."""
    found = {}
    for _, size, real in _leaves(placeholders, args):
        if isinstance(size, SymInt) and isinstance(size.node.expr, ex.Symbol):
            found.setdefault(size.node.expr, real)
    return found


def _python(expr, names):
    """An expression as Python, with names for its symbols."""
    class Text(str):
        def _with(self, other, sign, swapped=False):
            one, two = (other, self) if swapped else (self, other)
            return Text(f"({one} {sign} {two})")

        def __add__(self, other):
            return self._with(other, "+")

        def __radd__(self, other):
            return self._with(other, "+", True)

        def __mul__(self, other):
            return self._with(other, "*")

        __rmul__ = __mul__

    functions = {
        "FloorDiv": lambda a, b: Text(f"({a} // {b})"), "Mod": lambda a, b: Text(f"({a} % {b})"),
        "Max": lambda *args: Text(f"max({', '.join(map(str, args))})"),
        "Min": lambda *args: Text(f"min({', '.join(map(str, args))})"),
        "ToFloat": lambda a: Text(f"float({a})"), "IntTrueDiv": lambda a, b: Text(f"({a} / {b})"),
        "FloatTrueDiv": lambda a, b: Text(f"({a} / {b})"), "Abs": lambda a: Text(f"abs({a})"),
        "FloorToInt": lambda a: Text(f"math.floor({a})"), "CeilToInt": lambda a: Text(f"math.ceil({a})"),
        "TruncToInt": lambda a: Text(f"math.trunc({a})"), "RoundToInt": lambda a: Text(f"round({a})"),
        "Piecewise": lambda c, a, b: Text(f"({a} if {c} else {b})"), "FloatPow": lambda a, b: Text(f"({a} ** {b})"),
    }
    if isinstance(expr, ex.Condition):
        signs = {"Eq": "==", "Ne": "!=", "Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">="}
        parts = [_python(arg, names) for arg in expr.args]
        if expr.name in signs:
            return f"{parts[0]} {signs[expr.name]} {parts[1]}"
        if expr.name == "Not":
            return f"not ({parts[0]})"
        return f" {expr.name.lower()} ".join(f"({part})" for part in parts)
    values = {symbol: Text(names[symbol]) for symbol in ex.symbols_of(expr)}
    return str(ex.evaluate(expr, values, functions))


def _conditions(env, named, guards, ignore_static):
    """The conditions on names of sizes: equalities of sizes, numbers, ranges and guards."""
    names, found = {}, []
    for name, size in named:
        expr = size.node._expr if isinstance(size, SymInt) else size
        if isinstance(expr, ex.Symbol) and expr not in names:
            names[expr] = name
    for name, size in named:
        expr = size.node._expr if isinstance(size, SymInt) else size
        known = env.replace(expr)
        if ex.is_number(known):
            if not ignore_static or isinstance(expr, ex.Expr):
                found.append(f"{name} == {known}")
        elif ex.symbols_of(expr) <= names.keys() and names.get(expr) != name:
            found.append(f"{_python(expr, names)} == {name}")
    for guard in env.guards if guards is None else guards:
        if ex.symbols_of(guard.expr) <= names.keys():
            found.append(_python(guard.expr, names))
    for symbol, name in names.items():
        low, high = env.var_to_range.get(symbol, (0, math.inf))
        if not ex.is_number(env.replace(symbol)) and (low > 0 or high != math.inf):
            least = f"{low} <= " if low > 0 else ""
            most = f" <= {high}" if high != math.inf else ""
            found.append(f"{least}{name}{most}")
    return list(dict.fromkeys(found))


def expression(env, placeholders, guards=None, ignore_static=True):
    """The guards on the sizes of inputs as one Python expression, or None."""
    named = [(name, size) for name, size, _ in _leaves(placeholders, [None] * len(placeholders))]
    found = _conditions(env, named, guards, ignore_static)
    return " and ".join(f"({one})" for one in found) if found else None


def holds(code, args):
    """Whether a condition holds for inputs."""
    return bool(eval(code, {"math": math}, {"L": {"args": args}}))


def produce_guards(env, placeholders, sources, source_ref=lambda source: getattr(source, "name", str(source)), *,
                   guards=None, input_contexts=None, equalities_inputs=None, _simplified=False, ignore_static=True,
                   langs=None):
    """The guards as Python conditions on what inputs are called.

    Raises:
        ConstraintViolationError: A size that was said to be any became a number.
    """
    named = []
    for fake, source in zip(placeholders, sources):
        text = source_ref(source)
        text = text() if callable(text) else text
        if isinstance(fake, corten.Tensor):
            named += [(f"{text}.size()[{dim}]", size) for dim, size in enumerate(fake.shape)]
        elif isinstance(fake, (int, SymInt)) and not isinstance(fake, bool):
            named.append((text, fake))
    check_constraints(env)
    return _conditions(env, named, guards, ignore_static)


def check_constraints(env):
    """Fails where a size that was said to be any within a range became a number, or has a narrower range.

    Raises:
        ConstraintViolationError: One has.
    """
    from ._shape_env import _name

    wrong = []
    for symbol, constraint, source in env.constraints:
        known, name = env.replace(symbol), _name(source)
        if ex.is_number(known):
            wrong.append(
                f"  - You marked {name} as dynamic but your code specialized it to be a constant ({known}). If you're "
                "using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace "
                "it with either Dim.STATIC or Dim.AUTO."
            )
            continue
        limits = getattr(constraint, "vr", None)
        low, high = env.var_to_range.get(symbol, (0, math.inf))
        if limits is not None and (low > max(limits.lower, 2) or high < limits.upper):
            wrong.append(
                f"  - Not all values of {name} in the specified range [{limits.lower}, {limits.upper}] satisfy the "
                f"generated guards; they need {low} <= {name} <= {high}."
            )
    if wrong:
        raise ConstraintViolationError("Constraints violated! For more information, run with TORCH_LOGS=\"+dynamic\".\n"
                                       + "\n".join(wrong))
