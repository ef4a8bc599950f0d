"""Averages of parameters."""

from __future__ import annotations

import corten
import corten.distributed as dist

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params, process_group):
    """Replaces parameters by their averages over the processes."""
    group = process_group if process_group is not None else dist.group.WORLD
    if dist._rank_not_in_group(group):
        return
    params = list(params)
    if not params:
        return
    flat = corten.cat([param.data.reshape(-1) for param in params])
    flat /= dist.get_world_size(group)
    dist.all_reduce(flat, group=group)
    start = 0
    for param in params:
        param.data = flat[start:start + param.numel()].view_as(param).type_as(param)
        start += param.numel()


def get_params_to_average(params):
    """The parameters that have gradients, of a list of parameters or of an optimizer's groups."""
    found = []
    for entry in params:
        if isinstance(entry, corten.nn.Parameter):
            members = [entry]
        elif isinstance(entry, dict):
            members = entry["params"]
        else:
            raise NotImplementedError(f"Parameter input of type {type(entry)} is not supported")
        found += [param for param in members if param.grad is not None]
    return found


def average_parameters_or_parameter_groups(params, process_group):
    """Averages the parameters that have gradients."""
    average_parameters(get_params_to_average(params), process_group)
