"""The state of optimizers under the names of parameters: flat dictionaries, and those of one optimizer of many."""

from __future__ import annotations

import corten

_PARAMS, _PG, _STATE = "params", "param_groups", "state"


def _init_optim_state(optim):
    """Gives an optimizer its state, by a step that changes no parameter."""
    parameters = [parameter for group in optim.param_groups for parameter in group[_PARAMS]]
    # With gradients the step would be a real one; optimizers without state never have one.
    if optim.state or any(parameter.grad is not None for parameter in parameters):
        return
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = corten.zeros_like(parameter)
    rates = [(group, group["lr"]) for group in optim.param_groups if "lr" in group]
    for group, rate in rates:
        group["lr"] = corten.tensor(0.0) if isinstance(rate, corten.Tensor) else 0.0
    optim.step(closure=None)
    for group, rate in rates:
        group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def _flattened(values, prefix):
    for key, value in values.items():
        name = f"{prefix}.{key}"
        if isinstance(value, dict):
            yield from _flattened(value, name)
        elif isinstance(value, (corten.Tensor, int, float)):
            yield name, value
        else:
            raise NotImplementedError(
                "Flattening optimizer state_dict only supports tensor, int, float, dict states now. "
                f"Type is {type(value)}."
            )


def _flatten_optim_state_dict(state_dict):
    """One dictionary with keys such as ``state.layer.weight.exp_avg`` and ``param_groups.layer.weight.lr``."""
    flat = {}
    for fqn, state in state_dict[_STATE].items():
        flat.update(_flattened(state, f"{_STATE}.{fqn}"))
    for group in state_dict[_PG]:
        for fqn in group[_PARAMS]:
            flat.update({f"{_PG}.{fqn}.{k}": v for k, v in group.items() if k != _PARAMS})
    return flat


def _nested(flat, prefix):
    """The value of a key, or the dictionaries that were flattened to keys that begin with it."""
    if prefix in flat:
        return flat[prefix]
    made: dict = {}
    for key, value in flat.items():
        if key.startswith(f"{prefix}."):
            *path, last = key[len(prefix) + 1:].split(".")
            place = made
            for part in path:
                place = place.setdefault(part, {})
            place[last] = value
    return made


def _used_names(names, is_used, shared):
    """The names of a parameter under which a dictionary has it; it may have one name of several."""
    return [name for name in names if name not in shared or is_used(name)]


def _unflatten_optim_state_dict(optim, state_dict, info):
    """The dictionary that :func:`_flatten_optim_state_dict` was given, as far as it is this optimizer's."""
    state, groups = {}, []
    for group in optim.param_groups:
        keys = [key for key in group if key != _PARAMS]
        taken = {_PARAMS: []}
        groups.append(taken)

        def is_used(name, keys=keys):
            return any(f"{_PG}.{name}.{key}" in state_dict for key in keys)

        for parameter in group[_PARAMS]:
            names = info.fqn_param_mapping[parameter]
            for fqn in _used_names(names, is_used, info.shared_params_mapping):
                taken[_PARAMS].append(fqn)
                if parameter.requires_grad:
                    state[fqn] = {
                        key: _nested(state_dict, f"{_STATE}.{fqn}.{key}")
                        for key in optim.state.get(parameter, {})
                    }
        for key in keys:
            for fqn in taken[_PARAMS]:
                value = state_dict[f"{_PG}.{fqn}.{key}"]
                if key in taken and taken[key] != value:
                    raise RuntimeError(
                        "All the parameters in the same parameter group should have the same saved "
                        f"param_group value. But {fqn}.{key} is {value} while other(s) is {taken[key]}."
                    )
                taken[key] = value
    return {_STATE: state, _PG: groups}


def _split_optim_state_dict(model, optim, optim_state_dict, info):
    """The part of a dictionary of several optimizers that is this optimizer's."""
    saved, saved_groups = optim_state_dict[_STATE], optim_state_dict[_PG]
    if all(isinstance(key, int) for key in saved) and (saved or not _named(saved_groups)):
        return optim_state_dict
    owner = {name: group for group in saved_groups for name in group[_PARAMS]}
    state, groups = {}, []
    for group in optim.param_groups:
        taken, sources = {_PARAMS: []}, []
        groups.append(taken)
        for parameter in group[_PARAMS]:
            names = info.fqn_param_mapping[parameter]
            for fqn in _used_names(names, owner.__contains__, info.shared_params_mapping):
                taken[_PARAMS].append(fqn)
                if fqn in owner:
                    sources.append(owner[fqn])
                if not parameter.requires_grad:
                    continue
                if fqn in saved:
                    state[fqn] = saved[fqn]
                elif info.strict and saved:
                    raise RuntimeError(
                        f"Missing optimizer state for parameter '{fqn}' in checkpoint. The parameter "
                        "requires gradients but has no saved optimizer state. To load anyway, use "
                        "StateDictOptions(strict=False)."
                    )
        if not group[_PARAMS]:
            sources = _empty_group(saved_groups, optim)
        for source in sources:
            taken.update({key: value for key, value in source.items() if key != _PARAMS})
    return {_STATE: state, _PG: groups}


def _named(groups):
    return any(isinstance(name, str) for group in groups for name in group[_PARAMS])


def _empty_group(saved_groups, optim):
    """The one saved group without parameters, for a group without parameters."""
    empty = [group for group in saved_groups if not group[_PARAMS]]
    if len(empty) != 1:
        raise ValueError(
            "There are param groups that have zero parameters. In such a case, DSD only support exactly "
            "one param group with zero parameters."
            "But the loaded state_dict has zero or more than one param groups that have zero parameters."
        )
    if len(saved_groups) != len(optim.param_groups):
        raise ValueError(
            "When there is a parameter group that has zero parameters, multiple optimizers are not "
            "supported."
        )
    return empty
