"""The tensors that stand for the inputs and the state of a module while it is exported."""

from __future__ import annotations

import contextlib

import corten
from corten import nn

__all__ = ["StandIns"]


class StandIns:
    """Makes the tensors that a module is run with."""

    def __init__(self, mod, args, kwargs, dynamic_shapes):
        self.known = {}
        if dynamic_shapes is not None:
            from corten.export.dynamic_shapes import _check

            _check(mod, args, kwargs, dynamic_shapes)

    def mode(self):
        """A block in which operators compute sizes."""
        return contextlib.nullcontext()

    def convert(self, value):
        """What stands for a tensor, the same for the same one."""
        found = self.known.get(id(value))
        if found is None:
            made = value.detach().clone()
            if isinstance(value, nn.Parameter):
                made = nn.Parameter(made, value.requires_grad)
            else:
                made.requires_grad_(value.requires_grad)
            self.known[id(value)] = found = (made, value)
        return found[0]

    def convert_input(self, place, value):
        """What stands for a leaf of the user's inputs."""
        return self.convert(value) if isinstance(value, corten.Tensor) else value

    def describe(self, value):
        """What is kept of a tensor: its shape, strides, dtype and device."""
        return value.detach()

    def finish(self, recorder):
        """Adds to the graph what sizes need."""

    def range_constraints(self):
        """The ranges of sizes that are not known."""
        return {}
