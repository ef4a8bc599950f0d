"""Whole parameters in place of their parts, for as long as a context lasts."""

from __future__ import annotations

import contextlib

import corten
from corten import nn

from ._flat_param import FLAT_PARAM
from ._fully_shard._fsdp_common import TrainingState
from ._fully_shard._fsdp_param import set_parameter

__all__: list = []


def check_arguments(writeback, rank0_only, offload_to_cpu, with_grads, states):
    """Raises for what cannot be done."""
    if with_grads and (offload_to_cpu or not all(state.handle.use_orig_params for state in states)):
        raise NotImplementedError(
            f"with_grads={with_grads}, use_orig_params="
            f"{all(state.handle.use_orig_params for state in states)}, offload_to_cpu={offload_to_cpu} is not "
            "supported yet"
        )
    if offload_to_cpu and any(state.is_replicated for state in states):
        raise NotImplementedError(
            "offload_to_cpu=True and NO_SHARD is not supported yet. Please use another strategy."
        )
    if writeback and rank0_only:
        raise NotImplementedError(
            "writeback=True and rank0_only=True is not supported, as model parameter shapes will be different "
            "across ranks, and writing to them can lead to inconsistencies across ranks when the context is exited."
        )


@contextlib.contextmanager
def whole_params(state, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False):
    """Registers the whole parameters of one wrapped module, in their own dtype and under their names."""
    handle, group = state.handle, state.group
    if group._training_state != TrainingState.IDLE:
        raise AssertionError(
            f"Cannot manually unshard parameters during forward/backward: the module is in {group._training_state}"
        )
    group._to_sharded()
    handle.reset_sharded_param()
    whole = handle.gather(handle.local_part())
    grads = handle.gather(handle.sharded_grads()) if with_grads else None
    if rank0_only and corten.distributed.get_rank() != 0:
        yield
        return
    _register_whole(handle, whole.cpu() if offload_to_cpu else whole, grads)
    try:
        yield
    finally:
        found = [place.owners[0][0]._parameters[place.owners[0][1]] for place in handle.places]
        if handle.use_orig_params:
            handle._register(handle.pieces)
        else:
            handle._init_unsharded()
            handle._attach(handle._unsharded)
            handle._free()
            handle.module._parameters[FLAT_PARAM] = handle.flat_param
        if writeback:
            _write_back(handle, found, with_grads)


def _register_whole(handle, whole, grads):
    """Registers parameters over slices of a tensor."""
    handle.module._parameters.pop(FLAT_PARAM, None)
    for i, place in enumerate(handle.places):
        param = nn.Parameter(whole.narrow(0, place.begin, place.numel).view(place.size), place.requires_grad)
        if handle.use_orig_params:
            param.requires_grad_(handle.pieces[i].requires_grad)
        vars(param).update(place.attributes)
        if grads is not None and param.requires_grad:
            param.grad = grads.narrow(0, place.begin, place.numel).view(place.size)
        for module, name in place.owners:
            vars(module).pop(name, None)
            set_parameter(module, name, param)


@corten.no_grad()
def _write_back(handle, params, with_grads):
    """Takes this process's part of parameters, which may be others than those that were registered."""
    shift = handle.rank * handle.padded_numel

    def piece(tensor, place, begin, end):
        first = begin + shift - place.begin
        return tensor.reshape(-1).narrow(0, first, end - begin)

    for i, (place, param) in enumerate(zip(handle.places, params)):
        begin, end = handle.span(place)
        if begin < end:
            handle.flat_param.data.narrow(0, begin, end - begin).copy_(piece(param.data, place, begin, end))
            own = handle.pieces[i] if with_grads else None
            if own is not None and own.grad is not None and param.grad is not None:
                own.grad.view(-1).copy_(piece(param.grad, place, begin, end))
