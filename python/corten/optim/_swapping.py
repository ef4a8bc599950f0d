"""Another set of parameters and state in an optimizer, for a while."""

from __future__ import annotations

import contextlib


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(optimizer, swapin_parameters, swapin_optim_state):
    """A context in which ``optimizer`` acts on other tensors, in the order of its parameters, with
    the state and the settings of a dictionary such as its ``state_dict()``. What was there comes
    back at the end; the tensors that were swapped in keep what was written to them.

    Raises:
        RuntimeError: The optimizer has no state yet, or the parts do not fit it.
    """
    if not optimizer.state:
        raise RuntimeError("swap_in_optimizer_params_and_state requires initialized optimizer state.")
    groups, state = optimizer.param_groups, optimizer.state
    swapped_groups, swapped_state = _swapped(groups, swapin_parameters, swapin_optim_state, state)
    settings = [dict(group) for group in groups]
    try:
        for group, other in zip(groups, swapped_groups):
            group.clear()
            group.update(other)
        optimizer.state = swapped_state
        yield
    finally:
        for group, before in zip(groups, settings):
            group.clear()
            group.update(before)
        optimizer.state = state


def _swapped(groups, parameters, optim_state, state):
    given = optim_state["param_groups"]
    if len(given) != len(groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    tensors = iter(parameters.values())
    found, numbered = [], {}
    for group, other in zip(groups, given):
        if len(other["params"]) != len(group["params"]):
            raise RuntimeError(
                "swapin_optim_state has parameter groups of other lengths than the live optimizer."
            )
        members = [tensor for _, tensor in zip(group["params"], tensors)]
        if len(members) != len(group["params"]):
            raise RuntimeError(
                "swap_in_optimizer_params_and_state requires the explicit parameter state to match "
                "optimizer.param_groups ordering."
            )
        numbered.update(zip(other["params"], members))
        found.append({**group, **other, "params": members})
    swapped = type(state)(*([state.default_factory] if hasattr(state, "default_factory") else []))
    for number, tensor in numbered.items():
        swapped[tensor] = {}
    for number, entry in optim_state["state"].items():
        if not isinstance(entry, dict):
            raise RuntimeError(
                "swap_in_optimizer_params_and_state requires per-parameter optimizer state entries "
                "to be dictionaries."
            )
        if number in numbered:
            # A dictionary of its own: only what is written into tensors goes back.
            swapped[numbered[number]] = dict(entry)
    return found, swapped

