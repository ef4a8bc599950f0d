"""Calls in functions that are compiled: of operators, modules, methods, functions and classes."""

from __future__ import annotations

import ast
import builtins

import corten
from corten.jit._annotations import is_tuple_class
from corten.jit._static import Method, StaticValues
from corten.jit._structure import literal

_WRAPPED = {"broadcast_tensors": 0, "meshgrid": 0, "block_diag": 0, "cartesian_prod": 0, "einsum": 1}
_BUILTINS = {
    len, int, float, bool, str, complex, abs, min, max, range, enumerate, zip, print, round, sorted, list, tuple, dict,
    ord, chr, hex, oct, bin, sum, all, any, divmod, pow, reversed,
}


class Calls(StaticValues):
    """The calls of a function that is compiled."""

    def arguments(self, node):
        """The arguments of a call."""
        if any(one.arg is None for one in node.keywords):
            raise self.refused(node, "keyword-arg expansion is not supported")
        return [*map(self.expression, node.args), *(f"{one.arg}={self.expression(one.value)}" for one in node.keywords)]

    def _call(self, node):
        if isinstance(node.func, ast.Attribute) and is_super(node.func.value):
            return self._call_of_super(node)
        known = self.static(node.func)
        if known is None:
            return self._call_of_value(node)
        value = known.value
        if isinstance(value, corten.nn.Module):
            if self.program.overloads(value, "forward"):
                name = self.program.overloaded_method(value, "forward", self._overload_for(value, node))
                return f"{known.text}.{name}({', '.join(self.arguments(node))})"
            self.program.method(value, "forward")
            return f"{known.text}.forward({', '.join(self.arguments(node))})"
        if isinstance(value, Method):
            self.program.method(value.module, value.name, value.function)
            return f"{value.text}.{value.name}({', '.join(self.arguments(node))})"
        return self._call_of_known(node, value)

    def _overload_for(self, module, node):
        """The overload that a call means: by whether its first argument is a list."""
        first = node.args[0] if node.args else None
        listed = isinstance(first, (ast.List, ast.ListComp)) or isinstance(first, ast.Name) and first.id in self.lists
        for place, one in enumerate(self.program.overloads(module, "forward")):
            annotation = str(list(one.__annotations__.values())[:1])
            if ("List" in annotation or "list[" in annotation) == listed:
                return place
        return 0

    def _call_of_value(self, node):
        """A method of a value, or a function in a local name."""
        arguments = ", ".join(self.arguments(node))
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "numpy":
                raise self.refused(node, "NumPy arrays are not part of TorchScript")
            return f"{self.operand(node.func.value)}.{node.func.attr}({arguments})"
        return f"{self.operand(node.func)}({arguments})"

    def _call_of_super(self, node):
        name = node.func.attr
        for kind in self.program.classes_after(self.module, self.function):
            if name in vars(kind):
                made = f"_super_{kind.__name__}_{name}"
                self.program.method(self.module, made, vars(kind)[name], kind)
                return f"self.{made}({', '.join(self.arguments(node))})"
        raise self.refused(node, f"no base class has a method {name!r}")

    def _call_of_known(self, node, value):
        special = self.program.special(value)
        if special is not None:
            return special(self, node)
        if value in (isinstance, builtins.isinstance) or getattr(value, "__name__", "") in ("isinstance", "_isinstance"):
            return f"isinstance({self.expression(node.args[0])}, {self._kinds(node.args[1])})"
        if isinstance(value, type) and issubclass(value, BaseException):
            raise self.refused(node, "exceptions can only be raised")
        if _hashable(value) and value in _BUILTINS:
            return f"{value.__name__}({', '.join(self.arguments(node))})"
        if value is getattr or value is hasattr:
            return f"{value.__name__}({', '.join(self.arguments(node))})"
        name = self.program.operator_name(value)
        if name is not None:
            return self._call_of_operator(node, name)
        if is_tuple_class(value):
            return f"{self.program.declare(value)}({', '.join(self._fields(node, value))})"
        if isinstance(value, type):
            return f"{self.program.declare(value)}({', '.join(self.arguments(node))})"
        self.program.spread_sizes(value, node, self)
        return f"{self.program.function(value, self, node)}({', '.join(self.arguments(node))}, )".replace("(, )", "()")

    def _fields(self, node, kind):
        """The values of a tuple with names, with its defaults, which archives do not have."""
        given = dict(zip(kind._fields, map(self.expression, node.args)))
        given.update((one.arg, self.expression(one.value)) for one in node.keywords)
        return [given.get(field) or literal(kind._field_defaults[field]) for field in kind._fields]

    def _call_of_operator(self, node, name):
        node.keywords = [
            one for one in node.keywords
            if not (one.arg == "requires_grad" and isinstance(one.value, ast.Constant) and not one.value.value)
        ]
        given = self.arguments(node)
        place = _WRAPPED.get(name.rpartition(".")[2])
        if place is not None and len(node.args) > place:
            first = node.args[place]
            if len(node.args) > place + 1 or not isinstance(first, (ast.List, ast.Tuple)):
                count = len(node.args)
                if isinstance(first, ast.Starred):
                    given[place:count] = [given[place].lstrip("*")]
                elif not (count == place + 1 and isinstance(first, ast.Name)):
                    given[place:count] = [f"[{', '.join(given[place:count])}]"]
        return f"{name}({', '.join(given)})"

    def _kinds(self, node):
        """The second argument of ``isinstance``."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return "[" + ", ".join(self._kinds(one) for one in node.elts) + "]"
        known = self.static(node)
        if known is not None and known.value in (list, tuple):
            return known.value.__name__
        if known is not None and isinstance(known.value, tuple):
            return "[" + ", ".join(str(self.program.annotations.type_of(one)) for one in known.value) + "]"
        return str(self.kind(node))


def _hashable(value):
    try:
        hash(value)
    except TypeError:
        return False
    return True


def is_super(node):
    """Whether an expression is a call of ``super``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
