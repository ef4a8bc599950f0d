"""Joining tensors, and tensors made after the example of others."""

from __future__ import annotations

import corten
from corten.distributed.tensor._op_schema import Candidate, Decision, positive
from corten.distributed.tensor._ops._reduction_rules import moved
from corten.distributed.tensor._ops._view_rules import local_size
from corten.distributed.tensor._sharding_prop import rule, whole_rule
from corten.distributed.tensor.placement_types import Partial, Replicate, _NormPartial, _Parts

__all__ = []


def _terms(call, mesh_dim):
    """The kinds of terms that tensors have and that joining keeps."""
    found = []
    for spec in call.specs:
        one = spec.placements[mesh_dim]
        linear = type(one) is Partial and one.reduce_op in Partial.LINEAR_REDUCE_OPS
        if (linear or isinstance(one, _NormPartial)) and one not in found:
            found.append(one)
    return found


@rule("cat", "concat", "stack")
def joined(call, mesh_dim):
    """Parts along dimensions other than the one in which tensors are joined; terms of one kind."""
    stacked = call.name == "stack"
    ndim = max(spec.ndim for spec in call.specs) + stacked
    at = positive(call.get("dim", 0), ndim)
    count = len(call.specs)
    found = [call.replicated()]
    for spec in call.specs:
        one = spec.placements[mesh_dim]
        if not isinstance(one, _Parts):
            continue
        if stacked:
            after = moved(one, one.dim + (one.dim >= at))
        elif one.dim == at:
            continue
        else:
            after = one
        if all(other.ndim == spec.ndim for other in call.specs):
            found.append(Candidate([after], [one] * count))
    return found + [Candidate([one], [one] * count) for one in _terms(call, mesh_dim)]


_NEW = ("new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided")


@whole_rule(*_NEW)
def made_after(call):
    """New tensors of a size: parts as the example's where it has the size, replicated otherwise."""
    spec = call.specs[0]
    shape = tuple(call.results[0].shape)
    same = shape == tuple(spec.shape)
    # Elements without values may be those of terms.
    kept = (_Parts, Partial) if call.name.startswith("new_empty") else _Parts
    outputs = tuple(one if same and isinstance(one, kept) else Replicate() for one in spec.placements)
    changes = {"size": local_size(call, outputs)}
    if call.name == "new_empty_strided":
        changes["stride"] = _local_stride(call, outputs)
    return Decision([outputs], [spec.placements] + [s.placements for s in call.specs[1:]], changes)


def _local_stride(call, placements):
    """Strides of a part in the order of those of the whole."""
    strides, size = tuple(call["stride"]), local_size(call, placements)
    order = sorted(range(len(strides)), key=lambda dim: strides[dim])

    def stride(coordinate):
        found, step, shape = [0] * len(strides), 1, size(coordinate)
        for dim in order:
            if strides[dim] == 0:
                continue
            found[dim] = step
            step *= max(shape[dim], 1)
        return found

    return stride


def install_handlers(dispatcher, tensor_class):
    """The operators whose result is no tensor of parts."""
    aten = corten.ops.aten
    handlers = dispatcher._custom_op_handlers

    def whole(tensor):
        if not isinstance(tensor, tensor_class):
            return tensor
        from corten.distributed.tensor._redistribute import redistribute_local_tensor

        spec = tensor._spec
        return redistribute_local_tensor(tensor._local_tensor, spec, spec.replaced([Replicate()] * spec.mesh.ndim))

    def on_whole(func, args, kwargs):
        return func(*[whole(one) for one in args], **kwargs)

    def equal_parts(func, args, kwargs):
        a, b = args
        if isinstance(a, tensor_class) and isinstance(b, tensor_class) and a._spec.placements == b._spec.placements:
            if a.shape != b.shape:
                return False
            if not any(isinstance(one, Partial) for one in a._spec.placements):
                return _all_agree(func(a._local_tensor, b._local_tensor), a._spec)
        return func(whole(a), whole(b))

    def same_size(func, args, kwargs):
        return args[0].shape == args[1].shape

    handlers[aten._local_scalar_dense.default] = on_whole
    handlers[aten.equal.default] = equal_parts
    handlers[aten.is_same_size.default] = same_size
    handlers[aten.nonzero.default] = _refused_size


def _refused_size(func, args, kwargs):
    raise NotImplementedError(f"Operator {func} does not have a sharding strategy registered.")


def _all_agree(mine, spec):
    """Whether every rank says so."""
    from corten.distributed.tensor.placement_types import _all_reduce

    answer = corten.tensor(int(mine), device=spec.mesh.device_type)
    for i in range(spec.mesh.ndim):
        answer = _all_reduce(answer, "min", spec.mesh, i)
    return bool(answer)
