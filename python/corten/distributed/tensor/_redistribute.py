"""From some placements to others: which collectives, and their derivative."""

from __future__ import annotations

import corten
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, local_length, resolved, shard_order
from corten.distributed.tensor.placement_types import Partial, Replicate, _Parts

__all__ = ["Redistribute", "redistribute_cost", "redistribute_local_tensor"]


class _State:
    """A part of a tensor while its placements change, one dimension of the mesh at a time.

    A dimension of the mesh can begin or end to split a dimension of the tensor only where it is the last one in
    the order of those that do so (`shard_order`), as the others have split what it splits."""

    def __init__(self, local, spec, target):
        self.local, self.mesh, self.shape = local, spec.mesh, spec.shape
        self.sizes, self.coordinate = tuple(spec.mesh.shape), spec.mesh.get_coordinate()
        self.now, self.target = list(spec.placements), tuple(target)

    def order(self, placements, dim):
        found = shard_order(placements, self.sizes, dim)
        return [(i, resolved(placements, self.sizes, i)) for i in found]

    def surplus(self, dim):
        """The dimensions of the mesh that split `dim` now and have to end it, in their order."""
        now, target = self.order(self.now, dim), self.order(self.target, dim)
        same = 0
        while same < min(len(now), len(target)) and now[same] == target[same]:
            same += 1
        return now[same:]

    def is_next(self, i):
        """Whether a dimension of the mesh can begin to split as it has to."""
        wanted = self.target[i]
        if not isinstance(wanted, _Parts):
            return False
        now, target = self.order(self.now, wanted.dim), self.order(self.target, wanted.dim)
        return target[:len(now)] == now and len(now) < len(target) and target[len(now)][0] == i

    def logical_shape(self, i):
        """The shape that the ranks of a dimension of the mesh have together."""
        without = [Replicate() if j == i else one for j, one in enumerate(self.now)]
        return [
            local_length(size, dim, without, self.sizes, self.coordinate) for dim, size in enumerate(self.shape)]

    def gather(self, i, one):
        self.local = one._to_replicate_tensor(self.local, self.mesh, i, self.logical_shape(i))
        self.now[i] = Replicate()

    def split(self, i):
        wanted = resolved(self.target, self.sizes, i)
        self.local = wanted._replicate_to_shard(self.local, self.mesh, i, self.coordinate[i])
        self.now[i] = self.target[i]

    def end_surplus(self):
        """Gathers what the targets do not split, or split otherwise; moves it where one exchange does so."""
        while True:
            found = [self.surplus(dim) for dim in range(len(self.shape))]
            last = [one[-1] for one in found if one]
            if not last:
                return
            i, one = next(((i, one) for i, one in last if self._moves(i, one)), last[0])
            if self._moves(i, one):
                wanted = self.target[i]
                self.local = one._to_new_shard_dim(
                    self.local, self.mesh, i, self.logical_shape(i), wanted.dim)
                self.now[i] = wanted
            else:
                self.gather(i, one)

    def _moves(self, i, one):
        wanted = self.target[i]
        return (isinstance(wanted, _Parts) and wanted.dim != one.dim and self.is_next(i)
                and type(resolved(self.target, self.sizes, i)) is type(one))

    def reduce(self):
        """Reduces the terms, into parts where the target is one that can begin now."""
        for i, one in enumerate(self.now):
            wanted = self.target[i]
            if not isinstance(one, Partial) or one == wanted:
                continue
            if self.is_next(i):
                shard = resolved(self.target, self.sizes, i)
                self.local = one._reduce_shard_value(self.local, self.mesh, i, shard)
                self.now[i] = wanted
            else:
                self.local = one._reduce_value(self.local, self.mesh, i)
                self.now[i] = Replicate()

    def begin_parts(self):
        for dim in range(len(self.shape)):
            for i, _ in self.order(self.target, dim):
                if self.now[i] != self.target[i]:
                    self.split(i)

    def begin_terms(self):
        for i, wanted in enumerate(self.target):
            if isinstance(wanted, Partial) and self.now[i] != wanted:
                self.local = wanted._partition_value(self.local, self.mesh, i)
                self.now[i] = wanted


