"""Which placements a call runs with: rules by operator, and the choice among what they offer."""

from __future__ import annotations

import functools

import corten
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from corten.distributed.tensor._op_schema import Decision, OpCall, meta_of, operator_name
from corten.distributed.tensor._redistribute import placement_cost
from corten.distributed.tensor.placement_types import _Parts
from corten.utils._python_dispatch import _disable_current_modes
from corten.utils._pytree import tree_map

__all__ = ["Propagator", "rule", "whole_rule"]

#: Rules of one dimension of the mesh: ``rule(call, mesh_dim)`` gives candidates.
_RULES: dict = {}
#: Rules of all dimensions of the mesh: ``rule(call)`` gives a decision.
_WHOLE: dict = {}


def rule(*names):
    """Registers a rule for operators of these names, in all their overloads and their in-place forms, or for
    single overloads (``aten::add.Tensor`` is ``add.Tensor``)."""

    def register(function):
        for name in names:
            _RULES[name] = function
        return function

    return register


def whole_rule(*names):
    """As `rule`, for what decides about all dimensions of the mesh at once."""

    def register(function):
        for name in names:
            _WHOLE[name] = function
        return function

    return register


def _names(call):
    plain = call.name
    names = [f"{plain}.{call.overload}" if call.overload else f"{plain}.default", plain]
    if call.namespace != "aten":
        names = [f"{call.namespace}::{name}" for name in names]
    if plain.endswith("_") and not plain.endswith("__"):
        names.append(names[-1][:-1])
    return names


def find_rule(call):
    """The rule of a call, and whether it decides about all dimensions of the mesh; None where there is none."""
    for name in _names(call):
        if name in _WHOLE:
            return _WHOLE[name], True
        if name in _RULES:
            return _RULES[name], False
    if call.name.startswith(("_foreach_", "_fused_")) and call.namespace == "aten":
        return _WHOLE["_foreach"], True
    if corten.Tag.pointwise in call.func.tags:
        return _RULES["pointwise"], False
    return None, False


def _result_metas(call):
    """The shapes of the results of a call, found by running it without elements."""
    if call.name.startswith(("_foreach_", "_fused_")) and call.written:
        return []
    with _disable_current_modes():
        return _metas_of_run(call)


def _metas_of_run(call):
    args, kwargs = tree_map(
        lambda one: meta_of(one) if isinstance(one, DTensorSpec) else one, (call.args, call.kwargs),
        is_leaf=lambda one: isinstance(one, DTensorSpec))
    if "device" in kwargs:
        kwargs["device"] = "meta"
    results = call.func(*args, **kwargs)
    flat: list = []
    for one in results if isinstance(results, (list, tuple)) else (results,):
        flat.extend(one if isinstance(one, (list, tuple)) else [one])
    return [
        TensorMeta(corten.Size(one.shape), tuple(one.stride()), one.dtype) if isinstance(one, corten.Tensor) else None
        for one in flat
    ]


def _fits(spec, mesh_dim, wanted):
    """Whether every rank gets elements if a tensor gets a placement that it does not have."""
    if spec.placements[mesh_dim] == wanted or not isinstance(wanted, _Parts):
        return True
    if wanted.dim >= spec.ndim:
        return False
    parts = spec.mesh.size(mesh_dim)
    for i, one in enumerate(spec.placements):
        if i != mesh_dim and isinstance(one, _Parts) and one.dim == wanted.dim:
            parts *= spec.mesh.size(i)
    return spec.shape[wanted.dim] >= parts


def _cost(call, mesh_dim, candidate):
    total = 0.0
    for spec, wanted, name in zip(call.specs, candidate.inputs, call.names):
        now = spec.placements[mesh_dim]
        if now == wanted:
            continue
        if name in call.written or not _fits(spec, mesh_dim, wanted):
            return float("inf")
        total += placement_cost(spec, mesh_dim, wanted)
    return total


