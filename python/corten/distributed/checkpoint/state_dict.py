"""State dictionaries of models and optimizers with names that do not depend on how they were wrapped."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any, Union

import corten
import corten.distributed as dist
from corten import nn
from corten.distributed._state_dict_utils import (
    _broadcast_state_dict, _distribute_state_dict, _flatten_state_dict, _gather_state_dict,
    _offload_state_dict_to_cpu, _unflatten_state_dict,
)
from corten.distributed.checkpoint import _flat_models
from corten.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX

from ._optimizer_names import (
    _flatten_optim_state_dict, _init_optim_state, _split_optim_state_dict, _unflatten_optim_state_dict,
)

__all__ = [
    "FQNS_T", "PrimitiveType", "ValueType", "DictValueType", "ListDictValueType", "OptimizerStateType",
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]

_CHECKPOINT_PREFIX = "_checkpoint_wrapped_module."
_PARAMS, _PG, _STATE = "params", "param_groups", "state"

FQNS_T = set[str]
PrimitiveType = Union[corten.Tensor, int, float, str]
ValueType = Union[PrimitiveType, list[PrimitiveType], tuple[PrimitiveType, ...], dict[str, Any]]
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, Union[DictValueType, ListDictValueType]]

_patched_state_dict: set = set()


@dataclass
class StateDictOptions:
    """How dictionaries are made and taken.

    Attributes:
        full_state_dict: Spread tensors are whole in the dictionary.
        cpu_offload: Tensors are on the CPU; with ``full_state_dict`` the first process alone gets them.
        ignore_frozen_params: Parameters that need no gradient are left out.
        keep_submodule_prefixes: Keys of submodules begin with the submodule's name.
        strict: As of ``load_state_dict``.
        broadcast_from_rank0: The first process has the (full) dictionary and sends it to the others.
        flatten_optimizer_state_dict: The state of an optimizer is one flat dictionary.
        dsd_fqn_modifiers: The method of modules that says which names are not in their dictionaries.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


@dataclass
class _StateDictInfo(StateDictOptions):
    fqn_param_mapping: dict = field(default_factory=dict)
    shared_params_mapping: dict = field(default_factory=dict)
    submodule_prefixes: set = field(default_factory=set)
    handle_model: bool = True
    handle_optim: bool = True


@contextlib.contextmanager
def _gc_context():
    """Without the collector of cycles, which would run in one process while others wait for it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _wrapper_name(module):
    """The name under which a wrapper has what it wraps: ``module``, ``_fsdp_wrapped_module``, ``_orig_mod``, or
    nothing."""
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return "module"
    if "_fsdp_wrapped_module" in module._modules:
        return "_fsdp_wrapped_module"
    return "_orig_mod" if "_orig_mod" in module._modules else None


def _get_fqns(
    model, name, dsd_fqn_modifiers="_fqn_modifiers", skip_ddp_prefix=True, skip_compiler_prefix=True
):
    """The names of a parameter without those of wrappers, as a set of one."""
    name = name.replace(_CHECKPOINT_PREFIX, "")
    parts = name.split(".")
    kept, place = [], model
    for i, part in enumerate(parts):
        wrapped = _wrapper_name(place) if isinstance(place, nn.Module) else None
        if wrapped is not None and part == wrapped:
            place = getattr(place, wrapped)
            skipped = {"module": skip_ddp_prefix, "_orig_mod": skip_compiler_prefix}
            if not skipped.get(wrapped, True):
                kept.append(part)
            continue
        if hasattr(place, dsd_fqn_modifiers):
            removed = getattr(place, dsd_fqn_modifiers)().get(part)
            if removed and hasattr(place, removed):
                place = getattr(place, removed)
        kept.append(part)
        if part == _EXTRA_STATE_KEY_SUFFIX:
            if i != len(parts) - 1:
                raise RuntimeError("Expect `_extra_state` to be the last obj name")
        elif i != len(parts) - 1:
            place = getattr(_unwrapped(place), part)
    return {".".join(kept)}


def _unwrapped(module):
    """What is inside wrappers of activation checkpointing, whose names keys do not have."""
    inner = getattr(module, "_modules", {}).get(_CHECKPOINT_PREFIX[:-1])
    return module if inner is None else inner


class _EXTRA_STATE:  # noqa: N801
    """Stands for the extra state of a module."""


def _iterate_valid_model_state(model, dsd_fqn_modifiers="_fqn_modifiers"):
    """The names and values that the state dictionary of a model has."""
    visited = set()

    def visit(module, prefix):
        visited.add(module)
        start = f"{prefix}." if prefix else ""
        hidden = getattr(module, dsd_fqn_modifiers)().values() if hasattr(module, dsd_fqn_modifiers) else ()
        for name, child in module.named_children():
            if child not in visited:
                yield from visit(child, prefix if name in hidden else f"{start}{name}")
        values = itertools.chain(
            module.named_buffers(recurse=False), module.named_parameters(recurse=False)
        )
        for name, value in values:
            if name not in module._non_persistent_buffers_set:
                yield f"{start}{name}", value
        if getattr(type(module), "get_extra_state", None) is not nn.Module.get_extra_state:
            yield f"{start}{_EXTRA_STATE_KEY_SUFFIX}", _EXTRA_STATE()

    yield from visit(model, "")


def _verify_options(model, optims, optim_only, *, submodules=None, options=None):
    """The options with the names of the model's parameters."""
    if submodules:
        warnings.warn(
            "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. "
            "This feature can be achieved by manually filtering out the state_dict returned from "
            "get_state_dict.", FutureWarning, stacklevel=3,
        )
    if optim_only and not optims:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    names, shared = _names_of(model)
    prefixes = set()
    for name, module in model.named_modules():
        if submodules and module in submodules:
            prefixes.update(f"{fqn}." for fqn in _get_fqns(model, name))
    return _StateDictInfo(
        **asdict(options), fqn_param_mapping=names, shared_params_mapping=shared,
        submodule_prefixes=prefixes, handle_model=not optim_only, handle_optim=bool(optims),
    )


