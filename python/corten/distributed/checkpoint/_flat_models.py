"""Dictionaries of models that are ``FullyShardedDataParallel``, and of their optimizers."""

from __future__ import annotations

import sys

import corten.distributed as dist

__all__ = ["is_flat", "load_model", "load_optimizer", "model_states", "optimizer_states"]


def _fsdp():
    module = sys.modules.get("corten.distributed.fsdp.fully_sharded_data_parallel")
    return None if module is None else module.FullyShardedDataParallel


def is_flat(model):
    """Whether a model has wrapped modules."""
    cls = _fsdp()
    return cls is not None and any(isinstance(module, cls) for module in model.modules())


def _in_parts(model):
    from corten.distributed.fsdp import StateDictType

    return _fsdp().state_dict_type(model, StateDictType.SHARDED_STATE_DICT)


def model_states(model, get):
    """What ``get`` gives, with sharded parameters as ``DTensor``."""
    with _in_parts(model):
        return get()


def _from_first(states, info):
    """The dictionary of the first process, where the options say that only this has one."""
    if not info.broadcast_from_rank0:
        return states
    holder = [states if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(holder, src=0)
    return holder[0]


def load_model(model, load, states, info):
    """Lets ``load`` take whole tensors or ``DTensor``."""
    with _in_parts(model):
        return load(_from_first(states, info), strict=info.strict)


def _check(info):
    if info.flatten_optimizer_state_dict:
        raise NotImplementedError(
            "flatten_optimizer_state_dict is not supported for models that are FullyShardedDataParallel"
        )


def optimizer_states(model, optimizer, info):
    """The dictionary of an optimizer by the names of the parameters."""
    _check(info)
    with _in_parts(model):
        return _fsdp().optim_state_dict(model, optimizer)


def load_optimizer(model, optimizer, states, info):
    """What an optimizer's own ``load_state_dict`` takes."""
    _check(info)
    with _in_parts(model):
        return _fsdp().optim_state_dict_to_load(model, optimizer, _from_first(states, info))
