"""Distributed tensors."""

from __future__ import annotations

import corten
from corten.distributed.tensor._dispatch import OpDispatcher
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride
from corten.distributed.tensor._ops._tensor_rules import install_handlers
from corten.distributed.tensor._redistribute import (
    Redistribute, gradient_placements, redistribute_local_tensor,
)
from corten.distributed.tensor._utils import compute_global_tensor_info, normalized
from corten.distributed.tensor.placement_types import Partial, Replicate, _Parts

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


def _current_mesh():
    from corten.distributed.tensor.device_mesh import current_mesh

    return current_mesh()


def _checked(placements, mesh, ndim):
    placements = normalized(placements, ndim)
    for one in placements:
        if isinstance(one, _Parts) and not 0 <= one.dim < ndim:
            raise AssertionError(f"Sharding dim {one.dim} greater than tensor ndim {ndim}")
    return placements


class _ToLocal(corten.autograd.Function):
    """The part of this rank. Its gradient has the placements that the caller says."""

    @staticmethod
    def forward(ctx, tensor, grad_placements):
        ctx.spec, ctx.grad_placements = tensor._spec, grad_placements
        return tensor._local_tensor.view_as(tensor._local_tensor)

    @staticmethod
    def backward(ctx, gradient):
        spec = ctx.spec
        placements = ctx.grad_placements or gradient_placements(spec.placements)
        meta = TensorMeta(spec.shape, contiguous_stride(spec.shape), gradient.dtype)
        made = DTensorSpec(spec.mesh, placements, meta)
        return DTensor(gradient, made, requires_grad=False), None


class _FromLocal(corten.autograd.Function):
    """A distributed tensor of the parts of the ranks."""

    @staticmethod
    def forward(ctx, local, mesh, placements, run_check, shape, stride):
        ctx.placements, ctx.mesh = placements, mesh
        if shape is None:
            shape, stride = compute_global_tensor_info(local, mesh, placements)
        if mesh.get_coordinate() is None:
            local = local.new_empty(0)
        elif run_check:
            local = _checked_replicas(local, mesh, placements)
        meta = TensorMeta(corten.Size(shape), tuple(stride), local.dtype)
        return DTensor(local.view_as(local), DTensorSpec(mesh, placements, meta), requires_grad=False)

    @staticmethod
    def backward(ctx, gradient):
        wanted = gradient_placements(ctx.placements)
        local, spec = gradient._local_tensor, gradient._spec
        if spec.placements != wanted:
            local = redistribute_local_tensor(local, spec, spec.replaced(wanted))
        return local.view_as(local), None, None, None, None, None


def _checked_replicas(local, mesh, placements):
    """Parts that all ranks with the same part have from the first of them."""
    from corten.distributed.tensor._collective_utils import broadcast_from

    for i, one in enumerate(placements):
        if one.is_replicate():
            local = broadcast_from(local, mesh, i)
    return local


class DTensor(corten.Tensor):
    """A tensor whose elements lie on the devices of a mesh, with a :class:`Placement` along each dimension of the
    mesh. Shape, strides and ``requires_grad`` are those of the whole; ``to_local`` gives the part of this rank."""

    __slots__ = ("_local_tensor", "_spec")
    _op_dispatcher: OpDispatcher
    __torch_function__ = corten._C._disabled_torch_function_impl

    def __new__(cls, local_tensor, spec, *, requires_grad):
        meta = spec.tensor_meta
        made = corten.Tensor._make_wrapper_subclass(
            cls, meta.shape, strides=meta.stride, dtype=meta.dtype, device=local_tensor.device,
            layout=local_tensor.layout, requires_grad=requires_grad)
        made._spec = spec
        made._local_tensor = local_tensor.detach() if local_tensor.requires_grad else local_tensor
        return made

    def __init__(self, *args, **kwargs):
        super().__init__()

    def __repr__(self, *, tensor_contents=None):
        return (f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
                f"placements={self._spec.placements})")

    def __tensor_flatten__(self):
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner_tensors, flatten_spec, outer_size, outer_stride):
        spec, requires_grad = flatten_spec
        meta = TensorMeta(corten.Size(outer_size), tuple(outer_stride), spec.tensor_meta.dtype)
        made = DTensorSpec(spec.mesh, spec.placements, meta)
        return DTensor(inner_tensors["_local_tensor"], made, requires_grad=requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return DTensor._op_dispatcher.dispatch(func, args, kwargs or {})

    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check=False, shape=None, stride=None):
        """A distributed tensor of the parts that the ranks hold. Differentiable.

        ``shape`` and ``stride`` are those of the whole; without them all parts have to be equally large. With
        ``run_check`` the first of the ranks that hold the same sends it to the others.
        """
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}.", "Please pass both shape and stride at the same time.")
        mesh = device_mesh or _current_mesh()
        if local_tensor.device.type not in (mesh.device_type, "meta"):
            local_tensor = local_tensor.to(mesh.device_type)
        placements = [Replicate()] * mesh.ndim if placements is None else list(placements)
        placements = normalized(placements, local_tensor.ndim)
        for i, one in enumerate(placements):
            if isinstance(one, _Parts) and not 0 <= one.dim < local_tensor.ndim:
                raise RuntimeError(
                    f"Sharding dim {one.dim} greater than tensor ndim {local_tensor.ndim} for placement number {i}")
        if len(placements) != mesh.ndim:
            raise ValueError(
                "`placements` must have the same length as `device_mesh.ndim`! "
                f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}.")
        return _FromLocal.apply(local_tensor, mesh, placements, run_check, shape, stride)

    def to_local(self, *, grad_placements=None):
        """The part of this rank. Differentiable: the gradient has ``grad_placements``, which are those of this
        tensor where they are not given."""
        if not corten.is_grad_enabled():
            return self._local_tensor
        if grad_placements is not None and not isinstance(grad_placements, tuple):
            grad_placements = tuple(grad_placements)
        return _ToLocal.apply(self, grad_placements)

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None,
                     backward_dtype=None):
        """The same tensor with other placements, by collectives of the ranks. Differentiable."""
        mesh = device_mesh or self._spec.mesh
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        placements = list(_checked(placements, mesh, self.ndim))
        for now, one in zip(self._spec.placements, placements):
            if isinstance(one, Partial) and not isinstance(now, (Partial, _Parts)):
                raise RuntimeError(
                    f"Can not redistribute from {now} to {one}, only Shard to {one!r} redistribution is supported!")
            if isinstance(one, Partial) and one != now:
                raise RuntimeError(f"Can not redistribute from {now} to {one}!")
        return Redistribute.apply(self, mesh, tuple(placements), async_op, forward_dtype, backward_dtype)

    def full_tensor(self, *, grad_placements=None):
        """The whole, on every rank. Differentiable, as ``to_local``."""
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    @property
    def device_mesh(self):
        """The mesh of devices."""
        return self._spec.mesh

    @property
    def placements(self):
        """The placement along each dimension of the mesh."""
        return self._spec.placements

    def _raise_if_contains_partial_placements(self):
        for one in self._spec.placements:
            if isinstance(one, Partial):
                raise ValueError("Any checkpointing related operations are not supported for DTensor with partial "
                                 "placements!")

    def __create_write_items__(self, fqn, object):  # noqa: A002
        self._raise_if_contains_partial_placements()
        if hasattr(self._local_tensor, "__create_write_items__"):
            return self._local_tensor.__create_write_items__(fqn, object)
        from corten.distributed.checkpoint.planner_helpers import _create_write_items_for_dtensor

        return [_create_write_items_for_dtensor(fqn, object)]

    def __create_chunk_list__(self):
        self._raise_if_contains_partial_placements()
        if hasattr(self._local_tensor, "__create_chunk_list__"):
            return self._local_tensor.__create_chunk_list__()
        from corten.distributed.checkpoint.planner_helpers import _create_chunk_from_dtensor

        return [_create_chunk_from_dtensor(self)]

    def __get_tensor_shard__(self, index):
        self._raise_if_contains_partial_placements()
        if hasattr(self._local_tensor, "__get_tensor_shard__"):
            return self._local_tensor.__get_tensor_shard__(index)
        return self.to_local()


