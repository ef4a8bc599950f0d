"""What ``FullyShardedDataParallel`` does with its arguments."""

from __future__ import annotations

import warnings

import corten
import corten.distributed as dist
from corten import nn
from corten.distributed.device_mesh import DeviceMesh

from ._common_utils import _get_module_fsdp_state
from ._flat_param import FlatParameter, FlatParamHandle
from ._fully_shard._fsdp_common import DDPMeshInfo, FSDPMeshInfo, HSDPMeshInfo
from ._runtime_utils import FlatGroup, FlatState, run_in_own_dtype
from .api import CPUOffload, MixedPrecision, ShardingStrategy
from .wrap import (
    _construct_wrap_fn, _or_policy, _Policy, _post_order_apply, _recursive_wrap, _wrap_module_cls_individually,
)

__all__: list = []

HYBRID_SHARDING_STRATEGIES = [ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2]
NO_RESHARD_AFTER_FORWARD_STRATEGIES = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


def mesh_info_of(process_group, mesh, strategy, device_type):
    """Between which processes parameters are sharded and replicated, and the strategy that this is."""
    hybrid = strategy in HYBRID_SHARDING_STRATEGIES
    if mesh is not None:
        if process_group is not None:
            raise ValueError("Cannot pass both process_group and device_mesh at the same time")
        if mesh.ndim != (2 if hybrid else 1):
            raise ValueError(
                f"FullyShardedDataParallel: device_mesh should have {2 if hybrid else 1} dimensions with {strategy}, "
                f"got {mesh.ndim}"
            )
    elif hybrid:
        mesh = _hybrid_mesh(process_group, strategy, device_type)
    else:
        group = dist.group.WORLD if process_group is None else process_group
        mesh = DeviceMesh.from_group(group, device_type)
    if hybrid:
        return HSDPMeshInfo(mesh, shard_mesh_dim=1, replicate_mesh_dim=0), strategy
    if strategy != ShardingStrategy.NO_SHARD and mesh.size() == 1:
        warnings.warn(
            f"FSDP is switching to use `NO_SHARD` instead of {strategy} since the world size is 1.", stacklevel=4
        )
        strategy = ShardingStrategy.NO_SHARD
    if strategy == ShardingStrategy.NO_SHARD:
        return DDPMeshInfo(mesh, replicate_mesh_dim=0), strategy
    return FSDPMeshInfo(mesh, shard_mesh_dim=0), strategy


def _hybrid_mesh(process_group, strategy, device_type):
    if process_group is None:
        count = corten.accelerator.device_count() if device_type != "cpu" else dist.get_world_size()
        if dist.get_world_size() % count:
            raise ValueError(
                f"FullyShardedDataParallel: the {dist.get_world_size()} processes are not a multiple of the {count} "
                "devices of a machine; pass process_group"
            )
        shape = dist.get_world_size() // count, count
        return dist.device_mesh.init_device_mesh(device_type, shape, mesh_dim_names=("replicate", "shard"))
    if not (isinstance(process_group, tuple) and len(process_group) == 2):
        raise ValueError(
            "process_group should be a tuple of process groups (intra, inter) when sharding_strategy is "
            f"{strategy}, got {type(process_group)}"
        )
    inside, across = process_group
    rows = [None] * dist.get_world_size(across)
    dist.all_gather_object(rows, dist.get_process_group_ranks(inside), group=across)
    return DeviceMesh.from_group(
        [across, inside], device_type, mesh=corten.tensor(rows), mesh_dim_names=("replicate", "shard")
    )


def ignored(module, ignored_modules, ignored_states):
    """The modules and parameters that are left alone."""
    if ignored_modules is not None and ignored_states is not None:
        raise ValueError("Cannot pass both ignored_modules and ignored_states at the same time")
    states = list(ignored_states or ())
    if states and not (
        all(isinstance(one, nn.Parameter) for one in states) or all(isinstance(one, nn.Module) for one in states)
    ):
        raise ValueError("ignored_states expects all nn.Parameter or all nn.Module list elements")
    modules = list(ignored_modules or ()) + [one for one in states if isinstance(one, nn.Module)]
    params = {one for one in states if isinstance(one, nn.Parameter)}
    for one in modules:
        if not isinstance(one, nn.Module):
            raise TypeError(f"`ignored_modules` expects nn.Module list elements but got type {type(one)}")
        if _get_module_fsdp_state(one) is not None:
            raise ValueError("`ignored_modules` should not include FSDP modules")
        if one is module:
            warnings.warn(
                "Trying to ignore the top-level module passed into the FSDP constructor itself will result in all "
                f"parameters being ignored and is not well-supported: {module}", stacklevel=4
            )
    below = {inner for one in modules for inner in one.modules() if _get_module_fsdp_state(inner) is None}
    params |= {param for one in below for param in one.parameters() if not isinstance(param, FlatParameter)}
    return below, params


