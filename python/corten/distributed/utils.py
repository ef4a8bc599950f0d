"""What modules over several processes share: inputs on devices, equal states, memory given up for a while."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict

import corten
from corten._C import _distributed_c10d as native
from corten.nn.parallel.scatter_gather import is_namedtuple


def _pack_kwargs(*args, **kwargs):
    """All arguments as one tuple, and the names of the last ones."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args, kwarg_keys):
    """The opposite of :func:`_pack_kwargs`."""
    if len(kwarg_keys) > len(flat_args):
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    split = len(flat_args) - len(kwarg_keys)
    return flat_args[:split], dict(zip(kwarg_keys, flat_args[split:], strict=True))


def _cast_forward_inputs(dtype, *args, **kwargs):
    """Floating point tensors among the arguments in another dtype."""
    if dtype is None:
        return args, kwargs

    def cast(tensor):
        if not corten.is_floating_point(tensor) or tensor.dtype == dtype:
            return tensor
        return tensor.to(dtype)

    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _apply_to_tensors(fn, container):
    """A structure of the same form with every tensor replaced by ``fn(tensor)``."""

    def apply(value):
        if isinstance(value, corten.Tensor):
            return fn(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return dataclasses.replace(value, **{f.name: apply(getattr(value, f.name)) for f in fields})
        if isinstance(value, OrderedDict):
            changed = value.__class__()
            changed.update((key, apply(item)) for key, item in value.items())
            return changed
        if isinstance(value, dict):
            return {key: apply(item) for key, item in value.items()}
        if is_namedtuple(value):
            return type(value)(*(apply(item) for item in value))
        if isinstance(value, (list, tuple, set)):
            return type(value)(apply(item) for item in value)
        return value

    return apply(container)


def _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies):
    """A structure with its tensors on a device, in a tuple of one."""

    def moved(value):
        if isinstance(value, corten.Tensor):
            return [value if value.device == target_device else value.to(target_device)]
        if is_namedtuple(value):
            return [type(value)(*parts) for parts in zip(*map(moved, value))]
        if isinstance(value, tuple) and value:
            return list(zip(*map(moved, value)))
        if isinstance(value, list) and value:
            return [list(parts) for parts in zip(*map(moved, value))]
        if isinstance(value, dict) and value:
            return [type(value)(parts) for parts in zip(*map(moved, value.items()))]
        return [value]

    return moved(inputs)


def _to_kwargs(inputs, kwargs, target_device, use_side_stream_for_tensor_copies):
    """Arguments on a device: a tuple of positional ones, and one of named ones, with one entry each."""
    given = _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies) if inputs else []
    named = _recursive_to(kwargs, target_device, use_side_stream_for_tensor_copies) if kwargs else []
    given += [()] * (len(named) - len(given))
    named += [{}] * (len(given) - len(named))
    return tuple(given), tuple(named)


def _p_assert(cond, s, raise_assertion_error=True):
    """Fails with a printed trace: in backward passes exceptions may come out elsewhere."""
    if cond:
        return
    import sys
    import traceback

    print(s, file=sys.stderr)
    traceback.print_stack()
    if raise_assertion_error:
        raise AssertionError(s)


def _alloc_storage(tensor, size):
    """Gives a tensor without memory the memory for ``size``."""
    with corten.no_grad():
        numel = size.numel()
        if tensor._typed_storage()._size() == numel:
            return
        _p_assert(
            tensor._typed_storage()._size() == 0,
            "Tensor storage should have been resized to be 0 but got PLACEHOLDER",
        )
        tensor._typed_storage()._resize_(numel)


def _free_storage(tensor):
    """Gives the memory of a tensor back; it must be the only one in its storage."""
    with corten.no_grad():
        if tensor._typed_storage()._size() > 0:
            _p_assert(
                tensor.storage_offset() == 0,
                "Freeing a tensor's storage is unsafe when it is not the sole occupant\n"
                f"storage offset: {tensor.storage_offset()}\n"
                f"storage size: {tensor._typed_storage()._size()}\n"
                f"tensor shape: {tensor.shape}",
            )
            tensor._typed_storage()._resize_(0)


def _data_ptr_allocated(tensor):
    """Whether a tensor has memory."""
    return tensor.untyped_storage().data_ptr() > 0


def _verify_param_shape_across_processes(process_group, tensors, logger=None):
    """Fails unless all processes have equally many tensors, of the same sizes and strides."""
    return native._verify_params_across_processes(process_group, tensors, logger)


def _sync_module_states(
    module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore, broadcast_buffers=True
):
    """Makes the parameters and buffers of a module those of rank ``src`` on all."""
    states = [
        param.detach() for name, param in module.named_parameters()
        if name not in params_and_buffers_to_ignore
    ]
    if broadcast_buffers:
        states += [
            buffer.detach() for name, buffer in module.named_buffers()
            if name not in params_and_buffers_to_ignore
        ]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _sync_params_and_buffers(process_group, module_states, broadcast_bucket_size, src):
    """Makes tensors those of rank ``src`` on all."""
    if module_states:
        native._broadcast_coalesced(process_group, module_states, broadcast_bucket_size, src)


def _replace_by_prefix(state_dict, old_prefix, new_prefix):
    """Renames the keys that begin with a prefix, in place.

    Raises:
        ValueError: Both prefixes are the same.
    """
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix):]] = state_dict.pop(key)


def _get_root_modules(modules):
    """The modules that are not inside another one of the list, in its order."""
    inside = {child for module in modules for child in module.modules() if child is not module}
    return [module for module in modules if module not in inside]
