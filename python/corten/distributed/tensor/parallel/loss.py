"""Cross entropy of scores that lie in parts along the dimension of the classes."""

from __future__ import annotations

import contextlib
import threading

import corten
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride
from corten.distributed.tensor._op_schema import positive
from corten.distributed.tensor._utils import compute_local_shape_and_global_offset
from corten.distributed.tensor.placement_types import Replicate, Shard, _all_reduce

__all__ = ["loss_parallel"]


class _Active(threading.local):
    depth = 0


_active = _Active()


@contextlib.contextmanager
def loss_parallel():
    """A block in which ``cross_entropy`` of distributed scores computes with the classes of each rank, without
    gathering them. The scores have to lie in parts along the classes on a mesh of one dimension; ``backward`` belongs
    into the block, too."""
    _install()
    _active.depth += 1
    try:
        yield
    finally:
        _active.depth -= 1


def _install():
    from corten.distributed.tensor._api import DTensor

    handlers, aten = DTensor._op_dispatcher._custom_op_handlers, corten.ops.aten
    mine = {
        aten._log_softmax.default: _log_softmax, aten._log_softmax_backward_data.default: _log_softmax_gradient,
        aten.nll_loss_forward.default: _nll_loss, aten.nll_loss2d_forward.default: _nll_loss,
        aten.nll_loss_backward.default: _nll_loss_gradient, aten.nll_loss2d_backward.default: _nll_loss_gradient,
    }
    for func, handler in mine.items():
        if func not in handlers:
            handlers[func] = _only_inside(handler)


def _only_inside(handler):
    """What runs a handler inside of the block, and the rules outside of it."""

    def run(func, args, kwargs):
        from corten.distributed.tensor._api import DTensor

        if _active.depth and isinstance(args[0 if handler is not _nll_loss_gradient else 1], DTensor):
            return handler(*args, **kwargs)
        return DTensor._op_dispatcher.dispatch_by_rule(func, args, kwargs)

    return run


def _classes_of(spec, dim):
    """The dimension of the mesh along which the classes lie in parts.

    Raises:
        ValueError: They do not, or something else does, too.
    """
    if spec.mesh.ndim != 1:
        raise ValueError(f"Currently loss_parallel() only supports tensors on one-dimensional meshes, but got "
                         f"{spec.mesh.ndim} dimensions")
    if spec.placements[0] != Shard(dim):
        raise ValueError("loss_parallel() should be enabled only when the input tensor is sharded on the class "
                         f"dimension, but got {spec.placements}")
    return 0


def _log_softmax(x, dim, half_to_float):
    from corten.distributed.tensor._api import DTensor

    dtype = corten.float32 if half_to_float else x.dtype
    spec, local = x._spec, x._local_tensor.to(dtype)
    dim = positive(dim, x.ndim)
    i = _classes_of(spec, dim)
    if local.size(dim) == 0:
        highest = local.new_full(_one(local.shape, dim), float("-inf"))
    else:
        highest = local.amax(dim, keepdim=True)
    highest = _all_reduce(highest, "max", spec.mesh, i)
    shifted = local - highest
    total = _all_reduce(shifted.exp().sum(dim, keepdim=True), "sum", spec.mesh, i)
    meta = TensorMeta(spec.shape, spec.stride, dtype)
    return DTensor(shifted - total.log(), DTensorSpec(spec.mesh, spec.placements, meta), requires_grad=False)


def _one(shape, dim):
    return [1 if i == dim else size for i, size in enumerate(shape)]


def _log_softmax_gradient(grad_output, output, dim, input_dtype):
    """The gradient that :func:`_nll_loss_gradient` gives is that of the scores already."""
    return grad_output if grad_output.dtype == input_dtype else grad_output.to(input_dtype)


def _local_of(one, mesh):
    """What every rank holds of a replicated tensor."""
    from corten.distributed.tensor._api import DTensor

    if not isinstance(one, DTensor):
        return one
    if not one._spec.is_replicated():
        one = one.redistribute(mesh, [Replicate()] * mesh.ndim)
    return one._local_tensor


def _held_places(x, target, dim):
    """The targets as places among the classes of this rank, and which of them it holds."""
    spec = x._spec
    shape, offset = compute_local_shape_and_global_offset(tuple(spec.shape), spec.mesh, spec.placements)
    start, count = offset[dim], shape[dim]
    held = (target >= start) & (target < start + count)
    return (target - start).masked_fill(~held, 0), held, start, count


def _weights_of(weight, target, ignore_index, mesh, like):
    """The weight of each item: that of its class, and zero where it is ignored."""
    counted = target != ignore_index
    if weight is None:
        return counted.to(like.dtype)
    whole = _local_of(weight, mesh)
    return whole[target.masked_fill(~counted, 0)] * counted


def _nll_loss(x, target, weight, reduction, ignore_index):
    from corten.distributed.tensor._api import DTensor

    dim = 1 if x.ndim > 1 else 0
    i = _classes_of(x._spec, dim)
    mesh, local = x._spec.mesh, x._local_tensor
    target = _local_of(target, mesh)
    places, held, _, count = _held_places(x, target, dim)
    if count:
        picked = local.gather(dim, places.unsqueeze(dim)).squeeze(dim).masked_fill(~held, 0)
    else:
        picked = local.new_zeros(target.shape)
    weights = _weights_of(weight, target, ignore_index, mesh, local)
    losses = -_all_reduce(picked, "sum", mesh, i) * weights
    total = weights.sum()
    value = losses if reduction == 0 else losses.sum()
    if reduction == 1:
        value = value / total

    def whole(one):
        meta = TensorMeta(corten.Size(one.shape), contiguous_stride(one.shape), one.dtype)
        return DTensor(one, DTensorSpec(mesh, [Replicate()] * mesh.ndim, meta), requires_grad=False)

    return whole(value), whole(total)


def _nll_loss_gradient(grad_output, x, target, weight, reduction, ignore_index, total_weight):
    """The gradient of the scores: of the log softmax and the loss in one."""
    from corten.distributed.tensor._api import DTensor

    dim = 1 if x.ndim > 1 else 0
    _classes_of(x._spec, dim)
    mesh, local = x._spec.mesh, x._local_tensor
    target = _local_of(target, mesh)
    places, held, _, count = _held_places(x, target, dim)
    scale = _weights_of(weight, target, ignore_index, mesh, local)
    gradient = _local_of(grad_output, mesh)
    scale = scale * (gradient if reduction != 1 else gradient / _local_of(total_weight, mesh))
    found = local.exp()
    if count:
        found = found.scatter_add(
            dim, places.unsqueeze(dim), -held.to(local.dtype).unsqueeze(dim))
    return DTensor(found * scale.unsqueeze(dim), x._spec, requires_grad=False)
