"""Parameters that are gathered together, and whose gradients are reduced together."""

from __future__ import annotations

from collections import OrderedDict

import corten
import corten.distributed as dist
from corten.utils import _pytree as pytree

from ._fsdp_collectives import Gathering, Reduction
from ._fsdp_common import (
    DDPMeshInfo, FSDPMeshInfo, SharedContext, TrainingState, resolve_shard_placement,
)
from ._fsdp_param import FSDPParam, ParamModuleInfo, ShardedState


def _get_param_module_infos(params, modules):
    """Where each parameter is, in the order of ``params``."""
    wanted, found = set(params), OrderedDict()
    for module in modules:
        for inner in module.modules():
            for name, param in inner._parameters.items():
                if param is None or param not in wanted:
                    continue
                info = found.get(param)
                if info is None:
                    found[param] = ParamModuleInfo(inner, name)
                elif inner not in (info.module, *info.shared_modules) or name not in (
                    info.param_name, *info.shared_param_names
                ):
                    info.shared_modules.append(inner)
                    info.shared_param_names.append(name)
    if len(found) != len(params):
        raise AssertionError(f"Some parameters are not in the module tree of {modules}")
    return [found[param] for param in params]


class FSDPParamGroup:
    """See the module; the arguments are those of :class:`FSDPParam`."""

    def __init__(
        self, params, modules, mesh_info, post_forward_mesh_info, device, shard_placement_fn, mp_policy,
        offload_policy,
    ):
        self._init_fields(modules, mesh_info, post_forward_mesh_info, device, mp_policy, offload_policy)
        infos = _get_param_module_infos(params, modules)
        for param, info in zip(params, infos):
            chosen = None if shard_placement_fn is None else shard_placement_fn(param)
            placement = resolve_shard_placement(chosen, mesh_info).placement
            self.fsdp_params.append(FSDPParam(
                param, info, mesh_info, post_forward_mesh_info, device, placement,
                mp_policy._resolve_for_param(param), offload_policy,
            ))
        for module in modules:
            module.register_state_dict_pre_hook(lambda *args, **kwargs: self._to_sharded())
            module._register_load_state_dict_pre_hook(lambda *args, **kwargs: self._to_sharded())

    def _init_fields(self, modules, mesh_info, post_forward_mesh_info, device, mp_policy, offload_policy):
        self.modules, self.fsdp_params = modules, []
        self.mesh_info = mesh_info
        self.post_forward_mesh_info = post_forward_mesh_info
        self.device, self.mp_policy, self.offload_policy = device, mp_policy, offload_policy
        self.context = SharedContext()
        self.reduce_grads = self.all_reduce_grads = True
        self.reshard_after_backward = self.unshard_in_backward = True
        self.reduce_scatter_unused_params = False
        self.divide_factor = None
        self.all_gather_comm = self.reduce_scatter_comm = self.all_reduce_hook = None
        self._module_fqn = None
        self._training_state = TrainingState.IDLE
        self._sharded_state = ShardedState.SHARDED
        self._gathering = None
        self._partial_reduce_output = None
        self._post_forward_indices = []

    def _to_sharded(self):
        if self._gathering is not None:
            self._gathering.finish()
            self._gathering = None
        for param in self.fsdp_params:
            param.to_sharded()
        self._sharded_state = ShardedState.SHARDED

    @property
    def is_unsharded(self):
        """Whether the parameters are whole."""
        return self._sharded_state == ShardedState.UNSHARDED

    def lazy_init(self):
        """Takes the parameters that the modules have now."""
        if self._sharded_state == ShardedState.SHARDED and self._gathering is None:
            for param in self.fsdp_params:
                param.reset_sharded_param()

    def _world(self):
        """Between which processes the parameters are gathered: the group, and how many there are."""
        info = self.mesh_info
        if self._sharded_state == ShardedState.SHARDED_POST_FORWARD:
            info = self.post_forward_mesh_info
        if not isinstance(info, FSDPMeshInfo):
            return None, 1
        return info.shard_process_group, info.shard_mesh_size

    @corten.no_grad()
    def unshard(self, async_op=False):
        """Begins to gather the parameters, if they are not whole."""
        if self._gathering is not None or self.is_unsharded:
            return
        self.lazy_init()
        group, size = self._world()
        self._gathering = Gathering(self.fsdp_params, group, size, self.all_gather_comm)

    @corten.no_grad()
    def wait_for_unshard(self):
        """Ends what :meth:`unshard` began."""
        if self._gathering is None:
            return
        gathering, self._gathering = self._gathering, None
        gathering.finish()
        for param in self.fsdp_params:
            param.to_unsharded()
        self._sharded_state = ShardedState.UNSHARDED

    @corten.no_grad()
    def reshard(self):
        """Frees the whole parameters."""
        after_forward = self._training_state == TrainingState.FORWARD
        if after_forward and self.post_forward_mesh_info is None:
            return
        smaller = after_forward and self.post_forward_mesh_info is not self.mesh_info
        if not (smaller and self.is_unsharded):
            self._to_sharded()
            return
        for param in self.fsdp_params:
            param.to_sharded_post_forward()
        self._sharded_state = ShardedState.SHARDED_POST_FORWARD

    def pre_forward(self, module, args, kwargs):
        """Before a module runs: its parameters are whole, and its inputs tell when backward is through."""
        self._training_state = TrainingState.FORWARD
        self.unshard()
        self.wait_for_unshard()
        return self._register_post_backward_hook(args, kwargs)

    def post_forward(self, module, input, output):
        """After a module ran."""
        self.reshard()
        if corten.is_grad_enabled():
            order = self.context.post_forward_order
            self._post_forward_indices.append(len(order))
            order.append(self)
        self._training_state = TrainingState.IDLE
        return output

    def pre_backward(self, default_prefetch):
        """Before the gradients of a module's outputs are used: its parameters are whole, and those of the
        module that comes next are on their way."""
        if self._training_state == TrainingState.PRE_BACKWARD:
            return
        self._training_state = TrainingState.PRE_BACKWARD
        if self.unshard_in_backward:
            self.unshard()
            self.wait_for_unshard()
        if default_prefetch and self._post_forward_indices:
            place = self._post_forward_indices.pop()
            if place > 0:
                self.context.post_forward_order[place - 1].prefetch(TrainingState.PRE_BACKWARD)

    def prefetch(self, training_state):
        """Begins to gather the parameters for a pass that is about to come."""
        if training_state == TrainingState.PRE_BACKWARD and not self.unshard_in_backward:
            return
        self.unshard(async_op=True)

    @corten.no_grad()
    def post_backward(self):
        """The gradients of a module are complete: they are reduced, and its parameters freed."""
        self._training_state = TrainingState.POST_BACKWARD
        if not self.reduce_grads:
            for param in self.fsdp_params:
                param.keep_unsharded_grad()
            self._reshard_after_backward()
            return
        params, grads = [], []
        for param in self.fsdp_params:
            grad = param.take_unsharded_grad()
            if grad is None and self.reduce_scatter_unused_params and param.unsharded_param is not None:
                grad = corten.zeros(param._orig_size, dtype=param.gathered_dtype, device=param.device)
            if grad is not None:
                params.append(param)
                grads.append(grad)
        self._reshard_after_backward()
        if not params:
            return
        while len(self.context.reducing) >= self.context.max_reductions:
            self.context.reducing.pop(0).finish()
        group, size = None, 1
        if isinstance(self.mesh_info, FSDPMeshInfo):
            group, size = self.mesh_info.shard_process_group, self.mesh_info.shard_mesh_size
        total = size
        if isinstance(self.mesh_info, DDPMeshInfo):
            total *= self.mesh_info.replicate_mesh_size
        self.context.reducing.append(Reduction(params, grads, group, size, total, self))

    def _reshard_after_backward(self):
        if self.reshard_after_backward and (self.is_unsharded or self._gathering is not None):
            self._to_sharded()

    def reduce_dtype(self, params, grads):
        """In which dtype gradients are added up."""
        if self.mp_policy.reduce_dtype is not None:
            return self.mp_policy.reduce_dtype
        dtype = params[0].orig_dtype
        for param in params[1:]:
            dtype = corten.promote_types(dtype, param.orig_dtype)
        return dtype

    def reduce_replicas(self, output):
        """Adds gradients up over replicas; nothing where that is left for later."""
        if not isinstance(self.mesh_info, DDPMeshInfo):
            if self.all_reduce_hook is not None:
                self.all_reduce_hook(output)
            return output
        if self._partial_reduce_output is not None:
            output += self._partial_reduce_output
            self._partial_reduce_output = None
        if not self.all_reduce_grads:
            self._partial_reduce_output = output
            return None
        if self.mesh_info.replicate_mesh_size > 1:
            group = self.mesh_info.replicate_process_group
            dist.all_reduce(output, op=dist.ReduceOp.SUM, group=group)
        if self.all_reduce_hook is not None:
            self.all_reduce_hook(output)
        return output

    def finalize_backward(self):
        """Backward is through."""
        if self._gathering is not None:
            # It was expected to be needed.
            self._to_sharded()
        self._post_forward_indices.clear()
        self._training_state = TrainingState.IDLE

    def reset_iter_state(self):
        """Forgets a pass that failed, and its gradients."""
        self._to_sharded()
        for param in self.fsdp_params:
            param.take_unsharded_grad()
        self._partial_reduce_output = None
        self.finalize_backward()

    def _register_post_backward_hook(self, args, kwargs):
        """Lets the gradients of the inputs, once they are complete, call :meth:`post_backward`."""
        if not corten.is_grad_enabled():
            return args, kwargs
        values, tree = pytree.tree_flatten((args, kwargs))
        places = [
            i for i, value in enumerate(values)
            if isinstance(value, corten.Tensor) and value.requires_grad
        ]
        if not places:
            return args, kwargs
        passed = RegisterPostBackwardFunction.apply(self, *(values[i] for i in places))
        for place, value in zip(places, passed):
            values[place] = value
        return pytree.tree_unflatten(values, tree)


class RegisterPostBackwardFunction(corten.autograd.Function):
    """Gives its inputs on; in backward it comes after everything that they were used for."""

    @staticmethod
    def forward(ctx, param_group, *inputs):
        ctx.param_group = param_group
        return inputs

    @staticmethod
    def backward(ctx, *grads):
        ctx.param_group.post_backward()
        return (None, *grads)
