"""Graph modules of the stages of quantisation."""

from __future__ import annotations

import copy

from corten import nn
from corten.fx import GraphModule

__all__ = [
    "FusedGraphModule", "ObservedGraphModule", "ObservedStandaloneGraphModule", "QuantizedGraphModule",
]

_ATTRIBUTES = "_observed_graph_module_attrs"


class _PreservingGraphModule(GraphModule):
    """A graph module with attributes of the module that it was made of."""

    def __init__(self, root, graph, preserved_attr_names):
        self.preserved_attr_names = preserved_attr_names
        kept = {name: getattr(root, name) for name in preserved_attr_names if hasattr(root, name)}
        super().__init__(root, graph)
        for name, value in kept.items():
            setattr(self, name, value)

    def __deepcopy__(self, memo):
        root = nn.Module()
        root.__dict__ = copy.deepcopy(self.__dict__)
        return type(self)(root, copy.deepcopy(self.graph), copy.deepcopy(self.preserved_attr_names))


class FusedGraphModule(_PreservingGraphModule):
    """A graph whose modules are fused."""


class ObservedGraphModule(_PreservingGraphModule):
    """A graph with observers."""


class ObservedStandaloneGraphModule(ObservedGraphModule):
    """A graph with observers that is a module of another graph."""


class QuantizedGraphModule(_PreservingGraphModule):
    """A graph of quantised operations."""


def _is_observed_module(module):
    return _ATTRIBUTES in getattr(module, "meta", ())


def _get_observed_graph_module_attr(model, attr_name):
    return getattr(model.meta[_ATTRIBUTES], attr_name) if _is_observed_module(model) else None


def _is_observed_standalone_module(module):
    return _is_observed_module(module) and module.meta[_ATTRIBUTES].is_observed_standalone_module
