"""Dictionaries of wrapped modules: of whole tensors, of parts, or of this process's memory."""

from __future__ import annotations

import contextlib

import corten
from corten.distributed.tensor import DTensor, Shard
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from ._common_utils import FSDP_PREFIX
from ._flat_param import FLAT_PARAM
from ._fully_shard._fsdp_common import _from_local_no_grad
from ._fully_shard._fsdp_param import contiguous_stride
from ._unshard_param_utils import whole_params
from .api import StateDictType

__all__: list = []


def install(module):
    """Lets a wrapped module make and take dictionaries."""
    module.register_state_dict_pre_hook(_before_state_dict)
    module._register_state_dict_hook(_after_state_dict)
    module._register_load_state_dict_pre_hook(_before_load, with_module=True)
    module.register_load_state_dict_post_hook(_after_load)


def shard_mesh(info):
    """The mesh over which a flat parameter is sharded."""
    return info.mesh if info.mesh.ndim == 1 else info.mesh[info.mesh.mesh_dim_names[1]]


def as_dtensor(whole, info):
    """This process's rows of a tensor as a ``DTensor``; tensors without dimensions stay."""
    if whole.dim() == 0 or not hasattr(info, "shard_mesh_size"):
        return whole
    chunk = -(-whole.size(0) // info.shard_mesh_size)
    begin = min(chunk * info.shard_mesh_rank, whole.size(0))
    part = whole.narrow(0, begin, min(chunk, whole.size(0) - begin)).clone()
    meta = TensorMeta(whole.size(), contiguous_stride(whole.size()), whole.dtype)
    return _from_local_no_grad(part, DTensorSpec(shard_mesh(info), (Shard(0),), meta))


def _enter(module, **options):
    """Makes parameters whole, unless they are."""
    if module._whole is None and module._fsdp_state.handle is not None and not module._is_summoned:
        stack = contextlib.ExitStack()
        stack.enter_context(whole_params(module._fsdp_state, **options))
        module._whole = stack


def _free_whole(module):
    if module._fsdp_state.group is not None:
        module._fsdp_state.group._to_sharded()


def _leave(module):
    stack, module._whole = module._whole, None
    if stack is not None:
        stack.close()


def _before_state_dict(module, prefix, keep_vars):
    _free_whole(module)
    if module._state_dict_type != StateDictType.LOCAL_STATE_DICT:
        _enter(module, writeback=False)


@corten.no_grad()
def _after_state_dict(module, state_dict, prefix, local_metadata):
    state, inner = module._fsdp_state, prefix + FSDP_PREFIX
    kind, config = module._state_dict_type, module._state_dict_config
    handle = state.handle
    own = set() if handle is None else {
        inner + name for place in handle.places for name in place.names
    }
    try:
        if kind == StateDictType.LOCAL_STATE_DICT and handle is not None:
            for key in own | {inner + FLAT_PARAM}:
                state_dict.pop(key, None)
            part = handle.local_part()
            state_dict[inner + FLAT_PARAM] = part.cpu() if config.offload_to_cpu else part
        others = kind == StateDictType.FULL_STATE_DICT and config.rank0_only and corten.distributed.get_rank() != 0
        for key in [key for key in state_dict if key.startswith(inner)]:
            value = state_dict.pop(key)
            if others:
                continue
            if kind != StateDictType.LOCAL_STATE_DICT:
                value = _as_saved(module, key[len(inner):], value, key in own)
            state_dict[prefix + key[len(inner):]] = value
    finally:
        _leave(module)
    return state_dict


def _as_saved(module, name, value, own):
    """A value of a dictionary that has memory of its own."""
    state = module._fsdp_state
    if not isinstance(value, corten.Tensor):
        return value
    if own:
        value = value.detach()
        if module._state_dict_type == StateDictType.SHARDED_STATE_DICT:
            value = as_dtensor(value, state.group.mesh_info)
        elif not module._state_dict_config.offload_to_cpu or value.device.type == "cpu":
            value = value.clone()
    for (owner, local), dtype in state.buffer_dtypes.items():
        if owner._buffers.get(local) is not None and owner._buffers[local].data_ptr() == value.data_ptr():
            value = value.to(dtype)
    return value.cpu() if module._state_dict_config.offload_to_cpu else value


@corten.no_grad()
def _before_load(module, state_dict, prefix, *args):
    state, inner = module._fsdp_state, prefix + FSDP_PREFIX
    _free_whole(module)
    for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(inner)]:
        state_dict[inner + key[len(prefix):]] = state_dict.pop(key)
    handle = state.handle
    if handle is None:
        return
    if module._state_dict_type == StateDictType.LOCAL_STATE_DICT:
        _load_part(handle, state_dict, inner)
        return
    for place in handle.places:
        for name in place.names:
            value = state_dict.get(inner + name)
            if isinstance(value, DTensor):
                state_dict[inner + name] = value.full_tensor()
    _enter(module, writeback=True)


def _load_part(handle, state_dict, inner):
    """Takes this process's part."""
    if not handle.use_orig_params:
        return
    part = state_dict.pop(inner + FLAT_PARAM, None)
    if part is None:
        return
    handle.flat_param.data.copy_(part)
    for place, piece in zip(handle.places, handle.pieces):
        state_dict[inner + place.fqn] = piece


def _after_load(module, incompatible_keys):
    _leave(module)
