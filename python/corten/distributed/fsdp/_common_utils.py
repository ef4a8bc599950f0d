"""Names of wrapped modules and of their parameters."""

from __future__ import annotations

from ._fully_shard._fsdp_state import _get_module_fsdp_state as _state_of

__all__: list = []

FSDP_WRAPPED_MODULE = "_fsdp_wrapped_module"
FSDP_PREFIX = FSDP_WRAPPED_MODULE + "."
FSDP_FLATTENED = "_fsdp_flattened"
_CHECKPOINT_PREFIX = "_checkpoint_wrapped_module."


def clean_tensor_name(tensor_name):
    """A parameter's name as it was before modules were wrapped."""
    return tensor_name.replace(FSDP_PREFIX, "").replace(_CHECKPOINT_PREFIX, "")


def _get_module_fsdp_state(module):
    """The state of a ``FullyShardedDataParallel``, or nothing."""
    from ._runtime_utils import FlatState

    state = _state_of(module)
    return state if isinstance(state, FlatState) else None


def _is_fsdp_flattened(tensor):
    """Whether a parameter is part of a flat one."""
    return getattr(tensor, FSDP_FLATTENED, False)


def handles_of(model):
    """The flat parameters below a model with the names of the modules that have them, in order."""
    found = []
    for name, module in model.named_modules():
        state = _get_module_fsdp_state(module)
        if state is not None and state.handle is not None:
            prefix = clean_tensor_name(f"{name}.") if name else ""
            found.append((prefix, state.handle))
    return found


def _get_param_to_fqns(model, dedup_shared_params=True):
    """Clean names by parameters; of a flat one those of all that are part of it."""
    from ._flat_param import FLAT_PARAM

    flat = {id(handle.flat_param): (prefix, handle) for prefix, handle in handles_of(model)}
    found: dict = {}
    for name, param in model.named_parameters(remove_duplicate=False):
        if name.rpartition(".")[2] == FLAT_PARAM and id(param) in flat:
            prefix, handle = flat[id(param)]
            names = [prefix + place.fqn for place in handle.places]
        else:
            names = [clean_tensor_name(name)]
        known = found.setdefault(param, [])
        if not (known and dedup_shared_params):
            known.extend(names)
    return found