def _names_of(model):
    """The names of each value and the value of each name, of all and of those that have several names."""
    names, shared = {}, {}
    for name, value in _iterate_valid_model_state(model):
        if isinstance(value, _EXTRA_STATE):
            continue
        fqns = _get_fqns(model, name)
        if value in names:
            names[value].update(fqns)
            shared[value] = names[value]
        else:
            names[value] = fqns
        names.update(dict.fromkeys(fqns, value))
    for value, fqns in list(shared.items()):
        shared.update(dict.fromkeys(fqns, value))
    return names, shared


def _verify_state_dict(model_state_dict, optim_state_dict, info):
    elsewhere = (info.cpu_offload and info.full_state_dict) or info.broadcast_from_rank0
    if (
        info.handle_model and not model_state_dict and not info.submodule_prefixes
        and not info.ignore_frozen_params and info.strict and not elsewhere
    ):
        raise RuntimeError(
            "The option indicates that model state_dict is required to save or load, but model "
            "state_dict is empty."
        )
    if info.handle_optim and not optim_state_dict and not elsewhere:
        raise RuntimeError(
            "The option indicates that model state_dict is required to save, or load but optim "
            f"state_dict is empty. {optim_state_dict}"
        )


def _state_dict_fn(obj, api):
    """A method of a model or optimizer, or that which was there before :func:`_patch_model_state_dict`."""
    call = getattr(obj, api)
    if call in _patched_state_dict:
        call = functools.partial(getattr(type(obj), api), obj)
    return call


def _maybe_full_or_cpu_state_dict(state_dict, info):
    if info.full_state_dict:
        ranks = (0,) if info.cpu_offload and dist.is_initialized() else ()
        return _gather_state_dict(state_dict, cpu_offload=info.cpu_offload, ranks_only=ranks)
    return _offload_state_dict_to_cpu(state_dict) if info.cpu_offload else state_dict


def _get_model_state_dict(model, info):
    if not info.handle_model:
        return {}
    call = _state_dict_fn(model, "state_dict")
    state_dict = dict(_flat_models.model_states(model, call) if _flat_models.is_flat(model) else call())
    renamed = {}
    for key, value in state_dict.items():
        (fqn,) = _get_fqns(model, key, info.dsd_fqn_modifiers)
        renamed[fqn] = value
    state_dict = renamed
    if info.submodule_prefixes:
        state_dict = {
            key if info.keep_submodule_prefixes else key[len(prefix):]: value
            for key, value in state_dict.items() for prefix in info.submodule_prefixes
            if key.startswith(prefix)
        }
    if info.ignore_frozen_params:
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                for fqn in _get_fqns(model, name):
                    state_dict.pop(fqn, None)
    return _maybe_full_or_cpu_state_dict(state_dict, info)


@corten.no_grad()
def _load_model_state_dict(model, state_dict, info):
    if not info.handle_model or (not state_dict and not info.broadcast_from_rank0):
        return nn.modules.module._IncompatibleKeys([], [])
    if _flat_models.is_flat(model):
        return _flat_models.load_model(model, _state_dict_fn(model, "load_state_dict"), state_dict, info)
    state_dict, local = dict(state_dict), {}
    for key, value in _iterate_valid_model_state(model, info.dsd_fqn_modifiers):
        (fqn,) = _get_fqns(model, key, info.dsd_fqn_modifiers)
        (wrapped,) = _get_fqns(
            model, key, info.dsd_fqn_modifiers, skip_ddp_prefix=False, skip_compiler_prefix=False
        )
        if fqn != wrapped and (not info.broadcast_from_rank0 or dist.get_rank() == 0):
            if fqn in state_dict:
                state_dict[wrapped] = state_dict.pop(fqn)
            elif info.strict:
                raise RuntimeError(f"Missing key: {fqn}.")
        local[wrapped] = value
    assign = False
    if info.full_state_dict:
        assign = _spread_state_dict(state_dict, local, info)
        state_dict.update(local)
    return _state_dict_fn(model, "load_state_dict")(state_dict, strict=info.strict, assign=assign)


