"""What runs before and after a wrapped module."""

from __future__ import annotations

import functools

import corten
from corten.utils import _pytree as pytree

from ._fully_shard._fsdp_common import DDPMeshInfo, FSDPMeshInfo, _cast_fp_tensor, map_tensors
from ._fully_shard._fsdp_param_group import FSDPParamGroup
from ._fully_shard._fsdp_state import FSDPState

__all__: list = []


class FlatGroup(FSDPParamGroup):
    """A group of one flat parameter."""

    def __init__(self, handle, module, mesh_info, post_forward_mesh_info, device, mixed_precision):
        self._init_fields([module], mesh_info, post_forward_mesh_info, device, mixed_precision, None)
        self.fsdp_params = [handle]
        self.comm_hook = None

    def reduce_dtype(self, params, grads):
        """In which dtype gradients are added up."""
        policy = self.mp_policy
        return policy.reduce_dtype or policy.param_dtype or params[0].orig_dtype

    def reduce_replicas(self, output):
        """Adds gradients up over replicas, by the program's function where it gave one."""
        if self.comm_hook is not None and not isinstance(self.mesh_info, FSDPMeshInfo):
            self.comm_hook(output)
            return output
        return super().reduce_replicas(output)

    def set_comm_hook(self, state, hook):
        """Lets a function of the state and of tensors reduce gradients: of the gradients where they are not sharded,
        of the gradients and of where their part goes where they are."""
        self.divide_factor = 1.0
        self.comm_hook = functools.partial(hook, state)
        if isinstance(self.mesh_info, FSDPMeshInfo):
            self.reduce_scatter_comm = _HookedReduceScatter(self.comm_hook)


class _Done:
    def wait(self):
        """There is nothing to wait for."""


class _HookedReduceScatter:
    def __init__(self, hook):
        self._hook = hook

    def allocate(self, size, *, dtype, device):
        return corten.empty(size, dtype=dtype, device=device)

    def __call__(self, output, input, group, op, async_op=False):
        self._hook(input, output)
        return _Done()


class FlatState(FSDPState):
    """The state of a ``FullyShardedDataParallel``."""

    handle = None

    def _lazy_init(self):
        if self._is_root is None:
            super()._lazy_init()
            for state in self._context.all_states:
                if isinstance(state, FlatState):
                    state.cast_buffers()

    def cast_buffers(self):
        """Casts the buffers of the module, but not those of wrapped modules inside, and remembers what they were."""
        dtype = self._mp_policy.buffer_dtype
        for module, name in self.buffers if dtype is not None else ():
            buffer = module._buffers.get(name)
            if buffer is not None and buffer.is_floating_point() and buffer.dtype != dtype:
                self.buffer_dtypes[module, name] = buffer.dtype
                module._buffers[name] = buffer.to(dtype)

    def _cast_forward_inputs(self, args, kwargs):
        policy = self._mp_policy
        dtype = policy.param_dtype
        wanted = policy.cast_root_forward_inputs if self._is_root else policy.cast_forward_inputs
        if dtype is None or not wanted:
            return args, kwargs
        return map_tensors(functools.partial(_cast_fp_tensor, dtype), (args, kwargs))

    def _cast_output_dtype(self, output):
        return output

    @property
    def group(self):
        """The group of the module's parameter, or nothing."""
        return self._fsdp_param_group

    @property
    def is_replicated(self):
        """Whether every process has whole parameters."""
        group = self.group
        return group is not None and isinstance(group.mesh_info, DDPMeshInfo) and not isinstance(
            group.mesh_info, FSDPMeshInfo)


def run_in_own_dtype(module):
    """Lets a module that is left out of mixed precision get its inputs in single precision, and give its outputs in
    the dtype that came."""
    seen = []

    def before(module, args, kwargs):
        seen[:] = [value.dtype for value in pytree.tree_leaves((args, kwargs))
                   if isinstance(value, corten.Tensor) and value.is_floating_point()][:1]
        return map_tensors(functools.partial(_cast_fp_tensor, corten.float32), (args, kwargs))

    def after(module, args, output):
        return map_tensors(functools.partial(_cast_fp_tensor, seen[0]), output) if seen else output

    module.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
    module.register_forward_hook(after, prepend=False)
