"""One parameter: sharded between uses, whole during them.

Note [Storage of whole parameters]: operators save the whole parameter for backward. It is one tensor, whose
storage has no bytes while the parameter is sharded; before backward the same tensor is filled again, without
a count of the write, since the values are those that were saved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

import corten
from corten import nn
from corten.distributed.tensor import DTensor, Replicate, Shard
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from ._fsdp_common import DDPMeshInfo, FSDPMeshInfo, _from_local_no_grad, _to_dtype_if_needed


class ShardedState(Enum):
    """What of a parameter is here."""

    SHARDED = auto()
    SHARDED_POST_FORWARD = auto()
    UNSHARDED = auto()


@dataclass
class ParamModuleInfo:
    """The module that has a parameter, the name there, and the same for others that share it."""

    module: nn.Module
    param_name: str
    shared_modules: list = field(default_factory=list)
    shared_param_names: list = field(default_factory=list)


def set_parameter(module, name, parameter):
    """Registers a parameter, past the checks of ``nn.Module``."""
    if type(module).__setattr__ is nn.Module.__setattr__:
        module._parameters[name] = parameter
    else:
        setattr(module, name, parameter)


class FSDPParam:
    """See the module.

    Args:
        param: The parameter, whole, or a ``DTensor`` that is spread over another mesh.
        module_info: Where it is.
        mesh_info: Over which processes it is sharded.
        post_forward_mesh_info: Over which it is after forward; nothing where it stays whole.
        device: Where it is used.
        placement: Where it is cut; by default in its first dimension.
        mp_policy, offload_policy: As of :func:`fully_shard`.
    """

    def __init__(
        self, param, module_info, mesh_info, post_forward_mesh_info, device, placement, mp_policy,
        offload_policy,
    ):
        self._module_info = module_info
        self.mesh_info = mesh_info
        self.post_forward_mesh_info = post_forward_mesh_info
        self.device = device
        self.offload_to_cpu = type(offload_policy).__name__ == "CPUOffloadPolicy"
        self.pin_memory = self.offload_to_cpu and offload_policy.pin_memory
        self.mp_policy = mp_policy
        self.keep_unsharded_storage = False
        self._param_fqn = None
        self._storage = None  # the whole parameter with padding, one dimension
        self._unsharded_param = None
        self._post_forward_part = None
        self.unsharded_accumulated_grad = None
        self.sharded_state = ShardedState.SHARDED
        self._init_sharding(param, placement)
        self._init_sharded_param(param)

    def _init_sharding(self, param, placement):
        """Where the parameter is cut, and what ``DTensor`` says of that."""
        self._tp_spec = param._spec if isinstance(param, DTensor) else None
        local = param._local_tensor if self._tp_spec else param
        self._orig_size, self.orig_dtype = local.size(), param.dtype
        self.dim = 0 if placement is None else placement.dim % max(local.dim(), 1)
        is_sharded = isinstance(self.mesh_info, FSDPMeshInfo)
        self.world_size = self.mesh_info.shard_mesh_size if is_sharded else 1
        self.rank = self.mesh_info.shard_mesh_rank if is_sharded else 0
        length = self._orig_size[self.dim]
        if self.dim != 0 and length % self.world_size:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {self.dim}: {self._orig_size} "
                f"(world size: {self.world_size})"
            )
        self._chunk = -(-length // self.world_size)
        self._begin = min(self.rank * self._chunk, length)
        self._rows = min(self._chunk, length - self._begin)
        self.padded_sharded_size = corten.Size(
            self._chunk if dim == self.dim else extent for dim, extent in enumerate(self._orig_size)
        )
        self.padded_numel = self.padded_sharded_size.numel()
        self._spec = self._sharding_spec(param)

    def _sharding_spec(self, param):
        mesh, placement = self.mesh_info.mesh, Shard(self.dim)
        replicated = isinstance(self.mesh_info, DDPMeshInfo)
        is_sharded = isinstance(self.mesh_info, FSDPMeshInfo)
        own = ((Replicate(),) if replicated else ()) + ((placement,) if is_sharded else ())
        if self._tp_spec is not None:
            mesh, own = self._combined(mesh, own)
        stride = contiguous_stride(param.size())
        return DTensorSpec(mesh, own, TensorMeta(param.size(), stride, self.orig_dtype))

    def _combined(self, mesh, own):
        """The mesh and placements of a parameter that was spread over another mesh before."""
        from corten.distributed.device_mesh import DeviceMesh
        from corten.distributed.tensor.placement_types import _StridedShard

        tp_mesh = self._tp_spec.mesh
        factor = 1
        for size, placement in zip(tp_mesh.shape, self._tp_spec.placements):
            if placement.is_partial():
                raise ValueError("FSDP does not support parameters whose DTensor is partial")
            if placement.is_shard() and placement.dim == self.dim:
                factor *= size
        if factor > 1:
            own = tuple(
                _StridedShard(one.dim, split_factor=factor) if one.is_shard() else one for one in own
            )
        return DeviceMesh._concatenate([mesh, tp_mesh]), own + tuple(self._tp_spec.placements)

    def _init_sharded_param(self, param):
        local = param._local_tensor if self._tp_spec else param
        part = local.detach().narrow(self.dim, self._begin, self._rows)
        part = part.clone(memory_format=corten.contiguous_format)
        if self.offload_to_cpu and not part.is_meta:
            part = part.cpu()
            if self.pin_memory and corten.cuda.is_available():
                part = part.pin_memory()
        self.sharded_size = part.size()
        self.sharded_param = nn.Parameter(
            self.to_sharded_dtensor(part), requires_grad=param.requires_grad
        )
        self._register(self.sharded_param)

    def to_sharded_dtensor(self, tensor):
        """This process's part of something of the parameter's shape as a ``DTensor``."""
        spec = self._spec
        if tensor.dtype != self.orig_dtype:
            meta = TensorMeta(spec.tensor_meta.shape, spec.tensor_meta.stride, tensor.dtype)
            spec = DTensorSpec(spec.mesh, spec.placements, meta)
        return _from_local_no_grad(tensor, spec)

    def _register(self, parameter):
        info = self._module_info
        set_parameter(info.module, info.param_name, parameter)
        for module, name in zip(info.shared_modules, info.shared_param_names):
            set_parameter(module, name, parameter)

    def reset_sharded_param(self):
        """Takes the parameter that the module has now: it may have been moved, cast, or replaced."""
        info = self._module_info
        found = info.module._parameters[info.param_name]
        if found is self._unsharded_param and self._unsharded_param is not None:
            return
        if not isinstance(found, DTensor):
            raise AssertionError(
                f"Expected the sharded parameter {self._param_fqn or info.param_name} to be a DTensor, got "
                f"{type(found)}; load whole tensors with torch.distributed.checkpoint.state_dict"
            )
        if found is not self.sharded_param:
            for module, name in zip(info.shared_modules, info.shared_param_names):
                set_parameter(module, name, found)
        self.sharded_param = found
        if found.dtype != self.orig_dtype:
            self.orig_dtype = found.dtype
            meta = TensorMeta(self._spec.tensor_meta.shape, self._spec.tensor_meta.stride, found.dtype)
            self._spec = DTensorSpec(self._spec.mesh, self._spec.placements, meta)
            # What was gathered has another dtype.
            self._storage = self._unsharded_param = None

    @property
    def gathered_dtype(self):
        """The dtype of the whole parameter."""
        return self.mp_policy.param_dtype or self.orig_dtype

    def local_part(self):
        """This process's part of the parameter."""
        return self.sharded_param._local_tensor.detach()

    def all_gather_input(self):
        """What is sent to the others: one dimension, padded, in the dtype of use."""
        if self.sharded_state == ShardedState.SHARDED_POST_FORWARD:
            return self._post_forward_part
        part = self.local_part()
        if part.is_meta:
            raise RuntimeError(
                f"FSDP parameters should be materialized from meta device before training, but "
                f"{self._param_fqn or self._module_info.param_name} is still on the meta device"
            )
        part = part.to(self.device, self.gathered_dtype).reshape(-1)
        if part.numel() < self.padded_numel:
            padded = part.new_zeros(self.padded_numel)
            padded[:part.numel()] = part
            part = padded
        return part

    def init_unsharded_param(self):
        """Memory for the whole parameter."""
        numel = self.padded_numel * self.world_size
        if self._storage is None:
            self._storage = corten.empty(numel, dtype=self.gathered_dtype, device=self.device)
            whole = self._storage.narrow(0, 0, self._orig_size.numel()).view(self._orig_size)
            if self._tp_spec is not None:
                whole = _from_local_no_grad(whole, self._tp_spec)
            self._unsharded_param = nn.Parameter(whole, requires_grad=self.sharded_param.requires_grad)
        else:
            storage = self._storage.untyped_storage()
            if storage.nbytes() == 0:
                storage.resize_(numel * self._storage.element_size())
            self._unsharded_param.requires_grad_(self.sharded_param.requires_grad)

    def fill(self, gathered):
        """Takes the parts of all processes, ``[processes, elements of a part]``."""
        self.init_unsharded_param()
        # See Note [Storage of whole parameters]: `data` counts writes for itself.
        target = self._storage.data
        if self.dim == 0 or self.sharded_state == ShardedState.SHARDED_POST_FORWARD:
            target.view(gathered.size()).copy_(gathered)
            return
        whole = target.view(self._orig_size)
        for rank, part in enumerate(gathered.unbind(0)):
            begin = rank * self._chunk
            whole.narrow(self.dim, begin, self._chunk).copy_(part.view(self.padded_sharded_size))

    def to_unsharded(self):
        """Registers the whole parameter."""
        self._register(self._unsharded_param)
        self._post_forward_part = None
        self.sharded_state = ShardedState.UNSHARDED

    def to_sharded(self):
        """Registers this process's part, and frees the whole parameter."""
        if self.sharded_state == ShardedState.UNSHARDED:
            self._register(self.sharded_param)
            self._free()
        self._post_forward_part = None
        self.sharded_state = ShardedState.SHARDED

    def to_sharded_post_forward(self):
        """Keeps the part of a smaller group of processes until backward."""
        info = self.post_forward_mesh_info
        parts = self._storage.data.view(info.shard_mesh_size, -1)
        self._post_forward_part = parts[info.shard_mesh_rank].clone()
        self._register(self.sharded_param)
        self._free()
        self.sharded_state = ShardedState.SHARDED_POST_FORWARD

    def _free(self):
        if not self.keep_unsharded_storage:
            self._storage.untyped_storage().resize_(0)

    @property
    def unsharded_param(self):
        """The whole parameter."""
        return self._unsharded_param

    def take_unsharded_grad(self):
        """The gradient of the whole parameter, which it does not keep; nothing if there is none."""
        if self._unsharded_param is None:
            return self.unsharded_accumulated_grad
        found, self._unsharded_param.grad = self._unsharded_param.grad, None
        kept, self.unsharded_accumulated_grad = self.unsharded_accumulated_grad, None
        if found is not None and self._tp_spec is not None:
            found = self._local_grad(found)
        if found is None or kept is None:
            return kept if found is None else found
        return kept.add_(found)

    def _local_grad(self, grad):
        if not isinstance(grad, DTensor):
            return grad
        wanted = tuple(
            Replicate() if placement.is_partial() else placement for placement in self._tp_spec.placements
        )
        if tuple(grad.placements) != wanted:
            grad = grad.redistribute(placements=wanted)
        return grad._local_tensor

    def keep_unsharded_grad(self):
        """Adds the gradient up without the others, for a reduction that comes later."""
        grad = self.take_unsharded_grad()
        if grad is not None:
            self.unsharded_accumulated_grad = _to_dtype_if_needed(grad, self.mp_policy.reduce_dtype)

    def padded_grad_parts(self, grad):
        """A gradient as the parts of all processes, padded: a list of what to copy to ``[processes, elements]``."""
        parts = []
        for rank in range(self.world_size):
            begin = min(rank * self._chunk, grad.size(self.dim))
            rows = min(self._chunk, grad.size(self.dim) - begin)
            parts.append(grad.narrow(self.dim, begin, rows))
        return parts

    def accumulate_sharded_grad(self, part):
        """Adds this process's part of the gradient to what there is."""
        part = part.view(self.padded_sharded_size).narrow(self.dim, 0, self._rows)
        part = _to_dtype_if_needed(part, self.orig_dtype).contiguous()
        if self.offload_to_cpu:
            part = part.cpu()
        if self.sharded_param.grad is None:
            self.sharded_param.grad = self.to_sharded_dtensor(part)
        else:
            self.sharded_param.grad._local_tensor.add_(part)
        hooks = getattr(self.sharded_param, "_post_accumulate_grad_hooks", None) or {}
        for hook in list(hooks.values()):
            hook(self.sharded_param)


def contiguous_stride(size):
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for extent in reversed(size):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
