"""Nested containers as flat lists of leaves: tuples, lists, dictionaries, named tuples, deques and
registered classes are nodes, everything else is a leaf."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from types import UnionType
from typing import Any, Callable

from ._pytree_keys import (  # noqa: F401
    GetAttrKey, KeyEntry, KeyPath, MappingKey, SequenceKey, key_get, keystr,
)
from ._pytree_nodes import (  # noqa: F401
    BUILTIN_TYPES, CONSTANT_NODES, ConstantNode, NodeDef, STANDARD_DICT_TYPES, SUPPORTED_NODES,
    _NODE_REGISTRY_LOCK, _defaultdict_flatten, _defaultdict_flatten_with_keys,
    _defaultdict_unflatten, _definition, _deque_flatten, _deque_flatten_with_keys, _deque_unflatten,
    _deregister_pytree_node, _dict_flatten, _dict_flatten_with_keys, _dict_unflatten,
    _get_node_type, _is_leaf, _is_namedtuple_instance, _list_flatten, _list_flatten_with_keys,
    _list_unflatten, _namedtuple_flatten, _namedtuple_flatten_with_keys, _namedtuple_unflatten,
    _odict_flatten, _odict_unflatten, _ordereddict_flatten, _ordereddict_flatten_with_keys,
    _ordereddict_unflatten, _private_register_pytree_node, _register_pytree_node, _tuple_flatten,
    _tuple_flatten_with_keys, _tuple_unflatten, is_constant_class, is_namedtuple,
    is_namedtuple_class, is_namedtuple_instance, is_structseq, is_structseq_class,
    is_structseq_instance, register_constant, register_dataclass, register_pytree_node,
    tree_is_leaf,
)

__all__ = [
    "PyTree", "Context", "FlattenFunc", "UnflattenFunc", "DumpableContext", "ToDumpableContextFn",
    "FromDumpableContextFn", "PyTreeSpec", "TreeSpec", "LeafSpec", "keystr", "key_get",
    "register_pytree_node", "tree_is_leaf", "tree_flatten", "tree_flatten_with_path",
    "tree_unflatten", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_structure",
    "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only", "tree_map_only_", "tree_all",
    "tree_any", "tree_all_only", "tree_any_only", "treespec_dumps", "treespec_loads",
    "treespec_pprint", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
    "is_structseq", "is_structseq_class", "is_structseq_instance",
]

PyTree = Context = DumpableContext = Any
FlattenFunc = UnflattenFunc = FlattenWithKeysFunc = Callable
ToDumpableContextFn = FromDumpableContextFn = ToStrFunc = MaybeFromStrFunc = Callable


@dataclasses.dataclass(eq=True, repr=False)
class TreeSpec:
    """The structure of a tree without its leaves."""

    type: Any
    context: Any
    children_specs: list

    def __post_init__(self):
        self.num_nodes = 1 + sum(child.num_nodes for child in self.children_specs)
        self.num_leaves = sum(child.num_leaves for child in self.children_specs)
        self.num_children = len(self.children_specs)

    def __repr__(self, indent=0):
        indent += 2
        between = ",\n" + " " * indent
        children = between.join(child.__repr__(indent) for child in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    def __hash__(self):
        context = self.context
        if self.type in (dict, OrderedDict):
            context = tuple(context)
        elif self.type is defaultdict or isinstance(context, list):
            context = repr(context)
        return hash((self.type, context, tuple(self.children_specs)))

    def children(self):
        """The structures of the children."""
        return list(self.children_specs)

    def child(self, index):
        """The structure of one child."""
        return self.children_specs[index]

    def flatten_up_to(self, tree):
        """The subtrees of another tree at the places of the leaves."""
        return _leaves_like(self, tree)

    def is_leaf(self):
        """Whether it is the structure of a single leaf."""
        return False

    def unflatten(self, leaves):
        """The tree with these leaves."""
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self):
        super().__init__(None, None, [])

    def __post_init__(self):
        self.num_nodes = self.num_leaves = 1
        self.num_children = 0

    def is_leaf(self):
        return True

    def __repr__(self, indent=0):
        return "*"


_LEAF = _LEAF_SPEC = LeafSpec()
PyTreeSpec = TreeSpec


def _flatten(tree, leaves, is_leaf):
    kind = None if is_leaf is not None and is_leaf(tree) else _definition(tree)
    if kind is None:
        leaves.append(tree)
        return _LEAF
    children, context = kind.flatten_fn(tree)
    specs = [_flatten(child, leaves, is_leaf) for child in children]
    return TreeSpec(kind.type, context, specs)


def tree_flatten(tree, is_leaf=None):
    """The leaves of a tree in order, and its structure."""
    leaves = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """The tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec "
            f"refers to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return _unflatten(iter(leaves), treespec)


def _unflatten(leaves, spec):
    if spec.is_leaf():
        return next(leaves)
    children = [_unflatten(leaves, child) for child in spec.children_specs]
    return SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)


def tree_iter(tree, is_leaf=None):
    """The leaves of a tree, one after another."""
    yield from tree_flatten(tree, is_leaf)[0]


