"""The types of TorchScript: how annotations are read and written, and which values are of a type."""

from __future__ import annotations

import ast
import enum

import corten
from corten.futures import Future

SCALARS = {"int": int, "float": float, "bool": bool, "str": str, "complex": complex}
#: Names of types without parts, as code spells them, and the spelling that is kept.
_SIMPLE = {
    **{name: name for name in (*SCALARS, "Tensor", "Device", "Any", "number", "Generator", "Storage", "Stream", "Layout")},
    "NoneType": "NoneType", "None": "NoneType", "Scalar": "number", "AnyList": "Any", "AnyTuple": "Any",
    "AnyClassType": "Any", "AnyEnumType": "Any", "Capsule": "Any", "QScheme": "Any", "t": "Any", "list": "Any",
    "tuple": "Any", "dict": "Any", "ScalarType": "int", "device": "Device",
}
_GENERIC = {"List", "Dict", "Tuple", "Optional", "Union", "Future", "Await", "RRef", "Final"}


class Type:
    """A type: a name, the types of its parts, and for classes what was declared of them."""

    __slots__ = ("name", "parts", "declared")

    def __init__(self, name, parts=(), declared=None):
        self.name, self.parts, self.declared = name, tuple(parts), declared

    def __str__(self):
        if self.name == "Tuple" and not self.parts:
            return "Tuple[()]"
        if self.parts:
            return f"{self.name}[{', '.join(map(str, self.parts))}]"
        return self.name

    def __repr__(self):
        return str(self)

    def __eq__(self, other):
        return isinstance(other, Type) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))

    def __deepcopy__(self, memo):
        return self

    def accepts(self, value):
        """Whether a value is of the type. Empty containers are of every type of containers."""
        return _accepts(self, value)


TENSOR, INT, FLOAT, BOOL, STR, ANY, NONE = map(
    Type, ("Tensor", "int", "float", "bool", "str", "Any", "NoneType")
)


def _accepts(kind, value):
    name = kind.name
    if name == "Tensor":
        return isinstance(value, corten.Tensor)
    if name in SCALARS:
        return type(value) is SCALARS[name] or (name == "int" and type(value) is not bool and isinstance(value, int))
    if name == "Any":
        return True
    if name == "NoneType":
        return value is None
    if name == "number":
        return isinstance(value, (int, float, complex))
    if name == "Optional":
        return value is None or _accepts(kind.parts[0], value)
    if name == "Union":
        return any(_accepts(part, value) for part in kind.parts)
    if name == "Final":
        return _accepts(kind.parts[0], value)
    check = _CONTAINERS.get(name)
    return check(kind, value) if check is not None else _is_of_class(kind, value)


def _is_list(kind, value):
    return isinstance(value, list) and all(_accepts(kind.parts[0], item) for item in value)


def _is_dict(kind, value):
    key, item = kind.parts
    return isinstance(value, dict) and all(_accepts(key, k) and _accepts(item, v) for k, v in value.items())


def _is_tuple(kind, value):
    fits = isinstance(value, tuple) and len(value) == len(kind.parts)
    return fits and all(map(_accepts, kind.parts, value))


_CONTAINERS = {
    "List": _is_list, "Dict": _is_dict, "Tuple": _is_tuple,
    "Future": lambda kind, value: isinstance(value, Future),
    "Await": lambda kind, value: True,
    "Device": lambda kind, value: isinstance(value, corten.device),
    "Generator": lambda kind, value: isinstance(value, corten.Generator),
}


def _is_of_class(kind, value):
    declared = kind.declared
    if declared is None:
        return False
    if declared.kind in ("enum", "tuple"):
        return isinstance(value, declared.python)
    own = getattr(value, "_script_type", None)
    if declared.kind == "interface":
        return own is not None and all(name in own.methods for name in declared.methods)
    return own is declared


class UnknownTypeError(RuntimeError):
    """An annotation that is no type of TorchScript."""


