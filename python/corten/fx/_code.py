"""Python code of a graph."""

from __future__ import annotations

import builtins
import enum
import keyword
import math
import re
import typing
from dataclasses import dataclass, field

import corten
from corten.utils import _pytree as pytree

from . import _pytree as fx_pytree
from .node import Node, _qualified_name, _type_repr

#: How operators are written.
MAGIC_METHODS = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}", "add": "{} + {}",
    "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}",
    "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}",
    "getitem": "{}[{}]", "matmul": "{} @ {}",
}
INPLACE_METHODS = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}",
    "ipow": "{} **= {}", "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
    "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}
#: What generated code may use without an import.
GLOBALS = {
    "inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": corten,
    "device": corten.device, "fx_pytree": fx_pytree, "pytree": pytree,
}
_ORIGINS = {
    list: typing.List, dict: typing.Dict, set: typing.Set, frozenset: typing.FrozenSet,
    tuple: typing.Tuple,
}
_TAKEN = frozenset((*keyword.kwlist, *vars(builtins), *GLOBALS))


class Namespace:
    """Names that are valid and different from each other."""

    def __init__(self):
        self._of, self._used, self._counts = {}, set(), {}

    def create_name(self, candidate, obj=None):
        """A name like ``candidate``, for an object that keeps it."""
        if obj is not None and obj in self._of:
            return self._of[obj]
        candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        found = re.match(r"(.*)_(\d+)$", candidate)
        base, number = (candidate, None) if found is None else (found[1], int(found[2]))
        name = base if number is None else f"{base}_{number}"
        number = number or self._counts.get(base, 0)
        while name in self._used or name in _TAKEN:
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        self._counts[base] = number
        if obj is not None:
            self._of[obj] = name
        return name

    def associate_name_with_obj(self, name, obj):
        """Says that an object has a name already."""
        self._of[obj] = name


@dataclass
class PythonCode:
    """Generated source, and the objects that it names."""

    src: str
    globals: dict = field(default_factory=dict)
    _lineno_map: dict | None = None
    _prologue_start: int = 0


class Writer:
    """Writes nodes as statements, and collects the objects that these name."""

    def __init__(self, root):
        self.root, self.globals, self.names = root, dict(GLOBALS), Namespace()
        self.wrapped, self.returns = {}, ""

    def global_name(self, hint, obj):
        """The name by which the code refers to an object."""
        module = getattr(obj, "__module__", None) or ""
        if obj is type(None):
            return "NoneType"
        if module == "builtins" and getattr(builtins, hint, None) is obj:
            return hint
        if module.split(".")[0] in ("corten", "torch") and obj is not corten.device:
            return hint
        name = re.sub("[^0-9a-zA-Z_]+", "_", hint)
        if self.globals.get(name, self) is obj:
            return name
        name = self.names.create_name(name, obj)
        self.globals[name] = obj
        return name

    def annotation(self, kind):
        """A type as it is written; what it consists of gets names."""
        origin = getattr(kind, "__origin__", None)
        if origin is not None:
            origin = _ORIGINS.get(origin, origin)
            text = self.global_name(_type_repr(origin), origin)
            args = [self.annotation(arg) for arg in getattr(kind, "__args__", ())]
            return f"{text}[{','.join(args)}]" if args else text
        return self.global_name(_type_repr(kind), kind)

    def value(self, arg):
        """An argument as it is written."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            name = self.global_name(_qualified_type(type(arg)), type(arg))
            return f"{name}({', '.join(map(self.value, arg))})"
        if isinstance(arg, tuple):
            return "(" + ", ".join(map(self.value, arg)) + ("," if len(arg) == 1 else "") + ")"
        if isinstance(arg, list):
            return "[" + ", ".join(map(self.value, arg)) + "]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{key!r}: {self.value(item)}" for key, item in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({self.value(arg.start)}, {self.value(arg.stop)}, {self.value(arg.step)})"
        if isinstance(arg, enum.Enum):
            return f"{self.global_name(_qualified_type(type(arg)), type(arg))}.{arg.name}"
        if isinstance(arg, type) or callable(arg) and hasattr(arg, "__name__"):
            return self.global_name(_qualified_name(arg), arg)
        if type(arg) is complex:
            return f"complex({arg.real!r}, {arg.imag!r})"
        return repr(arg)

    def arguments(self, args, kwargs):
        written = [self.value(arg) for arg in args]
        return ", ".join(written + [f"{name} = {self.value(arg)}" for name, arg in kwargs.items()])

    def statement(self, node, note="", output=None):
        """One line for a node; nothing for placeholders. ``note`` is written as its type."""
        name = repr(node) + (note or (f" : {self.annotation(node.type)}" if node.type else ""))
        if node.op == "get_attr":
            return f"{name} = {attribute(self.root, node.target)}"
        if node.op == "call_module":
            call = self.arguments(node.args, node.kwargs)
            return f"{name} = {attribute(self.root, node.target)}({call})"
        if node.op == "call_method":
            call = self.arguments(node.args[1:], node.kwargs)
            return f"{name} = {attribute(self.value(node.args[0]), node.target)}({call})"
        if node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.annotation(node.type)}"
            return output(node.args[0]) if output else f"return {self.value(node.args[0])}"
        return self.call(node, name)

    def call(self, node, name):
        target, args = node.target, [self.value(arg) for arg in node.args]
        kind = getattr(target, "__module__", None)
        if kind == "_operator" and target.__name__ in MAGIC_METHODS:
            return f"{name} = {MAGIC_METHODS[target.__name__].format(*args)}"
        if kind == "_operator" and target.__name__ in INPLACE_METHODS:
            return f"{INPLACE_METHODS[target.__name__].format(*args)};  {name} = {args[0]}"
        known = _qualified_name(target)
        if kind == "_operator":
            known = f"_operator.{target.__name__}"
        if target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
            return f"{name} = {attribute(args[0], node.args[1])}"
        called = self.global_name(known, target)
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(called)
        return f"{name} = {called}({self.arguments(node.args, node.kwargs)})"


def _qualified_type(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


def attribute(base, target):
    """``base.a.b``, with ``getattr`` where a part is no identifier."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base
