"""What is a node of a tree: the registry of classes of containers."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, Callable, NamedTuple

from ._pytree_keys import GetAttrKey, MappingKey, SequenceKey


class NodeDef(NamedTuple):
    """How a class of containers is taken apart and put together."""

    type: type
    flatten_fn: Callable
    unflatten_fn: Callable
    flatten_with_keys_fn: Callable | None = None


def _tuple_flatten(d):
    return list(d), None


def _tuple_unflatten(values, context):
    return tuple(values)


def _list_flatten(d):
    return d, None


def _list_unflatten(values, context):
    return list(values)


def _dict_flatten(d):
    return list(d.values()), list(d.keys())


def _dict_unflatten(values, context):
    return dict(zip(context, values, strict=True))


_ordereddict_flatten = _odict_flatten = _dict_flatten


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values, strict=True))


_odict_unflatten = _ordereddict_unflatten


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d.keys())]


def _defaultdict_unflatten(values, context):
    factory, keys = context
    return defaultdict(factory, zip(keys, values, strict=True))


def _deque_flatten(d):
    return list(d), d.maxlen


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


def _namedtuple_flatten(d):
    return list(d), type(d)


def _namedtuple_unflatten(values, context):
    return context(*values)


def _sequence_with_keys(flatten):
    def flatten_with_keys(d):
        values, context = flatten(d)
        return [(SequenceKey(i), value) for i, value in enumerate(values)], context

    return flatten_with_keys


def _mapping_with_keys(flatten):
    def flatten_with_keys(d):
        values, context = flatten(d)
        return [(MappingKey(key), value) for key, value in zip(d, values)], context

    return flatten_with_keys


_tuple_flatten_with_keys = _sequence_with_keys(_tuple_flatten)
_list_flatten_with_keys = _sequence_with_keys(_list_flatten)
_deque_flatten_with_keys = _sequence_with_keys(_deque_flatten)
_dict_flatten_with_keys = _ordereddict_flatten_with_keys = _mapping_with_keys(_dict_flatten)
_defaultdict_flatten_with_keys = _mapping_with_keys(_defaultdict_flatten)


def _namedtuple_flatten_with_keys(d):
    return [(GetAttrKey(name), value) for name, value in zip(d._fields, d)], type(d)


#: Named tuples have no class in common: the function that makes them stands for it.
SUPPORTED_NODES = {
    kind: NodeDef(kind, *functions) for kind, *functions in (
        (tuple, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys),
        (list, _list_flatten, _list_unflatten, _list_flatten_with_keys),
        (dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
        (namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys),
        (OrderedDict, _dict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys),
        (defaultdict, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys),
        (deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys),
    )
}
STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))
BUILTIN_TYPES = frozenset(SUPPORTED_NODES)
CONSTANT_NODES = set()
_NODE_REGISTRY_LOCK = threading.RLock()


def register_pytree_node(
    cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
    from_dumpable_context=None, flatten_with_keys_fn=None,
):
    """Makes the instances of a class nodes: ``flatten_fn(node)`` gives children and a context,
    ``unflatten_fn(children, context)`` a node.

    Raises:
        ValueError: The class is one already.
    """
    from . import _pytree_serial

    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _pytree_serial.register(cls, serialized_type_name, to_dumpable_context, from_dumpable_context)
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_private_register_pytree_node = register_pytree_node


def _register_pytree_node(
    cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None, **names
):
    """Deprecated: :func:`register_pytree_node`."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **names)