def parse(node, find_class):
    """The type that an annotation means; ``find_class`` gives what was declared under a qualified name."""
    if node is None:
        return TENSOR
    if isinstance(node, ast.Constant):
        if node.value is None:
            return NONE
        if isinstance(node.value, str):
            return parse(ast.parse(node.value, mode="eval").body, find_class)
    if isinstance(node, ast.Name) and node.id in _SIMPLE:
        return Type(_SIMPLE[node.id])
    if isinstance(node, ast.Name) and node.id in _GENERIC:
        return ANY
    if isinstance(node, ast.Subscript):
        return _parse_generic(node, find_class)
    if isinstance(node, (ast.Attribute, ast.Name)):
        name = dotted(node)
        if name.startswith("__torch__."):
            declared = find_class(name)
            return Type(name, (), declared)
        if name in ("torch.Tensor", "torch.device"):
            return Type({"torch.Tensor": "Tensor"}.get(name, "Device"))
    raise UnknownTypeError(f"Unknown type name '{ast.unparse(node)[:100]}'")


def _parse_generic(node, find_class):
    name = dotted(node.value).rpartition(".")[2]
    if name == "BroadcastingList" or name.startswith("BroadcastingList"):
        name = "List"
    if name not in _GENERIC:
        raise UnknownTypeError(f"Unknown type constructor {name[:100]}")
    inner = node.slice
    if isinstance(inner, ast.Tuple):
        parts = [parse(one, find_class) for one in inner.elts]
    else:
        parts = [parse(inner, find_class)]
    return Type(name, parts)


def dotted(node):
    """``a.b.c`` as it stands in code.

    Raises:
        UnknownTypeError: It is something else.
    """
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise UnknownTypeError("a name was expected")
    return ".".join((node.id, *reversed(names)))


def of_value(value):
    """The type of a value that stands for attributes and constants."""
    if value is None:
        return NONE
    for name, kind in SCALARS.items():
        if type(value) is kind:
            return Type(name)
    if isinstance(value, corten.Tensor):
        return TENSOR
    if isinstance(value, corten.device):
        return Type("Device")
    if isinstance(value, (corten.dtype, corten.layout, corten.memory_format)):
        return INT
    if isinstance(value, list):
        return Type("List", [common(map(of_value, value))])
    if isinstance(value, dict):
        return Type("Dict", [common(map(of_value, value)), common(map(of_value, value.values()))])
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return Type("Tuple", map(of_value, value))
    declared = getattr(value, "_script_type", None)
    if declared is not None:
        return Type(declared.name, (), declared)
    if isinstance(value, enum.Enum):
        raise UnknownTypeError("an enum of Python that was not compiled")
    raise UnknownTypeError(f"values of {type(value).__name__} have no type in TorchScript")


def common(kinds):
    """The type of the elements of a list: theirs, if it is one, with None as an optional."""
    kinds = list(dict.fromkeys(kinds))
    if not kinds:
        return TENSOR
    without = [kind for kind in kinds if kind != NONE]
    if len(kinds) == 1:
        return kinds[0]
    if len(without) == 1:
        return Type("Optional", without)
    raise UnknownTypeError("a container of values of several types has no type in TorchScript")


def converted(kind, value, what):
    """An argument of Python as a value of the type: integers for floats, tuples for lists, the numbers
    of dtypes.

    Raises:
        RuntimeError: It is not of the type; the text ends a sentence that begins with the function.
    """
    made = _convert(kind, value)
    if not _accepts(kind, made):
        found = type(value).__name__
        raise TypeError(f"Expected a value of type '{kind}' for argument '{what}' but instead found type '{found}'.")
    return made


def _convert(kind, value):
    name = kind.name
    if name == "Tensor" or name == "Any" or value is None:
        return value
    if name == "float" and type(value) is int:
        return float(value)
    if name == "complex" and type(value) in (int, float):
        return complex(value)
    if name in ("int", "number") and isinstance(value, (corten.dtype, corten.layout, corten.memory_format)):
        from corten.jit._operators import number_of

        return number_of(value)
    if name == "Device" and isinstance(value, str):
        return corten.device(value)
    if name == "Optional":
        return _convert(kind.parts[0], value)
    if name == "List" and isinstance(value, (list, tuple)):
        part = kind.parts[0]
        if part.name == "Tensor" and type(value) is list:
            return value
        return [_convert(part, one) for one in value]
    if name == "Tuple" and isinstance(value, (tuple, list)) and len(value) == len(kind.parts):
        return tuple(map(_convert, kind.parts, value))
    if name == "Dict" and isinstance(value, dict):
        key, item = kind.parts
        return {_convert(key, k): _convert(item, v) for k, v in value.items()}
    return value
