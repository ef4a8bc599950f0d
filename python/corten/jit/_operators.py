"""Calls of operators by their schemas: which overload takes the arguments, and how numbers stand for
dtypes, layouts and memory formats, as they do in TorchScript."""

from __future__ import annotations

import functools
import re

import corten
from corten import _C
from corten.jit import _builtins

DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128",
    "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8",
    "bits16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
)
LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_TABLES = {"ScalarType": DTYPES, "Layout": LAYOUTS, "MemoryFormat": FORMATS}
#: Operators that write files or read any: an archive has no business with them.
_REFUSED = {"aten::save", "aten::from_file", "aten::_load_library"}
_ARGUMENT = re.compile(r"(?P<base>\w+)(?:\([^)]*\))?(?P<rest>(?:\[\d*\]|\?|\(\w!?\))*)\s+(?P<name>\w+)(?:=(?P<default>.*))?$")


def number_of(value):
    """The number of a dtype, layout or memory format."""
    return _numbers()[value]


@functools.cache
def _numbers():
    return {
        getattr(corten, name): number for table in _TABLES.values() for number, name in enumerate(table)
        if hasattr(corten, name)
    }


def of_number(kind, number):
    """The dtype, layout or memory format of a number.

    Raises:
        RuntimeError: There is none.
    """
    if type(number) is not int:
        return number
    table = _TABLES[kind]
    found = getattr(corten, table[number], None) if 0 <= number < len(table) else None
    if found is None:
        raise RuntimeError(f"{number} is no {kind}")
    return found


class Argument:
    """An argument of a schema: its type, whether it may be None or a list, its default."""

    __slots__ = ("base", "name", "optional", "list", "sized", "none_inside", "has_default")

    def __init__(self, text):
        match = _ARGUMENT.match(text.strip())
        if match is None:
            raise RuntimeError(f"the argument {text!r} of a schema is not understood")
        self.base, self.name, rest = match["base"].removeprefix("Sym").lower(), match["name"], match["rest"]
        self.base = {"scalartype": "ScalarType", "layout": "Layout", "memoryformat": "MemoryFormat"}.get(self.base, self.base)
        self.optional = rest.endswith("?")
        self.list = "[" in rest
        self.sized = bool(re.search(r"\[\d+\]", rest))
        self.none_inside = "?[" in rest
        self.has_default = match["default"] is not None

    def takes(self, value, exactly):
        """Whether it takes a value; if not exactly, with what TorchScript converts."""
        if value is None:
            return self.optional
        if self.list:
            if isinstance(value, (list, tuple)):
                return all(item is None and self.none_inside or self._takes_one(item, exactly) for item in value)
            return self.sized and self._takes_one(value, exactly)
        return self._takes_one(value, exactly)

    def _takes_one(self, value, exactly):
        check = _TAKES.get(self.base)
        if check is None:
            return True
        if check(value):
            return True
        if exactly:
            return False
        if self.base == "tensor":
            return isinstance(value, (int, float, complex)) and not self.list
        if self.base in ("int", "float", "bool", "scalar"):
            return isinstance(value, corten.Tensor) and value.dim() == 0 or isinstance(value, (int, float))
        return self.base == "device" and isinstance(value, str)


_TAKES = {
    "tensor": lambda value: isinstance(value, corten.Tensor),
    "int": lambda value: isinstance(value, int) and type(value) is not bool,
    "float": lambda value: type(value) is float,
    "bool": lambda value: type(value) is bool,
    "scalar": lambda value: isinstance(value, (int, float, complex)),
    "complex": lambda value: type(value) is complex,
    "str": lambda value: isinstance(value, str),
    "device": lambda value: isinstance(value, corten.device),
    "generator": lambda value: isinstance(value, corten.Generator),
    "ScalarType": lambda value: type(value) is int or isinstance(value, corten.dtype),
    "Layout": lambda value: type(value) is int or isinstance(value, corten.layout),
    "MemoryFormat": lambda value: type(value) is int or isinstance(value, corten.memory_format),
}


class Schema:
    """The schema of an overload."""

    def __init__(self, qualified):
        self.qualified, text = qualified, _C._op_schema(qualified)
        inside, _, self.returns = text[text.index("(") + 1:].rpartition(") -> ")
        self.positional, self.keywords = [], {}
        target = None
        for part in _split(inside):
            if part == "*":
                target = self.keywords
                continue
            argument = Argument(part)
            if target is None:
                self.positional.append(argument)
            self.keywords[argument.name] = argument
        self.required = [name for name, one in self.keywords.items() if not one.has_default]
        self.finish = _finish(self.returns)
        # Sizes may be given as several arguments, as in `x.view(2, 3)`.
        sizes = [place for place, one in enumerate(self.positional) if one.list and one.base == "int"]
        self.place_of_sizes = sizes[0] if sizes else None

    def takes(self, args, kwargs, exactly):
        """Whether the overload takes arguments."""
        if len(args) > len(self.positional):
            return False
        given = {one.name for one, _ in zip(self.positional, args)}
        if any(name in given or name not in self.keywords for name in kwargs):
            return False
        if any(name not in given and name not in kwargs for name in self.required):
            return False
        return all(one.takes(value, exactly) for one, value in zip(self.positional, args)) and all(
            self.keywords[name].takes(value, exactly) for name, value in kwargs.items()
        )

    def call(self, args, kwargs):
        """The result of the overload; numbers become dtypes, layouts and memory formats."""
        made = [_as_argument(one, value) for one, value in zip(self.positional, args)]
        named = {name: _as_argument(self.keywords[name], value) for name, value in kwargs.items()}
        result = _C._op_call(self.qualified, *made, **named)
        return result if self.finish is None else self.finish(result)


