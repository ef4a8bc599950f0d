"""Walking through state dictionaries: copies on the CPU, whole tensors of spread ones, and parts of whole ones."""

from __future__ import annotations

from collections.abc import Mapping

import corten
import corten.distributed as dist

__all__: list[str] = []


def _mapped(value, change):
    """A copy of nested dictionaries, lists and tuples with ``change`` applied to tensors."""
    if isinstance(value, corten.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(part, change) for part in value)
    return value


def _with_local(tensor, local):
    """A ``DTensor`` like ``tensor`` whose part here is ``local``."""
    from corten.distributed.tensor import DTensor

    return DTensor.from_local(
        local, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.size(),
        stride=tensor.stride(),
    )


def _local(tensor):
    return tensor.to_local() if is_dtensor(tensor) else tensor


def _gather_state_dict(state_dict, *, pg=None, device=None, cpu_offload=False, ranks_only=(), type_check=True):
    """A copy in which spread tensors are whole; with ``cpu_offload`` on the CPU. Ranks that are not in
    ``ranks_only``, where that is given, get an empty dictionary."""

    def whole(tensor):
        if is_dtensor(tensor):
            # Tensors of the CPU may be those of a mesh whose group speaks for a device.
            kind = tensor.device_mesh.device_type
            if tensor.device.type != kind:
                tensor = tensor.to(kind)
            tensor = tensor.full_tensor()
        return tensor.detach().cpu() if cpu_offload else tensor

    gathered = _mapped(state_dict, whole)
    return gathered if not ranks_only or dist.get_rank(pg) in tuple(ranks_only) else {}


def _offload_state_dict_to_cpu(state_dict, *, ranks_only=(), type_check=True):
    """A copy with tensors on the CPU, spread ones still spread."""

    def on_cpu(tensor):
        local = _local(tensor).detach().cpu()
        return _with_local(tensor, local) if is_dtensor(tensor) else local

    if ranks_only and dist.get_rank() not in tuple(ranks_only):
        return {}
    return _mapped(state_dict, on_cpu)


def _create_cpu_state_dict(state_dict, pin_memory=False, share_memory=False):
    """A dictionary of the same shapes on the CPU, for :func:`_copy_state_dict`."""

    def room(tensor):
        local = _local(tensor)
        made = corten.empty(local.size(), dtype=local.dtype)
        if pin_memory and corten.cuda.is_available():
            made = made.pin_memory()
        if share_memory:
            made = made.share_memory_()
        return _with_local(tensor, made) if is_dtensor(tensor) else made

    return _mapped(state_dict, room)


def _copy_state_dict(state_dict, copy_state_dict, non_blocking=False, type_check=True):
    """Copies the tensors of a dictionary to those of another of the same shapes, which is given back with the
    other values of the first."""
    copied = _copied(state_dict, copy_state_dict, non_blocking, ())
    if non_blocking:
        corten.accelerator.synchronize()
    return copied


def _copied(value, target, non_blocking, path):
    if isinstance(value, corten.Tensor):
        if not isinstance(target, corten.Tensor) or target.size() != value.size():
            raise ValueError(f"{'.'.join(map(str, path))}: the copies have no tensor of this shape")
        _local(target).copy_(_local(value).detach(), non_blocking=non_blocking)
        return target
    if isinstance(value, Mapping):
        for key, part in value.items():
            held = target.get(key) if isinstance(part, (corten.Tensor, Mapping, list, tuple)) else None
            target[key] = _copied(part, held, non_blocking, (*path, key))
        for key in [key for key in target if key not in value]:
            del target[key]
        return target
    if type(value) in (list, tuple):
        held = target if type(target) is type(value) and len(target) == len(value) else [None] * len(value)
        return type(value)(
            _copied(part, held[i], non_blocking, (*path, i)) for i, part in enumerate(value)
        )
    return value


class _TensorInfo:
    """The shape and dtype of a tensor that is about to be sent."""

    def __init__(self, size, dtype):
        self.size, self.dtype = size, dtype


def _taken(whole, local):
    """What stands for ``local`` when its content is that of ``whole``: of spread tensors a part."""
    if not is_dtensor(local):
        return whole
    offsets, sizes = box_of(local)
    part = narrowed(whole.detach(), offsets, sizes)
    if local.is_meta:
        return _with_local(local, part.clone())
    local.to_local().copy_(part)
    return local


def _distribute_state_dict(full_state_dict, local_state_dict, device, pg=None):
    """Puts the values of a dictionary of whole tensors, which every process has, into one of spread ones."""
    for key, value in full_state_dict.items():
        if key not in local_state_dict:
            continue
        if isinstance(value, corten.Tensor):
            if value.dim() == 0:
                value = value.cpu()
            else:
                value = _taken(value.detach().to(device), local_state_dict[key])
        local_state_dict[key] = value


def _broadcast_state_dict(
    full_state_dict, local_state_dict, device, pg=None, strict=False, cpu_offload=False
):
    """As :func:`_distribute_state_dict` for a dictionary that the first process alone has: its tensors are
    sent one by one. With ``strict`` keys that it has not are removed."""
    first = dist.get_rank(pg) == 0
    sent = [None]
    if first:
        sent = [{key: _announced(value) for key, value in full_state_dict.items()}]
    source = 0 if pg is None else dist.get_global_rank(pg, 0)
    dist.broadcast_object_list(sent, src=source, group=pg)
    for key, value in sent[0].items():
        if isinstance(value, _TensorInfo):
            if first:
                value = full_state_dict[key].detach().to(device)
            else:
                value = corten.empty(value.size, device=device, dtype=value.dtype)
            value = value.contiguous()
            dist.broadcast(value, src=source, group=pg)
            if key in local_state_dict:
                value = _taken(value, local_state_dict[key])
                if cpu_offload and isinstance(value, corten.Tensor):
                    value = value.cpu()
        if key in local_state_dict:
            local_state_dict[key] = value
    if strict:
        for key in set(local_state_dict) - set(sent[0]):
            local_state_dict.pop(key)


def _announced(value):
    if not isinstance(value, corten.Tensor):
        return value
    return value.cpu() if value.dim() == 0 else _TensorInfo(value.size(), value.dtype)


# At the end: the package of these modules imports the functions above.
from corten.distributed.checkpoint._nested_dict import (  # noqa: E402
    flatten_state_dict as _flatten_state_dict,  # noqa: F401
    unflatten_state_dict as _unflatten_state_dict,  # noqa: F401
)
from corten.distributed.checkpoint._tensors import box_of, is_dtensor, narrowed  # noqa: E402
