"""Nodes of symbolic numbers: an expression with the environment that knows its symbols."""

from __future__ import annotations

import builtins
import math
import operator

from corten._symbolic_numbers import SymBool, SymFloat, SymInt
from corten.utils._python_dispatch import _active

from . import _symexpr as ex

__all__ = ["SymNode", "method_to_operator", "magic_methods"]

_CLASSES = {int: SymInt, float: SymFloat, bool: SymBool}
_SYMBOLIC = (SymInt, SymFloat, SymBool)


class SymNode:
    """An expression of an environment.

    Args:
        expr: The expression, or a number.
        shape_env: The environment.
        pytype: `int`, `float` or `bool`.
        hint: The value in the example, or None where there is none.
    """

    def __init__(self, expr, shape_env, pytype, hint=None, constant=None, fx_node=None, optimized_summation=False):
        self._expr, self.shape_env, self.pytype = expr, shape_env, pytype
        self._hint, self.constant, self.fx_node = hint, constant, fx_node

    @property
    def expr(self):
        """The expression, with what is known of its symbols."""
        return self.shape_env.replace(self._expr)

    @property
    def hint(self):
        """The value in the example, or None."""
        if self._hint is None:
            self._hint = self.shape_env.hint_of(self._expr, self.pytype)
        return self._hint

    def has_hint(self):
        """Whether there is a value in the example."""
        return self.hint is not None

    def require_hint(self, fallback=None):
        """The value in the example.

        Raises:
            GuardOnDataDependentSymNode: There is none, and no `fallback`.
        """
        if self.hint is not None:
            return self.hint
        if fallback is not None:
            return fallback
        raise self.shape_env.data_dependent(self.expr)

    def maybe_as_int(self):
        """The integer where it is known."""
        return self.expr if ex.is_number(self.expr) and self.pytype is int else None

    def maybe_as_float(self):
        """The float where it is known."""
        return self.expr if ex.is_number(self.expr) and self.pytype is float else None

    def maybe_as_bool(self):
        """The condition where it is known."""
        return builtins.bool(self.expr) if ex.is_number(self.expr) and self.pytype is builtins.bool else None

    def is_int(self):
        """Whether this is an integer."""
        return self.pytype is int

    def is_float(self):
        """Whether this is a float."""
        return self.pytype is float

    def is_bool(self):
        """Whether this is a condition."""
        return self.pytype is builtins.bool

    def is_constant(self):
        """Whether the value is known."""
        return ex.is_number(self.expr)

    def is_symbolic(self):
        """True: an expression stands for the number."""
        return True

    def is_nested_int(self):
        """False: it is no size of a nested tensor."""
        return False

    def wrap(self):
        """The number of this node."""
        return _CLASSES[self.pytype](self)

    def sample(self):
        """The value with the samples of the symbols."""
        return self.shape_env.sample_of(self.expr, self.pytype)

    def int_(self):
        """The integer, which becomes a guard."""
        return self.guard_int("", 0)

    def bool_(self):
        """The truth, which becomes a guard."""
        return self.guard_bool("", 0)

    def guard_int(self, file, line):
        """The integer, which becomes a guard."""
        return int(self.shape_env.evaluate(self.expr))

    def guard_float(self, file, line):
        """The float, which becomes a guard."""
        return float(self.shape_env.evaluate(self.expr))

    def guard_bool(self, file, line):
        """The truth, which becomes a guard."""
        value = self.expr
        if self.pytype is not builtins.bool:
            value = ex.relation("Ne", value, 0)
        return builtins.bool(self.shape_env.evaluate(value))

    def guard_size_oblivious(self, file, line):
        """The truth, where sizes that depend on data are not taken for 0 or 1."""
        return builtins.bool(self.shape_env.evaluate(self.expr, size_oblivious=True))

    def guard_or_false(self, file, line):
        """The truth, or False where only data tells it."""
        return self.shape_env.evaluate(self.expr, fallback=False)

    def guard_or_true(self, file, line):
        """The truth, or True where only data tells it."""
        return self.shape_env.evaluate(self.expr, fallback=True)

    def statically_known_true(self, file, line):
        """Whether the condition holds for all values."""
        return self.shape_env.decide(self.expr) is True

    def expect_true(self, file, line):
        """Takes the condition for true from here on; it is checked where data tells it."""
        return self.shape_env.expect_true(self.expr)

    def str(self):
        """The expression."""
        return str(self.expr)

    def _graph_repr(self):
        return builtins.str(self.expr)

    def __str__(self):
        return builtins.str(self.expr)

    def __repr__(self):
        return (
            f"SymNode({self.expr}, shape_env={self.shape_env}, pytype={self.pytype}, hint={self.hint}, "
            f"fx_node={self.fx_node})"
        )


