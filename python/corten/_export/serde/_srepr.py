"""Expressions of sizes out of the text of SymPy's ``srepr``. The text is taken apart, never executed."""

from __future__ import annotations

import ast

from corten._export.serde._codec import SerializeError
from corten.fx.experimental import _symexpr as ex

__all__ = ["parsed"]

_RELATIONS = {"Equality": "Eq", "Unequality": "Ne", "StrictLessThan": "Lt", "LessThan": "Le", "StrictGreaterThan": "Gt",
              "GreaterThan": "Ge"}
_LONGEST = 10_000


def parsed(text, symbol):
    """The expression of a text; ``symbol`` gives the symbol of a name.

    Raises:
        SerializeError: It is no expression of sizes.
    """
    if len(text) > _LONGEST:
        raise SerializeError("the expression of a size is too long")
    try:
        return _value(ast.parse(text, mode="eval").body, symbol)
    except (SyntaxError, RecursionError, ValueError, ZeroDivisionError, TypeError) as error:
        raise SerializeError(f"not the expression of a size: {text[:60]!r}: {error}") from None


def _value(node, symbol):
    if isinstance(node, ast.Name) and node.id in ("true", "false"):
        return node.id == "true"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError("expected a call of a function of sizes")
    name = node.func.id
    if name in ("Symbol", "Integer", "Float"):
        return _leaf(name, node, symbol)
    args = [_value(arg, symbol) for arg in node.args]
    if name == "Add":
        return ex.add(*args)
    if name == "Mul":
        return ex.product(args)
    if name in ("Pow", "PowByNatural") and len(args) == 2:
        return ex.power_of(*args)
    if name in ("FloorDiv", "CleanDiv", "IntTrueDiv") and len(args) == 2:
        return ex.floordiv(*args)
    if name in ("Mod", "PythonMod") and len(args) == 2:
        return ex.modulo(*args)
    if name in ("Max", "Min") and args:
        found = args[0]
        for one in args[1:]:
            found = (ex.maximum if name == "Max" else ex.minimum)(found, one)
        return found
    if name == "ToFloat" and len(args) == 1:
        return ex.to_float(args[0])
    if name in _RELATIONS and len(args) == 2:
        return ex.relation(_RELATIONS[name], *args)
    if name in ("And", "Or") and args:
        found = args[0]
        for one in args[1:]:
            found = (ex.both if name == "And" else ex.either)(found, one)
        return found
    if name == "Not" and len(args) == 1:
        return ex.negate(args[0])
    raise ValueError(f"{name} is no function of sizes")


def _leaf(name, node, symbol):
    if not node.args or not isinstance(node.args[0], (ast.Constant, ast.UnaryOp)):
        raise ValueError(f"{name} without a value")
    value = ast.literal_eval(node.args[0])
    if name == "Symbol":
        if not isinstance(value, str) or not value.isidentifier():
            raise ValueError(f"{value!r} is no name of a symbol")
        return symbol(value)
    return int(value) if name == "Integer" else float(value)
