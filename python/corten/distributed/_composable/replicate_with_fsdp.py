"""Data parallelism in which every process has all parameters, by the means of :func:`fully_shard`."""

from __future__ import annotations

from corten.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, OffloadPolicy
from corten.distributed.fsdp._fully_shard._fsdp_common import DDPMeshInfo
from corten.distributed.fsdp._fully_shard._fsdp_init import (
    _apply_to_module, _as_modules, _get_device_from_mesh, _get_managed_modules, _get_managed_states,
    _init_default_mesh,
    _init_param_groups, _move_states_to_device, _validate_module,
)
from corten.distributed.fsdp._fully_shard._fsdp_state import FSDPState
from corten.distributed.fsdp._fully_shard._fully_shard import _unimplemented_deepcopy

from .contract import _get_registry, contract

cls_to_replicate_cls: dict = {}


class _ReplicateState(FSDPState):
    """As that of :func:`fully_shard`."""


class ReplicateModule(FSDPModule):
    """The methods of modules that :func:`replicate` was applied to."""

    _orig_cls_mro_index = 3


@contract(state_cls=_ReplicateState)
def replicate(module, *, mesh=None, mp_policy=None, offload_policy=None, ignored_params=None):
    """Averages the gradients of a module over processes, in place; parameters become ``DTensor`` with
    ``Replicate()``.

    Args:
        module: A module, or a list of modules that are one group.
        mesh: The processes, of one dimension; by default all.
        mp_policy, offload_policy, ignored_params: As of :func:`fully_shard`.

    Returns:
        ``module``.

    Raises:
        RuntimeError: :func:`fully_shard` was applied to it.
        ValueError: The mesh has more than one dimension.
    """
    mp_policy = MixedPrecisionPolicy() if mp_policy is None else mp_policy
    offload_policy = OffloadPolicy() if offload_policy is None else offload_policy
    modules = _as_modules(module)
    for one in modules:
        if "fully_shard" in (_get_registry(one) or {}):
            raise RuntimeError(
                "Cannot apply `replicate()` on a Module already managed by `fully_shard`"
            )
    _validate_module(module, "replicate")
    mesh = _init_default_mesh() if mesh is None else mesh
    if mesh.ndim != 1:
        raise ValueError(f"replicate expects a 1D DeviceMesh but got {mesh}")
    device = _get_device_from_mesh(mesh)
    managed = _get_managed_modules(modules, other="fully_shard")
    params, buffers = _get_managed_states(managed, set(ignored_params or ()))
    _move_states_to_device(params, buffers, device)
    state = replicate.state(modules[0])
    state.init(modules, device, mp_policy, False)
    _init_param_groups(state, params, modules, DDPMeshInfo(mesh, replicate_mesh_dim=0), {
        "device": device, "shard_placement_fn": None, "mp_policy": mp_policy,
        "offload_policy": offload_policy, "reshard_after_forward": False,
    })
    _apply_to_module(
        modules, cls_to_replicate_cls, ReplicateModule, "Replicate", _unimplemented_deepcopy
    )
    return module
