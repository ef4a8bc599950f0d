"""Nested containers as flat lists of leaves: tuples, lists, dictionaries, named tuples, deques and
registered classes are nodes, everything else is a leaf."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from typing import Any, Callable, NamedTuple

__all__ = [
    "LeafSpec", "PyTree", "TreeSpec", "register_pytree_node", "tree_all", "tree_all_only",
    "tree_any", "tree_any_only", "tree_flatten", "tree_iter", "tree_leaves", "tree_map",
    "tree_map_", "tree_map_only", "tree_map_only_", "tree_structure", "tree_unflatten",
]

PyTree = Any


class _Kind(NamedTuple):
    """How a class of containers is taken apart and put together."""

    flatten: Callable
    unflatten: Callable


def _same_keys(dictionary):
    return list(dictionary.values()), list(dictionary.keys())


_KINDS = {
    tuple: _Kind(lambda t: (list(t), None), lambda values, _: tuple(values)),
    list: _Kind(lambda t: (t, None), lambda values, _: list(values)),
    dict: _Kind(_same_keys, lambda values, keys: dict(zip(keys, values))),
    OrderedDict: _Kind(_same_keys, lambda values, keys: OrderedDict(zip(keys, values))),
    defaultdict: _Kind(
        lambda t: (list(t.values()), [t.default_factory, list(t.keys())]),
        lambda values, context: defaultdict(context[0], zip(context[1], values)),
    ),
    deque: _Kind(
        lambda t: (list(t), t.maxlen), lambda values, length: deque(values, maxlen=length)
    ),
}
_NAMED = _Kind(lambda t: (list(t), type(t)), lambda values, kind: kind(*values))
# Results with several named values, such as that of `max` along a dimension.
_STRUCT = _Kind(lambda t: (list(t), type(t)), lambda values, kind: kind(values))


def register_pytree_node(cls, flatten_fn, unflatten_fn, **_names):
    """Makes the instances of a class nodes: ``flatten_fn(node)`` gives children and a context,
    ``unflatten_fn(children, context)`` a node."""
    if cls in _KINDS:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _KINDS[cls] = _Kind(flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _is_namedtuple(cls):
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _kind_of(node):
    cls = type(node)
    kind = _KINDS.get(cls)
    if kind is None and issubclass(cls, tuple):
        if _is_namedtuple(cls):
            return _NAMED
        if hasattr(cls, "n_sequence_fields"):
            return _STRUCT
    return kind


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


_LEAF = LeafSpec()


def _flatten(tree, leaves, is_leaf):
    kind = None if is_leaf is not None and is_leaf(tree) else _kind_of(tree)
    if kind is None:
        leaves.append(tree)
        return _LEAF
    children, context = kind.flatten(tree)
    specs = [_flatten(child, leaves, is_leaf) for child in children]
    return TreeSpec(type(tree), context, specs)


def tree_flatten(tree, is_leaf=None):
    """The leaves of a tree in order, and its structure."""
    leaves = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """The tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
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
    named = _STRUCT if hasattr(spec.type, "n_sequence_fields") else _NAMED
    kind = _KINDS.get(spec.type, named)
    return kind.unflatten(children, spec.context)


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
    kind = _kind_of(tree)
    if kind is None or (type(tree) is not spec.type and not isinstance(tree, spec.type)):
        raise ValueError(f"Node type mismatch; expected {spec.type}, but got {type(tree)}.")
    children, context = kind.flatten(tree)
    if spec.type in (dict, OrderedDict):
        if set(context) != set(spec.context):
            raise ValueError("Node keys mismatch.")
        children = [tree[key] for key in spec.context]
    if len(children) != spec.num_children:
        raise ValueError(
            f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}."
        )
    pairs = zip(spec.children_specs, children)
    return [leaf for child, subtree in pairs for leaf in _leaves_like(child, subtree)]


def _for_types(types, func):
    if isinstance(types, (type, tuple)):
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
    kind = None if is_leaf is not None and is_leaf(tree) else _kind_of(tree)
    if kind is None:
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or type(tree) is not treespec.type:
        return None
    children, context = kind.flatten(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    leaves = []
    for child, spec in zip(children, treespec.children_specs):
        found = _broadcast_to_and_flatten(child, spec, is_leaf)
        if found is None:
            return None
        leaves.extend(found)
    return leaves
