"""Dictionaries of optimizers of wrapped models: states under the names of the parameters, whole or in parts, and back.

A state of the shape of this process's part of a parameter is *spread*; what else there is, such as counts of steps, is
the same in all processes.
"""

from __future__ import annotations

import corten
import corten.distributed as dist
from corten.distributed.tensor import DTensor

from ._common_utils import clean_tensor_name, handles_of
from ._flat_param import FLAT_PARAM
from ._state_dict_utils import as_dtensor

__all__: list = []


class _Spread:
    """Says that a state is spread, and its dtype."""

    def __init__(self, dtype):
        self.dtype = dtype


def names_of_params(model):
    """The clean names of a model's parameters by their identity; of a flat one its handle."""
    flat = {id(handle.flat_param): (prefix, handle) for prefix, handle in handles_of(model)}
    found = {}
    for name, param in model.named_parameters():
        if name.rpartition(".")[2] == FLAT_PARAM:
            prefix, handle = flat[id(param)]
            found[id(param)] = [prefix + place.fqn for place in handle.places]
        else:
            found[id(param)] = [clean_tensor_name(name)]
    return found


def _local_states(handle, states):
    """For each place what this process has: the state and, of what is spread, the part of the place."""
    result = []
    whole = None if handle.use_orig_params else states.get(handle.flat_param, {})
    for i, place in enumerate(handle.places):
        begin, end = handle.span(place)
        if handle.use_orig_params:
            piece = handle.pieces[i]
            own = states.get(piece, {})
            spread = {key: value.reshape(-1) for key, value in own.items() if _is_spread(value, piece)}
        else:
            own = whole
            spread = {
                key: value.narrow(0, begin, end - begin)
                for key, value in own.items() if _is_spread(value, handle.flat_param)
            }
        result.append((spread, {key: value for key, value in own.items() if key not in spread}))
    return result


def _is_spread(value, param):
    return isinstance(value, corten.Tensor) and value.dim() > 0 and value.size() == param.size()


@corten.no_grad()
def gather_states(prefix, handle, states):
    """The whole states of a handle's parameters by their names. All processes call it."""
    local = _local_states(handle, states)
    described = [
        ({key: _Spread(value.dtype) for key, value in spread.items()}, same) for spread, same in local
    ]
    everywhere = [described]
    if handle.world_size > 1:
        everywhere = [None] * handle.world_size
        dist.all_gather_object(everywhere, described, group=handle.group)
    result, spread_names = {}, {}
    for i, place in enumerate(handle.places):
        merged = {}
        for one in everywhere:
            for part in one[i]:
                for key, value in part.items():
                    merged.setdefault(key, value)
        if merged:
            result[prefix + place.fqn] = merged
        for key, value in merged.items():
            if isinstance(value, _Spread):
                spread_names.setdefault((key, value.dtype), []).append(i)
    for (key, dtype), places in sorted(spread_names.items(), key=str):
        flat = corten.zeros(handle.padded_numel, dtype=dtype, device=handle.device)
        for i in places:
            begin, end = handle.span(handle.places[i])
            if key in local[i][0] and begin < end:
                flat.narrow(0, begin, end - begin).copy_(local[i][0][key])
        whole = handle.gather(flat)
        for i in places:
            place = handle.places[i]
            value = whole.narrow(0, place.begin, place.numel).view(place.size).clone()
            result[prefix + place.fqn][key] = value
    return {name: {key: one[key] for key in sorted(one, key=str)} for name, one in result.items()}


def _mapped(state, function):
    return {key: function(value) if isinstance(value, corten.Tensor) else value for key, value in state.items()}


