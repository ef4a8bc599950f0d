"""Structures of trees as text, in PyTorch's format."""

from __future__ import annotations

import enum
import functools
import importlib
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, Callable, NamedTuple

from ._pytree import _LEAF, TreeSpec

__all__ = [
    "DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL", "EnumEncoder", "NO_SERIALIZED_TYPE_NAME_FOUND",
    "SERIALIZED_TYPE_TO_PYTHON_TYPE", "SUPPORTED_SERIALIZED_TYPES", "_defaultdict_deserialize",
    "_defaultdict_serialize", "_json_to_treespec", "_namedtuple_deserialize",
    "_namedtuple_serialize", "_register_namedtuple", "_SerializeNodeDef", "_treespec_to_json",
    "enum_object_hook", "pytree_to_str", "str_to_pytree", "treespec_dumps", "treespec_loads",
]

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


class _SerializeNodeDef(NamedTuple):
    """How the context of a class's nodes is written."""

    typ: type
    serialized_type_name: str
    to_dumpable_context: Callable | None
    from_dumpable_context: Callable | None


def _defaultdict_serialize(context):
    factory, keys = context
    return {
        "default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_deserialize(dumpable_context):
    module = importlib.import_module(dumpable_context["default_factory_module"])
    factory = getattr(module, dumpable_context["default_factory_name"])
    return [factory, dumpable_context["dict_context"]]


_names_of_tuples = {}


def _register_namedtuple(cls, *, serialized_type_name):
    """Gives a class of named tuples a name by which structures can be written and read."""
    _names_of_tuples[cls] = serialized_type_name


def _namedtuple_serialize(context):
    if context not in _names_of_tuples:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a "
            "serialized_type_name. Please register using `_register_namedtuple`."
        )
    return _names_of_tuples[context]


def _namedtuple_deserialize(dumpable_context):
    for cls, name in _names_of_tuples.items():
        if name == dumpable_context:
            return cls
    raise NotImplementedError(
        f"Can't deserialize TreeSpec of namedtuple class {dumpable_context} because we couldn't find "
        "a serialized name."
    )


SUPPORTED_SERIALIZED_TYPES = {
    kind: _SerializeNodeDef(kind, *rest) for kind, *rest in (
        (tuple, "builtins.tuple", None, None),
        (list, "builtins.list", None, None),
        (dict, "builtins.dict", None, None),
        (namedtuple, "collections.namedtuple", _namedtuple_serialize, _namedtuple_deserialize),
        (OrderedDict, "collections.OrderedDict", None, None),
        (defaultdict, "collections.defaultdict", _defaultdict_serialize, _defaultdict_deserialize),
        (deque, "collections.deque", None, None),
    )
}
SERIALIZED_TYPE_TO_PYTHON_TYPE = {
    entry.serialized_type_name: kind for kind, entry in SUPPORTED_SERIALIZED_TYPES.items()
}


def register(cls, name, to_dumpable_context, from_dumpable_context):
    """Gives a class of nodes a name by which structures can be written and read.

    Raises:
        ValueError: Only one of the two functions is given.
    """
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    name = NO_SERIALIZED_TYPE_NAME_FOUND if name is None else name
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(
        cls, name, to_dumpable_context, from_dumpable_context
    )
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def forget(cls):
    """Takes the name of a class back."""
    entry = SUPPORTED_SERIALIZED_TYPES.pop(cls)
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(entry.serialized_type_name, None)


class EnumEncoder(json.JSONEncoder):
    """Writes members of enumerations, too."""

    def default(self, obj: Any):
        if not isinstance(obj, enum.Enum):
            return super().default(obj)
        return {
            "__enum__": True, "fqn": f"{type(obj).__module__}:{type(obj).__qualname__}",
            "name": obj.name,
        }


def enum_object_hook(obj):
    """Reads members of enumerations."""
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    if not (isinstance(found, type) and issubclass(found, enum.Enum)):
        raise ValueError(f"{obj['fqn']} is no enumeration")
    return found[obj["name"]]


def _treespec_to_json(treespec):
    if treespec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    entry = SUPPORTED_SERIALIZED_TYPES.get(treespec.type)
    if entry is None:
        raise NotImplementedError(
            f"Serializing {treespec.type} in pytree is not registered."
        )
    if entry.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {treespec.type} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if entry.to_dumpable_context is not None:
        context = entry.to_dumpable_context(treespec.context)
    else:
        try:
            context = json.dumps(treespec.context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a "
                "custom serializer using _register_pytree_node."
            ) from error
    children = [_treespec_to_json(child) for child in treespec.children()]
    return {"type": entry.serialized_type_name, "context": context, "children_spec": children}


def _json_to_treespec(json_schema):
    if json_schema["type"] is None and json_schema["context"] is None and not json_schema["children_spec"]:
        return _LEAF
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE.get(json_schema["type"])
    if kind is None:
        raise NotImplementedError(f"Deserializing {json_schema['type']} in pytree is not registered.")
    read = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    context = json_schema["context"]
    context = json.loads(context, object_hook=enum_object_hook) if read is None else read(context)
    return TreeSpec(kind, context, [_json_to_treespec(one) for one in json_schema["children_spec"]])


def _check_protocol(protocol):
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(
            f"Unknown protocol {protocol}. Available protocols: "
            f"[{DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL}]"
        )


def treespec_dumps(treespec, protocol=None):
    """A structure as text.

    Raises:
        NotImplementedError: It has nodes of a class without a name.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps((protocol, _treespec_to_json(treespec)), cls=EnumEncoder)


def treespec_loads(serialized):
    """The structure of a text."""
    protocol, spec = json.loads(serialized, object_hook=enum_object_hook)
    _check_protocol(protocol)
    return _json_to_treespec(spec)


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads
