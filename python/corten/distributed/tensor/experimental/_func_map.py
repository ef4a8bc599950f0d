"""Functions of parts as functions of distributed tensors."""

from __future__ import annotations

import functools

import corten
from corten.distributed.tensor._api import DTensor
from corten.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["local_map"]


def _is_placements(value):
    return isinstance(value, (list, tuple)) and (not value or not isinstance(value[0], (list, tuple)))


def local_map(func=None, out_placements=None, in_placements=None, in_grad_placements=None, device_mesh=None, *,
              redistribute_inputs=False):
    """A function that runs `func` on the parts of this rank and gives its results `out_placements` (for each result a
    sequence of placements, None for what is no distributed tensor).

    `in_placements` are those that the arguments have to have; others are redistributed with `redistribute_inputs`
    and refused without. `in_grad_placements` are those of the arguments' gradients.

    Raises:
        ValueError: An argument has other placements than `in_placements`.
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh, redistribute_inputs=redistribute_inputs)

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        flat, tree = tree_flatten(args)
        mesh, local, distributed = device_mesh, [], False
        if in_placements is not None and len(in_placements) != len(flat):
            raise AssertionError(f"in_placements length {len(in_placements)} does not match the number of input args "
                                 f"{len(flat)}!")
        for i, one in enumerate(flat):
            if isinstance(one, DTensor):
                mesh, distributed = mesh or one.device_mesh, True
                gradients = in_grad_placements[i] if in_grad_placements is not None else None
                one = _checked_input(one, in_placements, i, mesh, redistribute_inputs)
                one = one.to_local(grad_placements=gradients)
            local.append(one)
        results = func(*tree_unflatten(local, tree), **kwargs)
        return _wrapped(results, out_placements, mesh) if distributed else results

    return mapped


def _checked_input(one, in_placements, i, mesh, redistribute_inputs):
    wanted = in_placements[i] if in_placements is not None else None
    if wanted is None or tuple(wanted) == one.placements:
        return one
    if not redistribute_inputs:
        raise ValueError(
            f"arg {one} in local_map has a mismatched placements: arg placements is {one.placements} but the input "
            f"placements is {wanted}! If redistribute_inputs is wanted, set redistribute_inputs=True to local_map.")
    return one.redistribute(mesh, wanted)


def _wrapped(results, out_placements, mesh):
    flat, tree = tree_flatten(results)
    several = [out_placements] * len(flat) if _is_placements(out_placements) else list(out_placements)
    if len(several) != len(flat):
        raise AssertionError("local_map requires one PlacementType be provided for each output value, received "
                             f"{len(several)} out_placements but {len(flat)} is expected!")
    made = []
    for one, placements in zip(flat, several):
        if isinstance(one, corten.Tensor) and placements is not None:
            one = DTensor.from_local(one, mesh, placements)
        made.append(one)
    return tree_unflatten(made, tree)