def _as_argument(argument, value):
    base = argument.base
    if base in _TABLES and value is not None:
        return of_number(base, value)
    if isinstance(value, corten.Tensor) and base in ("int", "float", "bool", "scalar"):
        return value.item()
    if base == "float" and type(value) is int:
        return float(value)
    return value


def _finish(returns):
    """How a result becomes a value of TorchScript, or None where it is one."""
    if returns == "()":
        return lambda result: None
    if returns.startswith("("):
        lists = [part.split()[0].endswith("]") for part in _split(returns[1:-1])]
        if any(lists):
            return lambda result: tuple(list(x) if many else x for many, x in zip(lists, result))
        return tuple
    if returns.split()[0].endswith("]"):
        return list
    if returns.startswith(("ScalarType", "Layout", "MemoryFormat")):
        return number_of
    return None


def _split(text):
    """The parts between commas outside of brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, None
    for place, sign in enumerate(text):
        if quoted is not None:
            quoted = None if sign == quoted else quoted
        elif sign in "\"'":
            quoted = sign
        elif sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


class Operator:
    """An operator; a call finds the overload, and remembers it for arguments of these classes."""

    def __init__(self, name):
        self.name = name
        names = [] if name in _REFUSED else _C._op_overloads(name)
        self.schemas = None
        self._names = [f"{name}.{one}" if one else name for one in names if not one.endswith("out")]
        short = name.removeprefix("aten::")
        space = name.partition("::")[0]
        self.always = _builtins.ALWAYS.get(short if space == "aten" else name)
        self.scalar = _builtins.SCALAR.get(short) if space == "aten" else None
        self._found = {}

    def exists(self):
        """Whether there is anything to call."""
        return bool(self._names or self.always or self.scalar)

    def __call__(self, *args, **kwargs):
        if self.always is not None:
            return self.always(*args, **kwargs)
        key = (*map(type, args), *kwargs, *map(type, kwargs.values()))
        found = self._found.get(key)
        if found is None:
            found = self._find(args, kwargs)
            lists = (list, tuple)
            if not any(isinstance(value, lists) for value in (*args, *kwargs.values())):
                self._found[key] = found
        return found(args, kwargs)

    def _find(self, args, kwargs):
        scalar = self.scalar
        if scalar is not None and not any(isinstance(value, corten.Tensor) for value in args):
            return lambda args, kwargs: scalar(*args, **kwargs)
        if self.schemas is None:
            self.schemas = [Schema(name) for name in self._names]
        for exactly in (True, False):
            for schema in self.schemas:
                if schema.takes(args, kwargs, exactly):
                    return schema.call
        for schema in self.schemas:
            place = schema.place_of_sizes
            if place is not None and len(args) > place and schema.takes((*args[:place], list(args[place:])), kwargs, False):
                return lambda args, kwargs: schema.call((*args[:place], list(args[place:])), kwargs)
        given = ", ".join([type(value).__name__ for value in args] + [f"{name}={type(value).__name__}" for name, value in kwargs.items()])
        declared = "".join(f"\n  {_C._op_schema(name)}" for name in self._names)
        raise RuntimeError(
            f"Arguments for call are not valid: {self.name}({given})\nThe following variants are available:{declared}"
        )


class _PlainCall:
    """An operator that takes anything, such as those that packages register."""

    def __init__(self, name, overload):
        qualified = f"{name}.{overload}"
        self.schema = Schema(qualified)

    def __call__(self, *args, **kwargs):
        return self.schema.call(args, kwargs)


@functools.cache
def operator(name, overload=""):
    """The operator ``aten::add``, or one overload of it.

    Raises:
        RuntimeError: There is none of that name.
    """
    if overload and overload in _C._op_overloads(name) and name not in _REFUSED:
        return _PlainCall(name, overload)
    found = Operator(name)
    if not found.exists():
        raise RuntimeError(f"Unknown builtin op: {name}.")
    return found


def missing(message):
    """What calls of an operator that is not here do."""

    def refuse(*args, **kwargs):
        raise RuntimeError(message)

    return refuse


def exists(name):
    """Whether there is an operator of a name."""
    try:
        return operator(name) is not None
    except RuntimeError:
        return False
