"""Annotations of Python as types of TorchScript."""

from __future__ import annotations

import enum
import types
import typing

import corten
from corten.futures import Future
from corten.jit._types import ANY, NONE, SCALARS, Type, of_value, UnknownTypeError

_PLAIN = {
    **{kind: Type(name) for name, kind in SCALARS.items()}, None: NONE, type(None): NONE, typing.Any: ANY,
    list: Type("List", [Type("Tensor")]), tuple: Type("Tuple", [Type("Tensor")]),
}


def is_tuple_class(kind):
    """Whether a class is one of tuples with names."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


class Annotations:
    """Finds types; classes of Python are declared by ``declare``, which gives their qualified names."""

    def __init__(self, declare):
        self.declare = declare

    def type_of(self, annotation):
        """The type that an annotation means.

        Raises:
            UnknownTypeError: None.
        """
        try:
            if annotation in _PLAIN:
                return _PLAIN[annotation]
        except TypeError:
            pass
        if isinstance(annotation, Type):
            return annotation
        if isinstance(annotation, str):
            raise UnknownTypeError(f"Unknown type name '{annotation}'")
        if isinstance(annotation, type):
            found = self._of_class(annotation)
            if found is not None:
                return found
        origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
        found = self._of_generic(origin, parts)
        if found is None:
            raise UnknownTypeError(f"Unknown type annotation: '{annotation}'")
        return found

    def _of_class(self, kind):
        if issubclass(kind, corten.Tensor):
            return Type("Tensor")
        for one, name in ((corten.device, "Device"), (corten.dtype, "int"), (corten.layout, "int"),
                          (corten.memory_format, "int"), (corten.Generator, "Generator")):
            if issubclass(kind, one):
                return Type(name)
        if issubclass(kind, corten.Size):
            return Type("List", [Type("int")])
        if kind.__module__ == "builtins" and kind not in SCALARS.values():
            return None
        if is_tuple_class(kind) or issubclass(kind, enum.Enum) or getattr(kind, "_is_script_class", False):
            return Type(self.declare(kind))
        return None

    def _of_generic(self, origin, parts):
        if origin in (typing.Union, types.UnionType):
            inner = [part for part in parts if part is not type(None)]
            if len(inner) == 1 and len(parts) == 2:
                return Type("Optional", [self.type_of(inner[0])])
            return Type("Union", map(self.type_of, parts))
        if origin in (list, dict, tuple, Future):
            if origin is tuple and parts == ((),):
                parts = ()
            name = {list: "List", dict: "Dict", tuple: "Tuple", Future: "Future"}[origin]
            return Type(name, map(self.type_of, parts))
        if origin is typing.Final:
            return self.type_of(parts[0]) if parts else ANY
        if origin is typing.Annotated:
            return self.type_of(parts[0])
        return None


def evaluated(annotation, space, annotations):
    """The type of an annotation that may be text, evaluated among the names of a function."""
    if isinstance(annotation, str):
        names = {**vars(typing), "Tensor": corten.Tensor, "torch": corten, **space}
        try:
            annotation = eval(annotation, names)
        except Exception:
            raise UnknownTypeError(f"Unknown type name '{annotation}'") from None
    return annotations.type_of(annotation)


def attribute_type(module, name, value, annotations):
    """The type of an attribute of a module: as its class says, or as the value is; None where neither is."""
    import sys

    for kind in type(module).__mro__:
        if name in vars(kind).get("__annotations__", {}):
            space = vars(sys.modules.get(kind.__module__, corten))
            try:
                return evaluated(vars(kind)["__annotations__"][name], space, annotations)
            except UnknownTypeError:
                break
    try:
        if isinstance(value, list) and not value or isinstance(value, dict) and not value:
            return None
        if is_tuple_class(type(value)) or isinstance(value, enum.Enum):
            return annotations.type_of(type(value))
        return of_value(value)
    except UnknownTypeError:
        return None
