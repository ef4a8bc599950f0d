"""Which nodes a backend takes."""

from __future__ import annotations

import abc

from corten.fx.node import Node

from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]


class OperatorSupportBase(abc.ABC):
    """Says of nodes whether a backend takes them."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        """Whether a node is taken."""


class OperatorSupport(OperatorSupportBase):
    """Takes nodes by what they call, and by the dtypes of their inputs: ``support_dict`` has, for every target, None or
    the dtypes of positional and of named arguments."""

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node):
        """Whether a node is taken."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        wanted = self._support_dict[target]
        if wanted is None:
            return True
        positional, named = wanted
        for place, dtypes in enumerate(positional):
            if len(node.args) <= place:
                break
            if isinstance(node.args[place], Node) and _dtype(node.args[place]) not in dtypes:
                return False
        for name, dtypes in named.items():
            if name in node.kwargs and isinstance(node.kwargs[name], Node) and _dtype(node.kwargs[name]) not in dtypes:
                return False
        return True


def _dtype(node):
    found = node.meta.get("tensor_meta")
    return getattr(found, "dtype", None)


def create_op_support(is_node_supported):
    """What a function says of nodes, as an object."""

    class FunctionalOperatorSupport(OperatorSupportBase):
        """Asks a function."""

        def is_node_supported(self, submodules, node):
            return is_node_supported(submodules, node)

    return FunctionalOperatorSupport()


def chain(*op_support):
    """Takes what all take."""
    return create_op_support(lambda submodules, node: all(one.is_node_supported(submodules, node) for one in op_support))


def any_chain(*op_support):
    """Takes what one of them takes."""
    return create_op_support(lambda submodules, node: any(one.is_node_supported(submodules, node) for one in op_support))


class OpSupports:
    """Rules of frequent kinds."""

    @classmethod
    def decline_if_input_dtype(cls, dtype):
        """Takes nodes without inputs of a dtype."""

        def is_node_supported(submodules, node):
            for arg in node.all_input_nodes:
                if _dtype(arg) == dtype:
                    return False
            return True

        return create_op_support(is_node_supported)

    @classmethod
    def decline_if_node_in_names(cls, disallow_set):
        """Takes nodes whose names are none of some."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)


def get_acc_ops_name(k):
    """The name of a target, with its module."""
    if isinstance(k, str):
        return k
    module = (getattr(k, "__module__", None) or "").replace("corten", "torch", 1)
    return f"{module}.{k.__name__}" if module else k.__name__