def _recorder():
    """The mode that wants to see what is computed with symbolic numbers, or None."""
    return next((mode for mode in reversed(_active.modes) if hasattr(type(mode), "__sym_dispatch__")), None)


def _recorded(function, args):
    mode = _recorder()
    if mode is None:
        return None
    place = next(i for i, one in enumerate(_active.modes) if one is mode)
    _active.modes.pop(place)
    try:
        return mode.__sym_dispatch__(function, (), args, {})
    finally:
        _active.modes.insert(place, mode)


def _operand(value):
    """The expression and type of a number, or None of what is no number."""
    if isinstance(value, _SYMBOLIC):
        return value.node.expr, value.node.pytype
    if isinstance(value, builtins.bool):
        return value, builtins.bool
    if isinstance(value, int):
        return value, int
    if isinstance(value, float):
        return value, float
    return None


def _environment(*values):
    return next(value.node.shape_env for value in values if isinstance(value, _SYMBOLIC))


def _made(expr, pytype, env):
    return SymNode(expr, env, pytype).wrap()


_RELATIONS = {"eq": "Eq", "ne": "Ne", "lt": "Lt", "le": "Le", "gt": "Gt", "ge": "Ge"}


def binary(name, a, b):
    """What an operation gives; NotImplemented for what is no number."""
    left, right = _operand(a), _operand(b)
    if left is None or right is None:
        return NotImplemented
    recorded = _recorded(_OPERATORS[name], (a, b))
    if recorded is not None:
        return recorded
    env = _environment(a, b)
    if name in _RELATIONS:
        if builtins.bool in (left[1], right[1]) and left[1] is not right[1]:
            return name == "ne" if left[1] is not right[1] and not {left[1], right[1]} <= {int, builtins.bool} else \
                _made(ex.relation(_RELATIONS[name], *map(_as_int, (left, right))), builtins.bool, env)
        return _made(ex.relation(_RELATIONS[name], *_same((left, right))), builtins.bool, env)
    expr, pytype = _BINARY[name](left, right)
    return _made(expr, pytype, env)


def _as_int(operand):
    expr, pytype = operand
    if pytype is not builtins.bool:
        return expr
    return int(expr) if ex.is_number(expr) else ex.Call("Piecewise", expr, 1, 0)


def _same(operands):
    """The operands as floats where one is a float."""
    if any(pytype is float for _, pytype in operands):
        return [ex.to_float(_as_int(operand)) for operand in operands]
    return [expr if pytype is builtins.bool and all(t is builtins.bool for _, t in operands) else _as_int((expr, pytype))
            for expr, pytype in operands]


def _arithmetic(function):
    def compute(a, b):
        kind = float if float in (a[1], b[1]) else int
        x, y = _same((a, b))
        return function(_as_int((x, a[1] if kind is int else float)), _as_int((y, b[1] if kind is int else float))), kind

    return compute


def _truediv(a, b):
    x, y = a[0], b[0]
    if float in (a[1], b[1]):
        return ex.call("FloatTrueDiv", *_same((a, b))), float
    if ex.is_number(y) and y == 0:
        raise ZeroDivisionError("division by zero")
    return ex.call("IntTrueDiv", x, y), float


def _floordiv(a, b):
    if float in (a[1], b[1]):
        divided = ex.call("FloatTrueDiv", *_same((a, b)))
        return ex.to_float(ex.call("FloorToInt", divided)), float
    return ex.floordiv(a[0], b[0]), int


def _pow(a, b):
    if float in (a[1], b[1]) or ex.is_number(b[0]) and b[0] < 0:
        return ex.call("FloatPow", ex.to_float(a[0]), ex.to_float(b[0])), float
    return ex.power_of(a[0], b[0]), int


def _bitwise(name, condition=None):
    def compute(a, b):
        if a[1] is builtins.bool and b[1] is builtins.bool and condition is not None:
            return condition(a[0], b[0]), builtins.bool
        return ex.call(name, _as_int(a), _as_int(b)), int

    return compute


def _shift(factor):
    def compute(a, b):
        if ex.is_number(b[0]) and b[0] >= 0:
            scale = 2 ** b[0]
            return (ex.mul(a[0], scale) if factor > 0 else ex.floordiv(a[0], scale)), int
        return ex.call("LShift" if factor > 0 else "RShift", a[0], b[0]), int

    return compute