def redistribute_local_tensor(local_tensor, current_spec, target_spec, *, async_op=False, **_ignored):
    """The part of the target's placements that this rank holds, from its part of the current ones."""
    if current_spec.mesh != target_spec.mesh:
        raise NotImplementedError("Cross device mesh comm not supported yet!")
    if current_spec.mesh.get_coordinate() is None or current_spec.placements == target_spec.placements:
        return local_tensor
    state = _State(local_tensor, current_spec, target_spec.placements)
    state.end_surplus()
    state.reduce()
    state.begin_parts()
    state.begin_terms()
    return state.local


#: Bytes that pass in the time which a collective needs to begin.
_LATENCY = 1024


def redistribute_cost(current_spec, target_spec):
    """About how many bytes arrive at a rank; infinite where it cannot be done."""
    return sum(
        placement_cost(current_spec, i, wanted) for i, wanted in enumerate(target_spec.placements))


def placement_cost(spec, mesh_dim, wanted):
    """What it costs to change the placement along one dimension of the mesh."""
    now = spec.placements[mesh_dim]
    if now == wanted:
        return 0.0
    ranks = spec.mesh.size(mesh_dim)
    count = spec.tensor_meta.dtype.itemsize
    for size in spec.shape:
        count *= size
    others = 1
    for i, one in enumerate(spec.placements):
        if i != mesh_dim and isinstance(one, _Parts):
            others *= spec.mesh.size(i)
    moved = count / others * (ranks - 1) / ranks + _LATENCY
    if isinstance(now, Replicate):
        return 0.0 if isinstance(wanted, _Parts) else 1.0
    if isinstance(now, _Parts):
        if isinstance(wanted, _Parts):
            return moved + 1.0
        return moved if isinstance(wanted, Replicate) else float("inf")
    if isinstance(wanted, Partial):
        return float("inf")
    return moved if isinstance(wanted, _Parts) else 2 * moved


class Redistribute(corten.autograd.Function):
    """The derivative of a change of placements is the change back. Where the input held terms of a reduction,
    each term's gradient is that of the whole, which is replicated; where the output does, the gradient of the
    whole goes to each rank as it is."""

    @staticmethod
    def forward(ctx, tensor, mesh, placements, async_op=False, forward_dtype=None, backward_dtype=None):
        import corten.distributed.tensor as package

        ctx.dtype, ctx.backward_dtype = tensor.dtype, backward_dtype
        local, spec = tensor._local_tensor, tensor._spec
        if forward_dtype is not None and forward_dtype != local.dtype:
            local = local.to(forward_dtype)
            spec = DTensorSpec(mesh, spec.placements, TensorMeta(spec.shape, spec.stride, forward_dtype))
        ctx.spec = tensor._spec
        target = DTensorSpec(mesh, placements, spec.tensor_meta)
        if spec.placements != target.placements:
            local = redistribute_local_tensor(local, spec, target, async_op=async_op)
        elif local is tensor._local_tensor:
            local = local.view_as(local)
        return package.DTensor(local, target, requires_grad=False)

    @staticmethod
    def backward(ctx, gradient):
        import corten.distributed.tensor as package

        before, local, spec = ctx.spec, gradient._local_tensor, gradient._spec
        wanted = ctx.backward_dtype or ctx.dtype
        if local.dtype != wanted:
            local = local.to(wanted)
            spec = DTensorSpec(spec.mesh, spec.placements, TensorMeta(spec.shape, spec.stride, wanted))
        target = spec.replaced(gradient_placements(before.placements))
        local = redistribute_local_tensor(local, spec, target)
        if local.dtype != ctx.dtype:
            local = local.to(ctx.dtype)
            target = DTensorSpec(spec.mesh, target.placements, TensorMeta(spec.shape, spec.stride, ctx.dtype))
        return package.DTensor(local, target, requires_grad=False), None, None, None, None, None


def gradient_placements(placements):
    """The placements of the gradient of a tensor: the gradients of terms are replicated."""
    return tuple(Replicate() if isinstance(one, Partial) else one for one in placements)
