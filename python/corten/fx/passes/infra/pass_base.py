"""A pass over a graph as a class."""

from __future__ import annotations

import abc
from typing import NamedTuple

from corten.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module after a pass, and whether the pass changed it."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass: :meth:`call` between :meth:`requires` and :meth:`ensures`, which may refuse modules."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """Changes the module; gives a :class:`PassResult`, or None."""

    def requires(self, graph_module):  # noqa: B027
        """Checks a module before the pass."""

    def ensures(self, graph_module):  # noqa: B027
        """Checks a module behind the pass."""
