"""Sizes that are not known, in exported graphs."""

from __future__ import annotations

import corten
from corten._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["check_size", "guards", "node_of", "sizes_of", "tensor"]


def sizes_of(mod, args, kwargs, dynamic_shapes):
    """What knows which sizes of the inputs are not fixed; None where all are."""
    if dynamic_shapes is None:
        return None
    from corten.export._dynamic import Sizes

    return Sizes(mod, args, kwargs, dynamic_shapes)


def node_of(recorder, value):
    """The node of a number that is not known, or the number where it is."""
    found = recorder.known.get(id(value))
    return value if found is None else found


def guards(program, nodes, names):
    """What must hold for the sizes of inputs."""
    return []


def check_size(where, size, given, range_constraints, sizes):
    """Checks the size of an input."""


def tensor(symbols, sizes, strides, dtype, device):
    """A tensor without elements of these sizes."""
    if symbols.mode is None:
        symbols.mode = FakeTensorMode(allow_non_fake_inputs=True, export=True)
    return FakeTensor(symbols.mode, corten.empty_strided(sizes, strides, dtype=dtype, device="meta"), device)


class Read:
    """The sizes of a program that was read from a file, by the names of their symbols."""

    def __init__(self, ranges):
        self.ranges = ranges

    def constraints(self):
        """The ranges by symbol."""
        return {name: ValueRanges(*found) for name, found in self.ranges.items()}

    def number(self, text, sample, kind):
        """A number out of its expression."""
        from corten._export.serde._codec import SerializeError

        raise SerializeError(f"sizes that are not known, such as {text[:60]}, cannot be read")


class ValueRanges:
    """The numbers between two, which print as ``VR[2, 64]``."""

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper

    def __eq__(self, other):
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)

    def __hash__(self):
        return hash((self.lower, self.upper))

    def __repr__(self):
        lower = "-int_oo" if self.lower is None else self.lower
        return f"VR[{lower}, {'int_oo' if self.upper is None else self.upper}]"


def bounds(constraint):
    """The least and the greatest value, None where there is no bound."""
    return constraint.lower, constraint.upper
