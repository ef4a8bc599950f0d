"""Operators as others, as programs register them for compilers."""

from __future__ import annotations

from corten.utils._pytree import tree_leaves

__all__ = ["decompositions", "register_decomposition"]

#: The functions of operators.
decompositions = {}


def register_decomposition(ops):
    """A decorator: the function computes what an operator, or each of a list of them, computes."""

    def register(function):
        decompositions.update(dict.fromkeys(tree_leaves(ops), function))
        return function

    return register
