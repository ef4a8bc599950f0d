"""Leaves of trees in the order of a spec that is known, as generated code takes arguments apart."""

from __future__ import annotations

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Says how the children of instances of a class are found for a spec."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(tree, spec, exact_structural_match=False):
    """The leaves of ``tree``, which has the structure of ``spec``.

    Raises:
        RuntimeError: Its class is none of those whose children can be found.
    """
    if spec.is_leaf():
        return [tree]
    find = SUPPORTED_NODES.get(spec.type)
    if find is None:
        raise RuntimeError(
            f"{type(tree)} does not have a flatten_fn_spec associated with it. Please register one with "
            "torch.fx._pytree.register_pytree_flatten_spec.  If you have serialized your model, make sure that "
            "any custom pytrees have been registered before loading it."
        )
    children = find(tree, spec)
    exact = SUPPORTED_NODES_EXACT_MATCH.get(spec.type)
    if exact_structural_match and exact and not exact(tree, spec):
        raise RuntimeError(f"Cannot flatten pytree {tree}, given spec: {spec}")
    leaves = []
    for child, inner in zip(children, spec.children()):
        leaves += tree_flatten_spec(child, inner, exact_structural_match)
    return leaves


def _of_dict(tree, spec):
    return [tree[key] for key in spec.context]


def _of_sequence(tree, spec):
    return [tree[place] for place in range(spec.num_children)]


def _same_length(tree, spec):
    return len(tree) == spec.num_children


def _register():
    from collections import OrderedDict, defaultdict, namedtuple

    for kind in (dict, OrderedDict):
        register_pytree_flatten_spec(kind, _of_dict, _same_length)
    register_pytree_flatten_spec(defaultdict, lambda tree, spec: [tree[key] for key in spec.context[1]], _same_length)
    for kind in (list, tuple, namedtuple):
        register_pytree_flatten_spec(kind, _of_sequence, _same_length)


_register()