_BINARY = {
    "add": _arithmetic(ex.add), "sub": _arithmetic(lambda x, y: ex.add(x, ex.mul(y, -1))),
    "mul": _arithmetic(ex.mul), "mod": _arithmetic(ex.modulo), "truediv": _truediv, "floordiv": _floordiv, "pow": _pow,
    "sym_max": _arithmetic(ex.maximum), "sym_min": _arithmetic(ex.minimum),
    "and_": _bitwise("BitwiseFn_bitwise_and", ex.both), "or_": _bitwise("BitwiseFn_bitwise_or", ex.either),
    "xor": _bitwise("BitwiseFn_bitwise_xor"), "lshift": _shift(1), "rshift": _shift(-1),
}




def _torch_function(name):
    import corten

    return getattr(corten, name)


class _Operators(dict):
    """The functions of operations, of the package where Python has none."""

    def __missing__(self, name):
        if name.startswith("sym_"):
            found = _torch_function(name if name[4:] in ("max", "min", "float", "int", "not", "ite", "sqrt")
                                    else f"_sym_{name[4:]}")
        elif name in ("trunc", "floor", "ceil"):
            found = getattr(math, name)
        elif name == "round":
            found = builtins.round
        else:
            found = getattr(operator, {"abs": "abs", "neg": "neg", "pos": "pos"}.get(name, name))
        self[name] = found
        return found


_OPERATORS = method_to_operator = _Operators()


def unary(name, a):
    """What a function of one number gives."""
    if name == "pos" or name == "sym_int" and isinstance(a, SymInt) or name == "sym_float" and isinstance(a, SymFloat):
        return a
    if isinstance(a, SymInt) and name in ("trunc", "floor", "ceil"):
        return a
    recorded = _recorded(_OPERATORS[name], (a,))
    if recorded is not None:
        return recorded
    expr, pytype = _operand(a)
    env = a.node.shape_env
    if name == "neg":
        return _made(ex.mul(expr, -1), pytype, env)
    if name == "abs":
        low, _ = env.bounds(expr)
        return _made(expr if low >= 0 else ex.call("Abs", expr), pytype, env)
    if name == "sym_float":
        return _made(ex.to_float(_as_int((expr, pytype))), float, env)
    if name == "sym_not":
        return _made(ex.negate(expr), builtins.bool, env)
    if name == "is_integer":
        return _made(ex.relation("Eq", ex.to_float(ex.call("FloorToInt", expr)), expr), builtins.bool, env)
    rounding = {"trunc": "TruncToInt", "floor": "FloorToInt", "ceil": "CeilToInt", "sym_int": "TruncToInt"}
    if name in rounding:
        return _made(ex.call(rounding[name], expr), int, env)
    return _made(ex.call(f"OpaqueUnaryFn_{name[4:]}", ex.to_float(expr)), float, env)


def rounded(a, digits):
    """``round(a, digits)``."""
    if isinstance(a, SymInt) and digits is None:
        return a
    recorded = _recorded(builtins.round, (a,) if digits is None else (a, digits))
    if recorded is not None:
        return recorded
    expr, pytype = _operand(a)
    if digits is None:
        return _made(ex.call("RoundToInt", expr), int, a.node.shape_env)
    return _made(ex.call("RoundDecimal", expr, digits), pytype, a.node.shape_env)


def choose(condition, then, otherwise):
    """One of two numbers by a condition."""
    recorded = _recorded(_OPERATORS["sym_ite"], (condition, then, otherwise))
    if recorded is not None:
        return recorded
    env = condition.node.shape_env
    a, b = _operand(then), _operand(otherwise)
    expr = condition.node.expr
    if ex.is_number(expr):
        return then if expr else otherwise
    return _made(ex.Call("Piecewise", expr, a[0], b[0]), a[1], env)


def total(values):
    """The sum of numbers, some of them symbolic."""
    recorded = _recorded(_torch_function("sym_sum"), (tuple(values),))
    if recorded is not None:
        return recorded
    env = _environment(*values)
    return _made(ex.add(*(_operand(value)[0] for value in values)), int, env)


magic_methods = frozenset({*_BINARY, *_RELATIONS, "neg", "abs", "ceil", "floor", "trunc", "round", "sym_float", "sym_not"})


def to_node(node, value):
    """The node of a number, in the environment of another node; NotImplemented for what is no number."""
    if isinstance(value, _SYMBOLIC):
        return value.node
    operand = _operand(value)
    return NotImplemented if operand is None else SymNode(operand[0], node.shape_env, operand[1], hint=value)