DTensor._op_dispatcher = OpDispatcher(DTensor)
install_handlers(DTensor._op_dispatcher, DTensor)


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """A distributed tensor with the elements of a tensor that every rank holds. The elements are those of the rank
    `src_data_rank` of each group of the mesh, which sends them; each rank's own where it is None. The result is a
    leaf."""
    mesh = device_mesh or _current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    if tensor.device.type not in (mesh.device_type, "meta"):
        tensor = tensor.to(mesh.device_type)
    placements = [Replicate()] * mesh.ndim if placements is None else list(placements)
    if len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}.")
    if isinstance(tensor, DTensor):
        return _redistributed_leaf(tensor, mesh, placements)
    placements = _checked(placements, mesh, tensor.ndim)
    meta = TensorMeta(corten.Size(tensor.shape), tuple(tensor.stride()), tensor.dtype)
    spec = DTensorSpec(mesh, placements, meta)
    with corten.no_grad():
        local = _distributed(tensor.detach(), spec, src_data_rank)
    return DTensor(local, spec, requires_grad=tensor.requires_grad)


def _redistributed_leaf(tensor, mesh, placements):
    if tensor.device_mesh != mesh:
        raise ValueError(
            f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}.")
    if tensor.placements != _checked(placements, mesh, tensor.ndim):
        raise ValueError(
            f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {placements}. "
            "do you want to call `redistribute` instead?")
    return tensor


def _distributed(local, spec, src_data_rank):
    """This rank's part of a tensor that every rank holds."""
    from corten.distributed.tensor._dtensor_spec import resolved, shard_order

    mesh, sizes = spec.mesh, tuple(spec.mesh.shape)
    if mesh.get_coordinate() is None:
        return local.new_empty(0)
    for i, one in enumerate(spec.placements):
        if isinstance(one, Replicate):
            local = one._replicate_tensor(local, mesh, i, src_data_rank)
        elif isinstance(one, Partial):
            local = one._partition_value(Replicate()._replicate_tensor(local, mesh, i, src_data_rank), mesh, i)
    for dim in range(len(spec.shape)):
        for i in shard_order(spec.placements, sizes, dim):
            local = resolved(spec.placements, sizes, i)._shard_tensor(local, mesh, i, src_data_rank)
    return local


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Makes the parameters and buffers of a module distributed tensors: those that
    ``partition_fn(name, module, mesh)`` does not, replicated ones. ``input_fn(module, inputs, mesh)`` and
    ``output_fn(module, outputs, mesh)`` run before and after its ``forward``."""
    mesh = device_mesh or _current_mesh()
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        _replicate_rest(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda module, inputs: input_fn(module, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda module, inputs, outputs: output_fn(module, outputs, mesh))
    return module


def _replicate_rest(module, mesh):
    whole = [Replicate()] * mesh.ndim
    for name, one in module._parameters.items():
        if one is not None and not isinstance(one, DTensor):
            made = corten.nn.Parameter(distribute_tensor(one.data, mesh, whole), requires_grad=one.requires_grad)
            module.register_parameter(name, made)
    for name, one in module._buffers.items():
        if one is not None and not isinstance(one, DTensor):
            module._buffers[name] = distribute_tensor(one, mesh, whole)