def _keeps_written(call, mesh_dim, candidate):
    """Whether the first result of an in-place operator has the placement of what is written to."""
    if not call.written or not candidate.outputs:
        return True
    written = [
        one for one, name in zip(candidate.inputs, call.names) if name in call.written]
    return all(a == b for a, b in zip(written, candidate.outputs))


def _refuse(call, mesh_dim):
    name = operator_name(call.func)
    if call.written:
        now = next((s.placements for s, n in zip(call.specs, call.names) if n in call.written), ())
        raise RuntimeError(
            f"{name}: in-place operations that require placement changes are not supported. The input has placement "
            f"{now}, but no valid strategy preserves this placement. Please use the out-of-place version of this "
            "operation instead.")
    raise RuntimeError(f"{name}: no placements along dimension {mesh_dim} of the mesh are possible")


def choose(call, candidates_of):
    """The cheapest candidate of each dimension of the mesh."""
    inputs, outputs = [[] for _ in call.specs], None
    for mesh_dim in range(call.mesh.ndim):
        best, least = None, float("inf")
        for candidate in candidates_of(call, mesh_dim):
            if not _keeps_written(call, mesh_dim, candidate):
                continue
            cost = _cost(call, mesh_dim, candidate)
            if cost < least:
                best, least = candidate, cost
        if best is None:
            _refuse(call, mesh_dim)
        for mine, one in zip(inputs, best.inputs):
            mine.append(one)
        outputs = [[] for _ in best.outputs] if outputs is None else outputs
        for mine, one in zip(outputs, best.outputs):
            mine.append(one)
    return Decision(
        [None if None in one else tuple(one) for one in outputs or []], [tuple(one) for one in inputs])


class Propagator:
    """Decides calls, and remembers what it decided."""

    def __init__(self):
        self._decide = functools.lru_cache(maxsize=4096)(self._decided)

    def propagate(self, func, args, kwargs, mesh):
        """The decision for a call whose tensors are specs, and what is known of its results.

        Raises:
            NotImplementedError: There is no rule for the operator.
            RuntimeError: No placements are possible, or the shapes are none that the operator takes.
        """
        key = (func, _frozen(args), _frozen(kwargs), mesh)
        try:
            return self._decide(key)
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
        return self._decided(key)

    @staticmethod
    def _decided(key):
        func, args, kwargs, mesh = key
        call = OpCall(func, _thawed(args), dict(_thawed(kwargs)), mesh)
        found, is_whole = find_rule(call)
        if found is None:
            raise NotImplementedError(f"Operator {operator_name(func)} does not have a sharding strategy registered.")
        try:
            call.results = _result_metas(call)
            decision = found(call) if is_whole else choose(call, found)
        except (RuntimeError, NotImplementedError) as error:
            if isinstance(error, NotImplementedError):
                raise
            raise RuntimeError(f"{error}\n\nSharding propagation failed for {call}") from error
        return decision, call


class _Frozen(tuple):
    """A list or a dict as a key, with the types of the numbers, as 1, 1.0 and True are equal."""

    __slots__ = ()


def _frozen(value):
    if isinstance(value, dict):
        return _Frozen(("dict", *((name, _frozen(one)) for name, one in value.items())))
    if isinstance(value, corten.Size) or (isinstance(value, (list, tuple)) and not hasattr(value, "_fields")):
        return _Frozen(("list", *map(_frozen, value)))
    if isinstance(value, (bool, int, float, complex)):
        return _Frozen(("number", type(value), repr(value) if value != value else value))
    return value


def _thawed(value):
    if not isinstance(value, _Frozen):
        return value
    kind, *rest = value
    if kind == "dict":
        return {name: _thawed(one) for name, one in rest}
    if kind == "number":
        return float(rest[1]) if isinstance(rest[1], str) and rest[0] is float else rest[1]
    return [_thawed(one) for one in rest]
