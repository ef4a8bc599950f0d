"""What :func:`fully_shard` does with its arguments."""

from __future__ import annotations

import corten
import corten.distributed as dist
from corten import nn
from corten.distributed._composable.contract import _get_registry, _get_root_modules
from corten.distributed.device_mesh import DeviceMesh, init_device_mesh
from corten.distributed.tensor import DTensor

from ._fsdp_common import DDPMeshInfo, FSDPMeshInfo, HSDPMeshInfo, resolve_shard_placement
from ._fsdp_param_group import FSDPParamGroup
from ._fsdp_state import _get_module_fsdp_state


def _validate_module(module, func_name):
    """Raises ``ValueError`` for containers that have no ``forward``."""
    modules = [module] if isinstance(module, nn.Module) else list(module)
    for one in modules:
        if not isinstance(one, nn.Module):
            raise ValueError(f"{func_name} expects modules, not {type(one)}")
        if isinstance(one, (nn.ModuleList, nn.ModuleDict)) and type(one).forward is nn.Module.forward:
            raise ValueError(
                f"{func_name} does not support containers that do not implement forward: {one}"
            )


def _validate_mesh(mesh, dp_mesh_dims=None):
    if dp_mesh_dims is not None:
        if mesh.mesh_dim_names is None:
            raise ValueError("mesh must have mesh_dim_names when dp_mesh_dims is provided")
        for name in dp_mesh_dims.shard_names + dp_mesh_dims.replicate_names:
            if name not in mesh.mesh_dim_names:
                raise ValueError(f"Mesh dim name '{name}' not found in mesh.mesh_dim_names")
        return
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError(
            "Please init the 2D mesh for HSDP with mesh_dim_names specified"
        )


def _init_default_mesh():
    """A mesh of all processes."""
    if not dist.is_initialized():
        dist.init_process_group()
    device = corten.accelerator.current_accelerator() if corten.accelerator.is_available() else None
    kind = "cpu" if device is None else device.type
    return init_device_mesh(kind, mesh_shape=(dist.get_world_size(),))


def _get_mesh_info(mesh):
    if mesh.ndim == 1:
        return FSDPMeshInfo(mesh, shard_mesh_dim=0)
    return HSDPMeshInfo(mesh, shard_mesh_dim=1, replicate_mesh_dim=0)


def _get_post_forward_mesh_info(reshard_after_forward, mesh_info):
    """Over which processes parameters are sharded after forward; nothing where they stay whole."""
    if isinstance(reshard_after_forward, bool):
        return mesh_info if reshard_after_forward else None
    if not isinstance(reshard_after_forward, int):
        raise ValueError(
            "reshard_after_forward should be a bool or an int representing the group size to reshard to, "
            f"not {reshard_after_forward}"
        )
    size = mesh_info.shard_mesh_size
    if not 1 <= reshard_after_forward <= size or size % reshard_after_forward:
        raise ValueError(
            f"If passing reshard_after_forward as an int, it should be a factor of {size}, "
            f"not {reshard_after_forward}"
        )
    if reshard_after_forward == 1:
        return None
    if reshard_after_forward == size:
        return mesh_info
    mesh = mesh_info.mesh
    smaller = DeviceMesh(mesh.device_type, mesh.mesh.reshape(-1, reshard_after_forward))
    return HSDPMeshInfo(smaller, shard_mesh_dim=1, replicate_mesh_dim=0)


def _get_device_from_mesh(mesh):
    if mesh.device_type == "cpu":
        return corten.device("cpu")
    return corten.device(mesh.device_type, getattr(corten, mesh.device_type).current_device())


def _get_managed_modules(root_modules, other="replicate"):
    """The modules whose parameters are to be managed: those inside to which nothing was applied before, neither
    this function nor the one that ``other`` names."""
    modules, visited = [], set()

    def visit(module):
        registry = _get_registry(module) or {}
        nested = module not in root_modules and _get_module_fsdp_state(module) is not None
        if other in registry or nested:
            return
        visited.add(module)
        for child in module.children():
            if child not in visited:
                visit(child)
        modules.append(module)

    for root in root_modules:
        visit(root)
    return modules


def _get_managed_states(modules, ignored_params):
    """The parameters and buffers of modules, each once."""
    params, buffers = {}, {}
    for module in modules:
        for name, param in module.named_parameters(recurse=False):
            if param in ignored_params:
                continue
            if param.dim() == 0:
                raise ValueError(
                    "fully_shard doesn't support scalar parameters. "
                    f"Change {name} to a 1D tensor with numel equal to 1."
                )
            params[param] = None
        buffers.update(dict.fromkeys(module.buffers(recurse=False)))
    return list(params), list(buffers)


def _move_states_to_device(params, buffers, device):
    for tensor in (*params, *buffers):
        if tensor.device == device or tensor.is_meta:
            continue
        if isinstance(tensor, DTensor):
            raise ValueError(
                "Requires DTensor to have mesh of the same type as the FSDP mesh "
                f"but got {tensor.device_mesh.device_type} for DTensor and {device.type} for FSDP"
            )
        tensor.data = tensor.to(device)


def _init_param_groups(state, params, modules, mesh_info, options):
    """Makes the groups: one, or one for each mesh that ``shard_placement_fn`` names."""
    by_mesh: dict = {}
    choose = options["shard_placement_fn"]
    for param in params:
        info = mesh_info
        if choose is not None:
            if not isinstance(mesh_info, FSDPMeshInfo):
                raise ValueError(
                    "Per-param mesh via shard_placement_fn is not supported with "
                    f"{type(mesh_info).__name__}; it requires FSDPMeshInfo (or subclass)"
                )
            info = resolve_shard_placement(choose(param), mesh_info).mesh_info
        by_mesh.setdefault(id(info), (info, []))[1].append(param)
    reshard = options.pop("reshard_after_forward")
    for info, group in by_mesh.values():
        after = None
        if isinstance(info, FSDPMeshInfo):
            after = _get_post_forward_mesh_info(reshard, info)
        state._fsdp_param_groups.append(
            FSDPParamGroup(group, modules, info, after, **options)
        )


def _mesh_info_of_dims(mesh, dims):
    """The mesh that ``dp_mesh_dims`` names, in a mesh with others."""

    def part(names):
        return mesh[names[0]] if len(names) == 1 else mesh[names]._flatten("_".join(names))

    shard, replicate = dims.shard_names, dims.replicate_names
    if not shard:
        return DDPMeshInfo(part(replicate), replicate_mesh_dim=0)
    if not replicate:
        return FSDPMeshInfo(part(shard), shard_mesh_dim=0)
    both = DeviceMesh._concatenate([part(replicate), part(shard)])
    return HSDPMeshInfo(both, shard_mesh_dim=1, replicate_mesh_dim=0)


def _as_modules(module):
    return (module,) if isinstance(module, nn.Module) else tuple(_get_root_modules(list(module)))


def _apply_to_module(modules, made, base, prefix, deepcopy):
    """Gives modules a subclass of their class that is a ``base``, too; ``made`` keeps those that were made."""
    for module in modules:
        cls = type(module)
        if cls not in made:
            made[cls] = type(f"{prefix}{cls.__name__}", (base, cls), {"__deepcopy__": deepcopy})
        module.__class__ = made[cls]
