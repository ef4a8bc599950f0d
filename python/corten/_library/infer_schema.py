"""The schema of an operator out of a function's annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Sequence

import corten

_BASE = {
    corten.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    corten.dtype: "ScalarType", corten.device: "Device", corten.layout: "Layout",
    corten.memory_format: "MemoryFormat",
}
_NUMBER = {int, float, bool}
_LISTS = (list, Sequence, typing.List, typing.Sequence)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema of a function whose arguments and result are annotated.

    ``mutates_args`` names the arguments that it writes to, or is "unknown" for all tensors.
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)

    def error(what):
        return ValueError(
            f"infer_schema(func): {what} Got func with signature {signature})"
        )

    arguments, starred, seen = [], False, set()
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise error("We do not support positional-only args, varargs, or varkwargs.")
        if name not in hints:
            raise error(f"Parameter {name} must have a type annotation.")
        text = _type(hints[name])
        if text is None:
            raise error(f"Parameter {name} has unsupported type {hints[name]}.")
        if name in mutates_args or (mutates_args == "unknown" and text.startswith("Tensor")):
            if not text.startswith("Tensor"):
                raise error(f"Parameter {name} is in mutable_args but only Tensors or collections "
                            "of Tensors can be mutated")
            text = text.replace("Tensor", f"Tensor(a{place}!)", 1)
            seen.add(name)
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            arguments.append("*")
            starred = True
        default = "" if parameter.default is parameter.empty else f"={_value(parameter.default)}"
        arguments.append(f"{text} {name}{default}")
    unknown = set() if mutates_args == "unknown" else set(mutates_args) - seen
    if unknown:
        raise error(f"{unknown} in mutates_args were not found in the custom op's signature.")
    result = _returns(hints.get("return", None) if "return" in hints else error, error)
    return f"{op_name or ''}({', '.join(arguments)}) -> {result}"


def _type(hint):
    """The schema's name of an annotation; ``None`` if it has none."""
    if hint in _BASE:
        return _BASE[hint]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in parts if part is not type(None)]
        if set(rest) == _NUMBER:
            inner = "Scalar"
        elif len(rest) == 1:
            inner = _type(rest[0])
        else:
            return None
        optional = len(rest) < len(parts)
        return inner and (f"{inner}?" if optional else inner)
    if origin in _LISTS and len(parts) == 1:
        inner = _type(parts[0])
        return inner and f"{inner}[]"
    return None


def _value(value):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, corten.dtype):
        return str(value).partition(".")[2]
    if isinstance(value, corten.device):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return str(value)


def _returns(hint, error):
    if hint is error:
        raise error("No return type annotation was provided. Please add one.")
    if hint in (None, type(None)):
        return "()"
    parts = typing.get_args(hint) if typing.get_origin(hint) is tuple else None
    if parts is not None:
        names = [_type(part) for part in parts]
        if None in names:
            raise error(f"Return has unsupported type {hint}.")
        return "(" + ", ".join(names) + ")"
    name = _type(hint)
    if name is None:
        raise error(f"Return has unsupported type {hint}.")
    return name
