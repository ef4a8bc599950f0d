"""Sizes that are not known, in exported graphs."""

from __future__ import annotations

import corten

__all__ = ["check_size", "guards", "node_of", "tensor"]


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
    return corten.empty_strided(sizes, strides, dtype=dtype, device="meta")