def optim_state_dict(model, optim, given, full, rank0_only, cpu_offload):
    """See ``FullyShardedDataParallel.optim_state_dict``."""
    names = names_of_params(model)
    states, groups = optim.state, optim.param_groups
    if given is not None:
        states, groups = _from_dict(optim, given)
    result: dict = {"state": {}, "param_groups": []}
    done = set()
    for prefix, handle in handles_of(model):
        gathered = gather_states(prefix, handle, states)
        members = handle.pieces if handle.use_orig_params else [handle.flat_param]
        done |= {id(member) for member in members}
        if not full:
            info = handle.mesh_info
            gathered = {
                name: _mapped(one, lambda value, info=info: as_dtensor(value, info)) for name, one in gathered.items()
            }
        result["state"].update(gathered)
    for group in groups:
        for param in group["params"]:
            if id(param) not in done and param in states:
                result["state"][names[id(param)][0]] = dict(states[param])
        members = [name for param in group["params"] for name in names[id(param)]]
        result["param_groups"].append({**group, "params": members})
    if full and rank0_only and dist.get_rank() != 0:
        return {}
    if cpu_offload:
        result["state"] = {
            name: _mapped(one, lambda value: value.cpu()) for name, one in result["state"].items()
        }
    return result


def _from_dict(optim, given):
    """States by parameters, and groups of parameters, from what ``optim.state_dict`` gave."""
    params = [param for group in optim.param_groups for param in group["params"]]
    states = {params[i]: one for i, one in given["state"].items()}
    groups = [
        {**one, "params": [params[i] for i in one["params"]]} for one in given["param_groups"]
    ]
    return states, groups


def _whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


@corten.no_grad()
def _part_of(handle, places, states, key):
    """This process's part of a state, ``[elements]``."""
    flat = None
    for place, state in zip(places, states):
        value = state.get(key)
        if not isinstance(value, corten.Tensor):
            continue
        if flat is None:
            device = handle.flat_param.device
            flat = corten.zeros(handle.padded_numel, dtype=value.dtype, device=device)
        begin, end = handle.span(place)
        if begin < end:
            first = begin + handle.rank * handle.padded_numel - place.begin
            flat.narrow(0, begin, end - begin).copy_(value.reshape(-1).narrow(0, first, end - begin))
    return flat


def _states_for(prefix, handle, given):
    """The states of the parameters that are registered, in their order."""
    states = [
        {key: _whole(value) for key, value in given.get(prefix + place.fqn, {}).items()} for place in handle.places
    ]
    spread = {
        key for place, state in zip(handle.places, states) for key, value in state.items()
        if isinstance(value, corten.Tensor) and value.dim() > 0 and value.size() == place.size
    }
    parts = {key: _part_of(handle, handle.places, states, key) for key in spread}
    if not handle.use_orig_params:
        first = next((state for state in states if state), {})
        same = {key: value for key, value in first.items() if key not in spread}
        return [{**same, **parts}]
    result = []
    for place, state in zip(handle.places, states):
        own = {key: value for key, value in state.items() if key not in spread}
        # A process that has nothing of a parameter has no state of it.
        begin, end = handle.span(place)
        if begin < end:
            own.update((key, handle._piece_of(parts[key], place).clone()) for key in state if key in spread)
            result.append(own)
        else:
            result.append({})
    return result


def _group_with(groups, name):
    for group in groups:
        if name in group["params"]:
            return {key: value for key, value in group.items() if key != "params"}
    return {}


def optim_state_dict_to_load(model, optim, given, rank0_only=False, is_named_optimizer=False, group=None):
    """See ``FullyShardedDataParallel.optim_state_dict_to_load``."""
    if rank0_only:
        holder = [given if dist.get_rank(group) == 0 else None]
        dist.broadcast_object_list(holder, group=group, group_src=0)
        given = holder[0]
    names, by_param = names_of_params(model), {}
    for prefix, handle in handles_of(model):
        members = handle.pieces if handle.use_orig_params else [handle.flat_param]
        by_param.update(zip(map(id, members), _states_for(prefix, handle, given["state"])))
    result: dict = {"state": {}, "param_groups": []}
    number = 0
    for own in optim.param_groups:
        members = []
        for param in own["params"]:
            key = names[id(param)][0] if is_named_optimizer else number
            state = by_param.get(id(param))
            if state is None:
                state = {one: _whole(value) for one, value in given["state"].get(names[id(param)][0], {}).items()}
            if state:
                result["state"][key] = state
            members.append(key)
            number += 1
        saved = _group_with(given["param_groups"], names[id(own["params"][0])][0]) if own["params"] else {}
        kept = {key: value for key, value in own.items() if key != "params"}
        result["param_groups"].append({**kept, **saved, "params": members})
    return result