def tree_leaves(tree, is_leaf=None):
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """A tree of what ``func`` makes of the leaves, of those at the same place in all trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(_leaves_like(spec, rest) for rest in rests)]
    return tree_unflatten([func(*items) for items in zip(*columns)], spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls ``func`` for the leaves and returns the tree."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(_leaves_like(spec, rest) for rest in rests)]
    for items in zip(*columns):
        func(*items)
    return tree


def _leaves_like(spec, tree):
    """The subtrees of another tree at the places of a structure's leaves."""
    if spec.is_leaf():
        return [tree]
    kind, both = _get_node_type(tree), STANDARD_DICT_TYPES
    if kind is not spec.type and not (kind in both and spec.type in both):
        raise ValueError(f"Node type mismatch; expected {spec.type}, but got {kind}.")
    children, context = _definition(tree).flatten_fn(tree)
    if len(children) != spec.num_children:
        raise ValueError(
            f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}."
        )
    if spec.type in both:
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        if set(keys) != set(tree):
            raise ValueError(
                f"Node keys mismatch; missing key(s): {set(keys) - set(tree)}; extra key(s): "
                f"{set(tree) - set(keys)}."
            )
        children = [tree[key] for key in keys]
    elif spec.type is not deque and context != spec.context:
        raise ValueError(
            f"Node context mismatch for custom node type {spec.type}."
            if spec.type not in BUILTIN_TYPES else
            f"Node context mismatch; expected {spec.context}, but got {context}."
        )
    pairs = zip(spec.children_specs, children)
    return [leaf for child, subtree in pairs for leaf in _leaves_like(child, subtree)]


def _for_types(types, func):
    if isinstance(types, (type, tuple, UnionType)):
        chosen = lambda leaf: isinstance(leaf, types)
    else:
        chosen = types
    return lambda leaf: func(leaf) if chosen(leaf) else leaf


def tree_map_only(types, func, tree, is_leaf=None):
    """As :func:`tree_map`, for the leaves of some types only."""
    return tree_map(_for_types(types, func), tree, is_leaf=is_leaf)


def tree_map_only_(types, func, tree, is_leaf=None):
    """As :func:`tree_map_`, for the leaves of some types only."""
    return tree_map_(_for_types(types, func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether all leaves satisfy a predicate."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether any leaf satisfies a predicate."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(types, pred, tree, is_leaf=None):
    """Whether all leaves of some types satisfy a predicate."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, types))


def tree_any_only(types, pred, tree, is_leaf=None):
    """Whether any leaf of some types satisfies a predicate."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, types))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of a tree whose leaves may stand for whole subtrees of a structure; nothing where
    it does not fit."""
    kind = None if is_leaf is not None and is_leaf(tree) else _definition(tree)
    if kind is None:
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or kind.type is not treespec.type:
        return None
    children, context = kind.flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    leaves = []
    for child, spec in zip(children, treespec.children_specs):
        found = _broadcast_to_and_flatten(child, spec, is_leaf)
        if found is None:
            return None
        leaves.extend(found)
    return leaves


def map_only(types, /):
    """A decorator: the function is applied to values of some types only, others stay."""
    return lambda func: _for_types(types, func)


def arg_tree_leaves(*args, **kwargs):
    """The leaves of the arguments."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def tree_leaves_with_path(tree, is_leaf=None):
    """Pairs of the keys that lead to a leaf, and the leaf."""
    return list(_with_paths((), tree, is_leaf))


def _with_paths(path, tree, is_leaf):
    kind = None if is_leaf is not None and is_leaf(tree) else _definition(tree)
    if kind is None:
        yield path, tree
        return
    if kind.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    pairs = kind.flatten_with_keys_fn(tree)[0]
    for key, child in pairs:
        yield from _with_paths((*path, key), child, is_leaf)


_generate_key_paths = _with_paths


def tree_flatten_with_path(tree, is_leaf=None):
    """What :func:`tree_leaves_with_path` gives, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """As :func:`tree_map`; ``func`` gets the keys that lead to a leaf first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = zip(*pairs) if pairs else ((), ())
    columns = [paths, leaves, *(_leaves_like(spec, rest) for rest in rests)]
    return tree_unflatten([func(*items) for items in zip(*columns)], spec)


def treespec_leaf():
    """The structure of a leaf."""
    return _LEAF


def treespec_tuple(iterable=(), /):
    """The structure of a tuple of these structures."""
    return TreeSpec(tuple, None, _structures(iterable))


def treespec_dict(mapping=(), /, **kwargs):
    """The structure of a dictionary of these structures."""
    every = dict(mapping, **kwargs)
    return TreeSpec(dict, list(every), _structures(every.values()))


def _structures(specs):
    found = list(specs)
    if not all(isinstance(spec, TreeSpec) for spec in found):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {specs}.")
    return found


def treespec_pprint(treespec):
    """A tree of asterisks in place of leaves."""
    return repr(tree_unflatten([_Asterisk()] * treespec.num_leaves, treespec))


class _Asterisk(str):
    """Stands for a leaf."""

    __slots__ = ()

    def __new__(cls):
        return super().__new__(cls, "*")

    def __repr__(self):
        return "*"


def __getattr__(name):
    from . import _pytree_serial

    if name in _pytree_serial.__all__:
        return getattr(_pytree_serial, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
