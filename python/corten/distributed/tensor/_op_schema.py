"""Calls of operators as rules see them: specs in place of tensors, arguments by name."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import corten
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from corten.distributed.tensor.placement_types import Placement, Replicate

__all__ = ["Candidate", "Decision", "OpCall"]


class Candidate(NamedTuple):
    """Placements along one dimension of the mesh with which an operator can run on the parts of each rank: of its
    results and of its tensors, in the order of :attr:`OpCall.specs`."""

    outputs: list
    inputs: list


class Decision:
    """How a call runs on the parts of each rank."""

    def __init__(self, outputs, inputs, changes=None, run=None):
        #: Placements along every dimension of the mesh for each result; None for what is no tensor.
        self.outputs = outputs
        #: Those that each tensor has to have.
        self.inputs = inputs
        #: Arguments that have another value for the parts, such as sizes.
        self.changes = changes or {}
        #: What runs in place of the operator: ``run(func, args, kwargs, mesh)``.
        self.run = run


@functools.cache
def _arguments(func):
    return tuple(
        (one.name, one.default_value if one.has_default_value() else None) for one in func._schema.arguments)


@functools.cache
def _written(func):
    """The names of the arguments that are written to."""
    return frozenset(
        one.name for one in func._schema.arguments if one.alias_info is not None and one.alias_info.is_write)


def _is_spec(value):
    return isinstance(value, DTensorSpec)


class OpCall:
    """A call of an operator."""

    def __init__(self, func, args, kwargs, mesh):
        self.func, self.args, self.kwargs, self.mesh = func, args, kwargs, mesh
        self.sizes = tuple(mesh.shape)
        namespace, _, name = func.name().partition("::")
        self.name, _, self.overload = name.partition(".")
        self.namespace = namespace
        #: The arguments by name, with the defaults of those that were not given.
        self.given: dict[str, Any] = dict(_arguments(func))
        for value, (name, _) in zip(args, _arguments(func)):
            self.given[name] = value
        self.given.update(kwargs)
        self.specs: list[DTensorSpec] = []
        self.names: list[str] = []
        self._places: dict[str, Any] = {}
        for name, value in self.given.items():
            if _is_spec(value):
                self._places[name] = self._add(name, value)
            elif isinstance(value, (list, tuple)) and any(map(_is_spec, value)):
                self._places[name] = [self._add(name, one) if _is_spec(one) else None for one in value]
        self.written = _written(func)
        self.results: list[TensorMeta | None] = []

    def _add(self, name, spec):
        self.specs.append(spec)
        self.names.append(name)
        return len(self.specs) - 1

    def __getitem__(self, name):
        return self.given[name]

    def get(self, name, default=None):
        """The value of an argument; `default` where there is none of this name, or none was given."""
        value = self.given.get(name)
        return default if value is None else value

    def at(self, name):
        """The place of a tensor among :attr:`specs`; None where there is none."""
        return self._places.get(name)

    def spec(self, name):
        """The spec of a tensor."""
        return self.given[name]

    def current(self, name, mesh_dim):
        """The placement of a tensor along a dimension of the mesh."""
        return self.given[name].placements[mesh_dim]

    def inputs(self, /, **placements):
        """The placements of a candidate: those of some tensors by name, `Replicate` for the others."""
        found: list[Placement] = [Replicate()] * len(self.specs)
        for name, one in placements.items():
            at = self.at(name)
            if isinstance(at, list):
                several = one if isinstance(one, list) else [one] * len(at)
                for i, each in zip(at, several):
                    if i is not None:
                        found[i] = each
            elif at is not None:
                found[at] = one
        return found

    def candidate(self, outputs, /, **placements):
        """A candidate; one placement stands for all results."""
        if not isinstance(outputs, list):
            outputs = [outputs] * max(len(self.results), 1)
        return Candidate(outputs, self.inputs(**placements))

    def replicated(self):
        """The candidate with which every rank computes the whole."""
        return Candidate([Replicate()] * max(len(self.results), 1), [Replicate()] * len(self.specs))

    def __str__(self):
        shown = [_shown(value) for value in self.args]
        shown += [f"{name}={_shown(value)}" for name, value in self.kwargs.items()]
        return f"{operator_name(self.func)}({', '.join(shown)}) on {self.mesh}"


def _shown(value):
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value)


def operator_name(func):
    """``aten.add.Tensor``."""
    return str(func)


def positive(dim, ndim):
    """A dimension counted from the front."""
    return dim + ndim if dim < 0 else dim


def all_dims(dims, ndim):
    """Dimensions, counted from the front; all of them where none are named."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(ndim))
    return [positive(dim, ndim) for dim in (dims if isinstance(dims, (list, tuple)) else [dims])]


def numel(shape):
    """The number of elements of a shape."""
    total = 1
    for size in shape:
        total *= size
    return total


def meta_of(spec):
    """A tensor without elements of the shape, strides and dtype of a whole."""
    return corten.empty_strided(tuple(spec.shape), tuple(spec.stride), dtype=spec.dtype, device="meta")
