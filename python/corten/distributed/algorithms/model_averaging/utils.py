"""Averages of parameters over the ranks of a group."""

from __future__ import annotations

import corten
from corten.distributed import distributed_c10d as dist

__all__ = ["average_parameters", "get_params_to_average", "average_parameters_or_parameter_groups"]


def average_parameters(params, process_group):
    """Replaces parameters by their averages over a group, with one collective."""
    group = dist._group_or_default_group(process_group)
    if dist._rank_not_in_group(group):
        return
    params = list(params)
    if not params:
        return
    together = corten.cat([each.detach().reshape(-1) for each in params])
    together /= dist.get_world_size(group)
    if corten.accelerator.is_available():
        corten.accelerator.synchronize()
    dist.all_reduce(together, group=group)
    parts = together.split([each.numel() for each in params])
    for each, part in zip(params, parts, strict=True):
        each.data = part.view_as(each).to(each.dtype)


def get_params_to_average(params):
    """The parameters with a gradient, of a model's or of an optimizer's groups.

    Raises:
        NotImplementedError: What is given is neither.
    """
    found = []
    for each in params:
        if isinstance(each, dict):
            found += each["params"]
        elif isinstance(each, corten.nn.Parameter):
            found.append(each)
        else:
            raise NotImplementedError(f"Parameter input of type {type(each)} is not supported")
    return [each for each in found if each.grad is not None]


def average_parameters_or_parameter_groups(params, process_group):
    """:func:`average_parameters` of those with a gradient."""
    average_parameters(get_params_to_average(params), process_group)
