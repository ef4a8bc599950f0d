"""What the values of nodes are, found by running the graph on tensors without data."""

from __future__ import annotations

import corten
from corten.fx.interpreter import Interpreter
from corten.fx.node import map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph on tensors without data and notes of every node ``meta["val"]``."""

    def __init__(self, module, mode=None):
        super().__init__(module)
        if mode is None:
            from corten._subclasses.fake_tensor import FakeTensorMode

            mode = FakeTensorMode()
        self._mode = mode

    def run_node(self, n):
        """The value of one node, which is noted."""
        from corten.fx.experimental._proxy_slots import extract_val

        result = super().run_node(n)

        def one(value):
            if isinstance(value, (corten.Tensor, corten.SymInt, corten.SymFloat, corten.SymBool, int, float, bool)):
                return extract_val(value)
            return None

        meta = map_aggregate(result, one)
        if meta is not None:
            n.meta["val"] = meta
        return result

    def propagate(self, *args):
        """Runs the graph for tensors like these; gives its output."""
        fakes = [self._mode.from_tensor(one) if isinstance(one, corten.Tensor) else one for one in args]
        return self.propagate_dont_convert_inputs(*fakes)

    def propagate_dont_convert_inputs(self, *args):
        """Runs the graph for tensors without data; gives its output."""
        with self._mode:
            return super().run(*args)
