"""Operators of lists of tensors, and fused steps of optimizers: each place of the lists by itself."""

from __future__ import annotations

from corten.distributed.tensor._op_schema import Decision, operator_name
from corten.distributed.tensor._ops._reduction_rules import _has_empty
from corten.distributed.tensor._sharding_prop import whole_rule
from corten.distributed.tensor.placement_types import Partial, Replicate, _NormPartial, _Parts

__all__ = []

_SCALED = ("_foreach_mul", "_foreach_div")
_SUMS = ("_foreach_add", "_foreach_sub")


def _lists(call):
    """For each place of the lists, the places of its tensors among those of the call; what is in no list."""
    several = [one for one in call._places.values() if isinstance(one, list)]
    count = max(map(len, several), default=0)
    groups = [[one[i] for one in several if i < len(one) and one[i] is not None] for i in range(count)]
    return groups, [one for one in call._places.values() if not isinstance(one, list)]


def _refuse(call, spec):
    raise RuntimeError(
        f"{operator_name(call.func)}: in-place operations that require placement changes are not supported. The input "
        f"has placement {spec.placements}, but no valid strategy preserves this placement. Please use the "
        "out-of-place version of this operation instead.")


def _keeps_terms(call, specs, mesh_dim, shared):
    """Whether an operator of tensors whose first one holds terms is linear."""
    one = specs[0].placements[mesh_dim]
    name = call.name.removesuffix("_")
    if name == "_foreach_zero":
        return True
    if type(one) is not Partial or one.reduce_op not in Partial.LINEAR_REDUCE_OPS:
        return False
    if name == "_foreach_neg":
        return True
    if name in _SCALED:
        return len(specs) == 1
    return name in _SUMS and len(specs) == 2 and not shared and specs[1].placements[mesh_dim] == one


def _anchor(call, specs, mesh_dim, shared):
    """The placement of the tensors of one place of the lists."""
    one = specs[0].placements[mesh_dim]
    if isinstance(one, Partial):
        if _keeps_terms(call, specs, mesh_dim, shared):
            return one
        if call.written:
            _refuse(call, specs[0])
        one = Replicate()
    if one.is_replicate() and not call.written:
        for spec in specs[1:]:
            other = spec.placements[mesh_dim]
            if isinstance(other, _Parts) and spec.shape == specs[0].shape:
                return other
    return one


@whole_rule("_foreach")
def pointwise_lists(call):
    """Each place of the lists has the placement of its first tensor; tensors of other shapes are replicated."""
    groups, shared = _lists(call)
    inputs = [tuple([Replicate()] * call.mesh.ndim)] * len(call.specs)
    outputs = []
    fused = call.name.startswith("_fused_")
    for group in groups:
        specs = [call.specs[i] for i in group]
        anchors = [_anchor(call, specs, i, shared) for i in range(call.mesh.ndim)]
        for place in group:
            spec = call.specs[place]
            alike = spec.shape == specs[0].shape
            wanted = tuple(
                one if alike or not isinstance(one, _Parts) else Replicate() for one in anchors)
            wanted = wanted if alike else tuple(Replicate() if isinstance(p, Partial) else p for p in wanted)
            changed = wanted != spec.placements
            writes = call.names[place] in call.written and (not fused or call.names[place] != "grads")
            if changed and (writes or (fused and call.get("grad_scale") is not None)):
                _refuse(call, spec)
            inputs[place] = wanted
        outputs.append(tuple(anchors))
    return Decision(outputs, inputs)


@whole_rule("_foreach_norm")
def norms(call):
    """Norms of tensors: those of parts have the norm of the whole as theirs."""
    order = call.get("ord", 2)
    inputs, outputs = [], []
    for spec in call.specs:
        wanted, found = [], []
        for one in spec.placements:
            terms = _NormPartial(order)
            if isinstance(one, _Parts) and not (
                    terms.reduce_op != "sum" and _has_empty(spec, range(spec.ndim))):
                wanted.append(one)
                found.append(terms)
            else:
                wanted.append(Replicate())
                found.append(Replicate())
        inputs.append(tuple(wanted))
        outputs.append(tuple(found))
    return Decision(outputs, inputs)


@whole_rule("_foreach_max")
def greatest(call):
    """Greatest elements, of the wholes."""
    whole = tuple([Replicate()] * call.mesh.ndim)
    return Decision([whole] * len(call.results), [whole] * len(call.specs))


@whole_rule("_amp_foreach_non_finite_check_and_unscale")
def unscaled(call):
    """Gradients times a scale, and whether one of them is not finite; terms would hide that."""
    for spec in call.specs:
        if any(isinstance(one, Partial) for one in spec.placements):
            _refuse(call, spec)
    return Decision([], [spec.placements for spec in call.specs])
