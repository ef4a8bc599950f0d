"""Trees of arguments by structures that are known."""

from __future__ import annotations

from corten.utils._pytree import tree_flatten

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Says how nodes of a class are taken apart by a structure that is known."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree, spec, exact_structural_match=False):
    """The leaves of a tree of a structure that is known.

    Raises:
        RuntimeError: The tree has another structure.
    """
    leaves = []
    _flatten(pytree, spec, leaves)
    return leaves


def _flatten(tree, spec, leaves):
    if spec.is_leaf():
        leaves.append(tree)
        return
    children = _children(tree, spec)
    if len(children) != len(spec.children_specs):
        raise RuntimeError(f"expected {len(spec.children_specs)} children of {spec.type}, but got {len(children)}")
    for child, inner in zip(children, spec.children_specs):
        _flatten(child, inner, leaves)


def _children(tree, spec):
    if spec.type in SUPPORTED_NODES:
        return SUPPORTED_NODES[spec.type](tree, spec)
    if spec.type is dict:
        return [tree[key] for key in spec.context]
    if spec.type in (list, tuple):
        return list(tree)
    only = object()
    # One level: everything but the root is a leaf.
    return tree_flatten(tree, is_leaf=lambda value, root=tree, mark=only: value is not root)[0]