def auto_wrap(module, policy, options, fsdp_cls):
    """Wraps the modules inside that a policy names."""
    below, params = ignored(module, options["ignored_modules"], options["ignored_states"])
    options = {name: value for name, value in options.items() if name != "ignored_modules"}
    options["ignored_states"] = params
    mixed_precision = options["mixed_precision"]
    outside = ()
    if mixed_precision is not None and (mixed_precision.param_dtype or mixed_precision.reduce_dtype):
        outside = tuple(mixed_precision._module_classes_to_ignore or ())
    left_out = {one for one in module.modules() if outside and isinstance(one, outside) and one not in below}
    for one in left_out:
        run_in_own_dtype(one)
        one._wrap_overrides = {"mixed_precision": None}
    if left_out:
        warnings.warn(
            "Both mixed precision and an auto_wrap_policy were specified to FSDP, where the wrapped module has "
            f"submodules of type:\n{set(outside)}\nThese modules will be wrapped as separate FSDP instances with "
            "mixed precision disabled.", stacklevel=4
        )
    if isinstance(policy, _Policy):
        targets = policy._run_policy(module, below, options)
        targets.update({one: {**options, "mixed_precision": None} for one in left_out})
        targets = {one: {**own, **getattr(one, "_wrap_overrides", {})} for one, own in targets.items()}
        _post_order_apply(module, _construct_wrap_fn(module, targets, fsdp_cls))
        return
    if left_out:
        asked = policy

        def both(module, recurse, nonwrapped_numel):
            return _or_policy(module, recurse, nonwrapped_numel, [
                asked, lambda module, recurse, nonwrapped_numel: _wrap_module_cls_individually(
                    module, outside, recurse),
            ])

        policy = both
    _recursive_wrap(
        module, auto_wrap_policy=policy, wrapper_cls=fsdp_cls, ignored_modules=below, ignored_params=params,
        only_wrap_children=True, **options,
    )


def managed_modules(module, below):
    """The modules inside that are in no wrapped module, nor left alone."""
    found = []

    def visit(one):
        if one in below or _get_module_fsdp_state(one) is not None:
            return
        found.append(one)
        for child in one.children():
            visit(child)

    visit(module)
    return found


def managed_params(modules, ignored_params):
    """The parameters of modules, each once."""
    params = {}
    for module in modules:
        for param in module._parameters.values():
            if param is not None and param not in ignored_params and not isinstance(param, FlatParameter):
                params[param] = None
    return list(params)


def compute_device(device_id, params):
    """Where a module computes."""
    if isinstance(device_id, int):
        return corten.device(corten.accelerator.current_accelerator().type, device_id)
    if device_id is not None:
        device = corten.device(device_id)
        if device.index is None and device.type != "cpu":
            device = corten.device(device.type, corten.accelerator.current_device_index())
        return device
    found = next((param.device for param in params if param.device.type != "meta"), corten.device("cpu"))
    return found


def materialize(modules, params, device, param_init_fn):
    """Gives parameters on the meta device their memory and values."""
    if not any(param.is_meta for param in params):
        return False
    if param_init_fn is not None:
        if not callable(param_init_fn):
            raise ValueError(f"Expected {param_init_fn} to be callable but got {type(param_init_fn)}")
        for module in modules:
            if any(True for _ in module.parameters(recurse=False)) or any(True for _ in module.buffers(recurse=False)):
                param_init_fn(module)
        return True
    with corten.no_grad():
        for module in modules:
            own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            if not own:
                continue
            module.to_empty(device=device, recurse=False)
            if not hasattr(module, "reset_parameters"):
                raise AttributeError(
                    f"Unable to call ``reset_parameters()`` for module on meta device with error type "
                    f"{type(module)} has no such method. Please ensure that your module of type {type(module)} "
                    "implements a ``reset_parameters()`` method, or pass param_init_fn"
                )
            module.reset_parameters()
    return True


def move(modules, params, device, offload):
    """Moves parameters, but those that are kept on the CPU, and buffers to where the module computes."""
    with corten.no_grad():
        for param in params:
            if param.device != device and not offload:
                param.data = param.to(device)
        for module in modules:
            for name, buffer in module._buffers.items():
                if buffer is not None and buffer.device != device:
                    module._buffers[name] = buffer.to(device)


def broadcast_states(modules, params, info):
    """Gives all processes the values of the first."""
    groups = []
    if isinstance(info, DDPMeshInfo):
        groups.append(info.replicate_process_group)
    if isinstance(info, FSDPMeshInfo):
        groups.append(info.shard_process_group)
    buffers = {buffer: None for module in modules for buffer in module._buffers.values() if buffer is not None}
    for group in groups:
        for tensor in (*params, *buffers):
            dist.broadcast(tensor.detach(), group=group, group_src=0)


def make_state(wrapper, module, params, info, device, options):
    """Makes the state of a wrapper, and the flat parameter of its module where there are parameters."""
    mixed_precision = options["mixed_precision"] or MixedPrecision()
    offload = (options["cpu_offload"] or CPUOffload()).offload_params
    strategy = options["sharding_strategy"]
    state = FlatState()
    state.init([wrapper], device, mixed_precision, strategy in (
        ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD))
    state.buffer_dtypes, state.buffers = {}, []
    if params:
        handle = FlatParamHandle(params, module, info, device, mixed_precision, offload, options["use_orig_params"])
        after = None
        if isinstance(info, FSDPMeshInfo) and strategy not in NO_RESHARD_AFTER_FORWARD_STRATEGIES:
            after = info
        state.handle = handle
        state._fsdp_param_groups = [FlatGroup(handle, wrapper, info, after, device, mixed_precision)]
    return state
