"""Operators that compute each element of their result from the elements at its place."""

from __future__ import annotations

from corten.distributed.tensor._op_schema import Candidate
from corten.distributed.tensor._sharding_prop import rule
from corten.distributed.tensor.placement_types import Partial, Replicate, _Parts, _StridedShard

__all__ = ["aligned", "pointwise"]


def _on(spec, dim, ndim, size, placement):
    """The placement with which a tensor that is broadcast gives the elements of a part of the result."""
    own = dim - (ndim - spec.ndim)
    if own < 0 or (spec.shape[own] == 1 and size != 1):
        return Replicate()
    return _along(placement, own)


def _along(placement, dim):
    if isinstance(placement, _StridedShard):
        return _StridedShard(dim, split_factor=placement.split_factor)
    return type(placement)(dim)


def _broadcast(specs):
    """The shape of the result of tensors that are broadcast."""
    ndim = max((spec.ndim for spec in specs), default=0)
    shape = [1] * ndim
    for spec in specs:
        for dim, size in enumerate(spec.shape, ndim - spec.ndim):
            shape[dim] = size if shape[dim] == 1 else shape[dim]
    return shape


def parts_in_use(specs, ndim, mesh_dim):
    """Placements of parts that tensors have, along the dimensions of a result of `ndim` dimensions."""
    found = []
    for spec in specs:
        one = spec.placements[mesh_dim]
        if isinstance(one, _Parts):
            moved = _along(one, one.dim + ndim - spec.ndim)
            if moved not in found:
                found.append(moved)
    return sorted(found, key=lambda one: one.dim)


def aligned(call, mesh_dim, blocked=(), outputs=None):
    """Candidates of an operator whose tensors are broadcast: parts along any dimension but the `blocked` ones."""
    count = len(call.results) or 1 if outputs is None else outputs
    shape = _broadcast(call.specs)
    ndim = len(shape)
    found = [Candidate([Replicate()] * count, [Replicate()] * len(call.specs))]
    for one in parts_in_use(call.specs, ndim, mesh_dim):
        if one.dim in blocked:
            continue
        given = [_on(spec, one.dim, ndim, shape[one.dim], one) for spec in call.specs]
        found.append(Candidate([one] * count, given))
    return found


_SAME = ("clone", "detach", "alias", "lift_fresh", "lift_fresh_copy", "_to_copy", "contiguous")
_SIGNED = ("neg", "negative", "positive")
_SCALED = ("mul", "div", "multiply", "divide", "true_divide")
_SUMS = ("add", "sub", "subtract", "rsub")


def _is_float(spec):
    return spec.dtype.is_floating_point or spec.dtype.is_complex


def _name(call):
    return call.name[:-1] if call.name.endswith("_") else call.name


def _kept_terms(call, mesh_dim):
    """Candidates of operators of one tensor that keep the terms of a reduction."""
    one = call.specs[0].placements[mesh_dim]
    name = _name(call)
    if not isinstance(one, Partial):
        return []
    dtype = call.get("dtype")
    if name in _SAME:
        same = dtype is None or dtype == call.specs[0].dtype
        linear = one.is_partial("sum") or one.is_partial("avg")
        widened = _is_float(call.specs[0]) and (dtype is None or dtype.is_floating_point)
        return [Candidate([one], [one])] if same or (type(one) is Partial and linear and widened) else []
    if type(one) is not Partial or one.reduce_op not in Partial.LINEAR_REDUCE_OPS:
        return []
    scaled = name in _SCALED and call.get("rounding_mode") is None and len(call.specs) == 1
    return [Candidate([one], [one])] if name in _SIGNED or scaled else []


def _linear_terms(call, mesh_dim):
    """Candidates of linear operators of two tensors with terms of a sum."""
    found = []
    terms = {one.placements[mesh_dim] for one in call.specs}
    name = _name(call)
    for one in sorted((t for t in terms if type(t) is Partial and t.reduce_op in Partial.LINEAR_REDUCE_OPS), key=str):
        if name in _SUMS:
            found.append(Candidate([one], [one, one]))
        elif name in _SCALED and call.get("rounding_mode") is None and _is_float(call.results[0]):
            found.append(Candidate([one], [one, Replicate()]))
            if name in ("mul", "multiply"):
                found.append(Candidate([one], [Replicate(), one]))
    return found


@rule("pointwise", "clone", "detach", "alias", "_to_copy", "lift_fresh", "copy_", "where", "masked_fill", "clamp",
      "_conj", "resolve_conj", "resolve_neg", "native_dropout_backward", "fmod", "fill", "zero", "rsub",
      "nan_to_num")
def pointwise(call, mesh_dim):
    """Parts along any dimension; terms where the operator is linear."""
    if len(call.results) > 1:
        return aligned(call, mesh_dim)
    if _name(call) == "zero" and isinstance(call.specs[0].placements[mesh_dim], Partial):
        one = call.specs[0].placements[mesh_dim]
        return [Candidate([one], [one])]
    found = aligned(call, mesh_dim)
    if len(call.specs) == 1:
        return found + _kept_terms(call, mesh_dim)
    if call.name == "copy_":
        one = call.specs[0].placements[mesh_dim]
        if isinstance(one, Partial):
            found.append(Candidate([one], [one, one]))
        elif isinstance(one, _Parts):
            found.extend(_copied_parts(call, one))
        return found
    if len(call.specs) == 2:
        found += _linear_terms(call, mesh_dim)
    return found


def _copied_parts(call, one):
    into, source = call.specs
    shape = into.shape
    return [Candidate([one], [one, _on(source, one.dim, len(shape), shape[one.dim], one)])]


@rule("zeros_like", "ones_like", "empty_like", "full_like")
def like(call, mesh_dim):
    """Filled tensors of the shape of another one; terms are replaced by the whole."""
    one = call.specs[0].placements[mesh_dim]
    if call.name == "zeros_like" or not isinstance(one, Partial):
        return [Candidate([one], [one])]
    # Elements are not read, so that nothing has to be reduced.
    return [Candidate([Replicate()], [one])]