def _spread_state_dict(state_dict, local, info):
    """Takes the values of ``local`` from a dictionary of whole tensors; whether some had no memory yet."""
    devices = {v.device for v in local.values() if isinstance(v, corten.Tensor) and v.dim() > 0}
    assign = corten.device("meta") in devices
    devices.discard(corten.device("meta"))
    if not devices:
        initialized = dist.is_available() and dist.is_initialized()
        devices.add(dist.distributed_c10d._get_pg_default_device() if initialized else corten.device("cpu"))
    if len(devices) > 1:
        raise ValueError("Multiple devices found")
    device = devices.pop()
    if info.broadcast_from_rank0:
        _broadcast_state_dict(
            state_dict, local, device=device, strict=info.strict, cpu_offload=info.cpu_offload
        )
    else:
        given = dict(local)
        _distribute_state_dict(state_dict, local, device=device)
        if info.strict:
            # What the dictionary has not is not to be taken for what it gives.
            for key in set(given) - set(state_dict):
                local.pop(key)
    return assign


@corten.no_grad()
def _get_optim_state_dict(model, optimizers, info):
    if not info.handle_optim:
        return {}
    merged = {_STATE: {}, _PG: []}
    for optimizer in optimizers:
        _init_optim_state(optimizer)
        if _flat_models.is_flat(model):
            given = _flat_models.optimizer_states(model, optimizer, info)
            merged[_STATE].update(given[_STATE])
            merged[_PG] += given[_PG]
            continue
        given = _state_dict_fn(optimizer, "state_dict")()
        numbers = {
            parameter: i
            for i, parameter in enumerate(p for group in optimizer.param_groups for p in group[_PARAMS])
        }
        names = {}
        for key, parameter in model.named_parameters():
            if parameter in numbers:
                (names[numbers[parameter]],) = _get_fqns(model, key)
        merged[_STATE].update({names[i]: state for i, state in given[_STATE].items()})
        merged[_PG] += [
            {**group, _PARAMS: [names[i] for i in group[_PARAMS]]} for group in given[_PG]
        ]
    if info.flatten_optimizer_state_dict:
        merged = _flatten_optim_state_dict(merged)
    return _maybe_full_or_cpu_state_dict(merged, info)


@corten.no_grad()
def _load_optim_state_dict(model, optimizers, state_dict, info):
    if not info.handle_optim:
        return
    for optimizer in optimizers:
        _init_optim_state(optimizer)
        if _flat_models.is_flat(model):
            taken = _flat_models.load_optimizer(model, optimizer, state_dict, info)
            _state_dict_fn(optimizer, "load_state_dict")(taken)
            continue
        taken = {}
        if state_dict and _STATE in state_dict:
            taken = _split_optim_state_dict(model, optimizer, state_dict, info)
        elif state_dict:
            taken = _unflatten_optim_state_dict(optimizer, state_dict, info)
        if info.full_state_dict:
            taken = _spread_optim_state_dict(model, optimizer, taken, info)
        _state_dict_fn(optimizer, "load_state_dict")(taken)


def _spread_optim_state_dict(model, optimizer, taken, info):
    """The state of an optimizer with tensors spread as they are there, from one of whole tensors."""
    plain = _StateDictInfo(**{**vars(info), "full_state_dict": False, "cpu_offload": False,
                              "flatten_optimizer_state_dict": False})
    local = _get_optim_state_dict(model, (optimizer,), plain)
    flat, paths = _flatten_state_dict(taken) if taken else ({}, {})
    local_flat, local_paths = _flatten_state_dict(local)
    devices = {v.device for v in local_flat.values() if isinstance(v, corten.Tensor) and v.dim() > 0}
    if len(devices) > 1:
        raise ValueError("Device mismatch")
    device = devices.pop() if devices else corten.device("cpu")
    if info.broadcast_from_rank0:
        _broadcast_state_dict(flat, local_flat, device=device)
    else:
        _distribute_state_dict(flat, local_flat, device=device)
    for key in flat:
        if key not in local_flat:
            local_flat[key], local_paths[key] = flat[key], paths[key]
    spread = _unflatten_state_dict(local_flat, local_paths)
    spread.setdefault(_STATE, {})
    for group in spread[_PG]:
        group.setdefault(_PARAMS, [])
    return spread