def _deregister_pytree_node(cls):
    """Makes instances of a class leaves again."""
    from . import _pytree_serial

    with _NODE_REGISTRY_LOCK:
        del SUPPORTED_NODES[cls]
        _pytree_serial.forget(cls)
        CONSTANT_NODES.discard(cls)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Makes the instances of a dataclass nodes, whose children are their fields.

    Raises:
        ValueError: Some fields are neither taken nor dropped.
    """
    dropped = drop_field_names or []
    if dataclasses.is_dataclass(cls):
        every = [field.name for field in dataclasses.fields(cls) if field.init]
        if field_names is None:
            field_names = [name for name in every if name not in dropped]
        _check_fields(every, field_names, dropped)
    elif field_names is None:
        raise ValueError(
            f"field_names must be specified with a list of all fields used to initialize {cls}, as "
            "it is not a dataclass."
        )

    def flatten(node):
        values = {name: getattr(node, name) for name in field_names}
        given = [name for name in field_names if values[name] is not None]
        return [values[name] for name in given], [given, [n for n in field_names if n not in given]]

    def unflatten(values, context):
        given, without = context
        return cls(**dict(zip(given, values, strict=True)), **dict.fromkeys(without))

    def flatten_with_keys(node):
        values, context = flatten(node)
        return [(GetAttrKey(name), value) for name, value in zip(context[0], values)], context

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def _check_fields(every, taken, dropped):
    missing = set(every) - set(taken) - set(dropped)
    if missing:
        raise ValueError(
            "field_names does not include all dataclass fields.\n"
            f"Missing fields in `field_names`: {missing}. If you want to include these fields in the "
            "pytree, please add them to `field_names`, otherwise please add them to "
            "`drop_field_names`.\n"
        )


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a node that is a constant."""

    value: Any


def register_constant(cls):
    """Makes the instances of a class nodes without children: they belong to the structure.

    Raises:
        TypeError: They cannot be compared or hashed by value.
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__eq__` implementation."
        )
    if cls.__hash__ is None:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."
        )
    register_pytree_node(
        cls, lambda node: ([], ConstantNode(node)), lambda _, context: context.value,
        flatten_with_keys_fn=lambda node: ([], ConstantNode(node)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    """Whether the instances of a class are constants."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


def is_namedtuple_class(cls):
    """Whether a class is that of named tuples."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type) and issubclass(cls, tuple) and isinstance(fields, tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None)) and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj):
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj):
    """Whether an object is a named tuple, or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq_class(cls):
    """Whether a class is that of results with several named values, such as that of ``max`` along a
    dimension."""
    return isinstance(cls, type) and cls.__base__ is tuple and all(
        isinstance(getattr(cls, name, None), int)
        for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    )


def is_structseq_instance(obj):
    """Whether an object is such a result."""
    return is_structseq_class(type(obj))


def is_structseq(obj):
    """Whether an object is such a result, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _register_result(cls):
    """Makes results of several named values nodes, when the first one is seen."""

    def with_keys(node):
        names = node.__match_args__
        return [(GetAttrKey(name), value) for name, value in zip(names, node)], None

    name = f"torch.return_types.{cls.__name__}"
    from . import _pytree_serial

    _pytree_serial.register(cls, name, None, None)
    return SUPPORTED_NODES.setdefault(
        cls, NodeDef(cls, _tuple_flatten, lambda values, _: cls(list(values)), with_keys)
    )


def _register_sizes(cls):
    """Makes the sizes of tensors nodes, when the first one is seen."""
    return SUPPORTED_NODES.setdefault(
        cls, NodeDef(cls, _tuple_flatten, lambda values, _: cls(values), _tuple_flatten_with_keys)
    )


def _definition(node):
    """How a node is taken apart; None for a leaf."""
    cls = type(node)
    found = SUPPORTED_NODES.get(cls)
    if found is None and issubclass(cls, tuple):
        if is_namedtuple_class(cls):
            return SUPPORTED_NODES[namedtuple]
        if hasattr(cls, "n_sequence_fields"):
            return _register_result(cls)
        if cls.__name__ == "Size" and cls.__module__ in ("torch", "corten"):
            return _register_sizes(cls)
    return found


def _get_node_type(tree):
    """The key of a node in the registry."""
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


def _is_leaf(tree, is_leaf=None):
    return (is_leaf is not None and is_leaf(tree)) or _definition(tree) is None


tree_is_leaf = _is_leaf
