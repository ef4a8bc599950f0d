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