def _as_tuple(optimizers):
    return (optimizers,) if isinstance(optimizers, corten.optim.Optimizer) else tuple(optimizers)


def get_model_state_dict(model, *, submodules=None, options=None):
    """The state dictionary of a model, without the names of wrappers.

    Args:
        model: The model.
        submodules: Only what these modules have; deprecated.
        options: See :class:`StateDictOptions`.
    """
    with _gc_context():
        info = _verify_options(model, (), False, submodules=submodules, options=options)
        state_dict = _get_model_state_dict(model, info)
        _verify_state_dict(state_dict, {}, info)
        return state_dict


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """The state of optimizers as one dictionary, with the names of parameters in place of numbers.

    Where an optimizer has no state yet it gets one, by a step with gradients of zero and without a rate.
    """
    with _gc_context():
        optimizers = _as_tuple(optimizers)
        info = _verify_options(model, optimizers, True, submodules=submodules, options=options)
        state_dict = _get_optim_state_dict(model, optimizers, info)
        _verify_state_dict({}, state_dict, info)
        return state_dict


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """The dictionaries of :func:`get_model_state_dict` and :func:`get_optimizer_state_dict`."""
    with _gc_context():
        optimizers = _as_tuple(optimizers)
        info = _verify_options(model, optimizers, False, submodules=submodules, options=options)
        state_dict = _get_model_state_dict(model, info)
        optim_state_dict = _get_optim_state_dict(model, optimizers, info)
        _verify_state_dict(state_dict, optim_state_dict, info)
        return state_dict, optim_state_dict


def _unflatten_model_state_dict(model, state_dict):
    """A dictionary of modules' dictionaries as one of the model."""
    if not state_dict or not isinstance(next(iter(state_dict)), nn.Module):
        return state_dict
    warnings.warn(
        "Passing model_state_dict as a ``Dict[nn.Module, Dict[str, Any]]``is deprecated and will be "
        "removed in 2.5.", FutureWarning, stacklevel=3,
    )
    whole = {}
    for module, part in state_dict.items():
        for name, found in model.named_modules():
            if found is module:
                (fqn,) = _get_fqns(model, name) if name else ("",)
                whole.update({f"{fqn}.{key}" if fqn else key: value for key, value in part.items()})
    return whole


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Loads what :func:`get_model_state_dict` gave.

    Returns:
        The missing and the unexpected keys.
    """
    model_state_dict = _unflatten_model_state_dict(model, model_state_dict)
    with _gc_context():
        info = _verify_options(model, (), False, options=options)
        _verify_state_dict(model_state_dict, {}, info)
        return _load_model_state_dict(model, model_state_dict, info)


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Loads what :func:`get_optimizer_state_dict` gave."""
    with _gc_context():
        optimizers = _as_tuple(optimizers)
        info = _verify_options(model, optimizers, True, options=options)
        _verify_state_dict({}, optim_state_dict, info)
        _load_optim_state_dict(model, optimizers, optim_state_dict, info)


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """Loads what :func:`get_state_dict` gave.

    Returns:
        The missing and the unexpected keys of the model.
    """
    model_state_dict = _unflatten_model_state_dict(model, model_state_dict)
    with _gc_context():
        optimizers = _as_tuple(optimizers)
        info = _verify_options(model, optimizers, not model_state_dict, options=options)
        _verify_state_dict(model_state_dict, optim_state_dict, info)
        _load_optim_state_dict(model, optimizers, optim_state_dict, info)
        return _load_model_state_dict(model, model_state_dict, info)


def _patch_model_state_dict(model, *, options=None):
    """Lets the model's own ``state_dict`` and ``load_state_dict`` be the functions here."""
    get = functools.partial(get_model_state_dict, model=model, options=options)
    put = functools.partial(set_model_state_dict, model=model, options=options)
    _patch(model, lambda *args, **kwargs: get(), lambda state_dict, *args, **kwargs: put(
        model_state_dict=state_dict))


def _patch_optimizer_state_dict(model, *, optimizers, options=None):
    """Lets the optimizers' own ``state_dict`` and ``load_state_dict`` be the functions here."""
    optimizers = _as_tuple(optimizers)
    get = functools.partial(get_optimizer_state_dict, model, optimizers, options=options)
    put = functools.partial(set_optimizer_state_dict, model, optimizers, options=options)
    for optimizer in optimizers:
        _patch(optimizer, lambda *args, **kwargs: get(), lambda state_dict, *args, **kwargs: put(
            optim_state_dict=state_dict))


def _patch(obj, get, put):
    obj.state_dict, obj.load_state_dict = get, put
    _patched_state_dict.update((get, put))
