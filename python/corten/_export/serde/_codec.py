"""Classes of the schema as JSON, and back, with checks of every value."""

from __future__ import annotations

import enum
import json
import math

from corten._export.serde import schema

__all__ = ["SerializeError", "from_bytes", "to_bytes"]


class SerializeError(RuntimeError):
    """A program cannot be written, or what was read is none."""


_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def _encoded(value):
    if isinstance(value, schema.Union):
        return {value.type: _encoded(value.value)}
    if hasattr(value, "_types"):
        return {name: _encoded(getattr(value, name)) for name in value._types}
    if isinstance(value, (list, tuple)):
        return [_encoded(one) for one in value]
    if isinstance(value, dict):
        return {key: _encoded(one) for key, one in value.items()}
    if isinstance(value, enum.IntEnum):
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def to_bytes(value):
    """A value of a class of the schema as JSON."""
    return json.dumps(_encoded(value), allow_nan=False).encode()


def _refuse(where, wanted, given):
    shown = repr(given)
    raise SerializeError(f"{where}: expected {wanted}, got {shown[:60]}")


_PLAIN = {"str": str, "int": int, "bool": bool}
#: Graphs in graphs, and arguments in arguments.
_DEEPEST = 200


def _decoded(kind, value, where, depth=0):
    if depth > _DEEPEST:
        raise SerializeError(f"{where}: nested too deeply")
    if kind.endswith("?"):
        return None if value is None else _decoded(kind[:-1], value, where, depth)
    if kind[0] == "[":
        if not isinstance(value, list):
            _refuse(where, "a list", value)
        return [_decoded(kind[1:-1], one, f"{where}[{place}]", depth + 1) for place, one in enumerate(value)]
    if kind[0] == "{":
        if not isinstance(value, dict):
            _refuse(where, "an object", value)
        return {key: _decoded(kind[1:-1], one, f"{where}.{key}", depth + 1) for key, one in value.items()}
    if kind in _PLAIN:
        if type(value) is not _PLAIN[kind]:
            _refuse(where, f"a value of type {kind}", value)
        return value
    if kind == "float":
        return _float(value, where)
    return _of_class(getattr(schema, kind), value, where, depth)


def _float(value, where):
    if isinstance(value, str) and value in _FLOATS:
        return _FLOATS[value]
    if type(value) not in (int, float):
        _refuse(where, "a number", value)
    return float(value)


def _of_class(cls, value, where, depth):
    if issubclass(cls, enum.IntEnum):
        if type(value) is not int or value not in list(cls):
            _refuse(where, f"a number of {cls.__name__}", value)
        return cls(value)
    if not isinstance(value, dict):
        _refuse(where, f"an object of {cls.__name__}", value)
    if issubclass(cls, schema.Union):
        given = [key for key, one in value.items() if one is not None]
        if len(given) != 1 or given[0] not in cls._fields:
            _refuse(where, f"one of the fields of {cls.__name__}", value)
        name = given[0]
        return cls.create(**{name: _decoded(cls._fields[name], value[name], f"{where}.{name}", depth + 1)})
    fields = {}
    for name, kind in cls._types.items():
        if name in value:
            fields[name] = _decoded(kind, value[name], f"{where}.{name}", depth + 1)
    try:
        return cls(**fields)
    except TypeError:
        missing = [name for name in cls._types if name not in fields]
        raise SerializeError(f"{where}: {cls.__name__} lacks {', '.join(missing)}") from None


def from_bytes(name, data):
    """A value of a class of the schema out of JSON.

    Raises:
        SerializeError: It is no JSON, or not of this class.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SerializeError(f"{name}: not a JSON document: {error}") from None
    return _decoded(name, value, name)
