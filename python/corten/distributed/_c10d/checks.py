"""What the collectives ask of their arguments, in PyTorch's words, and what they do with results."""

from __future__ import annotations

import warnings

import corten
from corten._C._distributed_c10d import ProcessGroup, ReduceOp, Work
from corten.distributed._c10d.world import _get_default_group
from corten.overrides import handle_torch_function, has_torch_function

_NOT_OF_COMPLEX = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def supports_complex(reduceOp):  # noqa: N803
    """Whether a reduction of complex numbers is that of their parts."""
    return reduceOp not in _NOT_OF_COMPLEX


def _check_single_tensor(param, param_name):
    if not isinstance(param, corten.Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{param_name}` of type torch.Tensor\n"
            f"             but got {type(param)} instead."
        )


def _check_tensor_list(param, param_name):
    if not isinstance(param, list):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{param_name}` of type List[torch.Tensor]\n"
            f"             but got {type(param)} instead."
        )
    if not all(isinstance(each, corten.Tensor) for each in param):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{param_name}` of type List[torch.Tensor]\n"
            f"             but got {type(param)} with elements of type {[type(each) for each in param]}."
        )


def _as_iterable(obj):
    return obj if isinstance(obj, list) else (obj,)


def _ensure_all_tensors_same_dtype(*tensors):
    last = None
    for group in tensors:
        for tensor in _as_iterable(group):
            # Complex numbers travel as pairs of their parts.
            dtype = tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype
            if last is not None and dtype != last:
                raise ValueError(f"Invalid usage of tensors with different dtypesFound {last} and  {dtype}")
            last = dtype


def _check_reduction(name, tensors, op):
    if any(tensor.is_complex() for tensor in tensors) and not supports_complex(op):
        raise ValueError(f"{name} does not support {op} on complex tensors")


def as_real(tensor):
    """A tensor, of complex numbers the view of their parts."""
    return corten.view_as_real(tensor) if tensor.is_complex() else tensor


def all_as_real(tensors):
    """As :func:`as_real`, of each."""
    return [as_real(tensor) for tensor in tensors]


def ended(work, async_op):
    """What a collective gives back: its work, or nothing once it is done."""
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


def ended_as_future(work, async_op):
    """As :func:`ended`, with a future in place of the work."""
    return work.get_future() if async_op else ended(work, False)


def _get_object_coll_device(group=None):
    """The type of device whose back end carries objects: the CPU, if the group has it."""
    group = _get_default_group() if group is None else group
    if not isinstance(group, ProcessGroup):
        warnings.warn(
            f"You are using a Backend {type(group)} as a ProcessGroup. This usage is deprecated since "
            "PyTorch 2.0. Please use a public API of PyTorch Distributed instead.",
            stacklevel=3,
        )
        return "cpu"
    kinds = [device.type for device in group._device_types]
    return "cpu" if "cpu" in kinds or not kinds else kinds[0]


def _get_pg_default_device(group=None):
    warnings.warn(
        "`_get_pg_default_device` will be deprecated, it only stays for backward-compatibility reason. If you "
        "need to find a device for object collectives, please use `_get_object_coll_device`. If you need to "
        "query the device types supported by group, please use `_device_capability(group)`. ",
        stacklevel=2,
    )
    group = _get_default_group() if group is None else group
    if not isinstance(group, ProcessGroup):
        return corten.device("cpu")
    devices = group._device_types
    if not devices:
        raise RuntimeError(
            "Default device not found, because no backend has been registered with this ProcessGroup."
        )
    if len(devices) == 1:
        return devices[0]
    chosen = corten.device("cpu") if corten.device("cpu") in devices else devices[0]
    warnings.warn(
        "Multiple backends are registered with this ProcessGroup. We cannot determine which one is the "
        f"default. Returning {chosen}. Please consider using other APIs.",
        stacklevel=2,
    )
    return chosen


def _device_capability(group=None):
    group = _get_default_group() if group is None else group
    return [device.type for device in group._device_types]


class _IllegalWork(Work):
    """What a collective gives back whose call waits for the end of a coalescing block."""

    _REFUSED = frozenset(
        ["is_success", "exception", "wait", "source_rank", "_source_rank", "result", "synchronize"]
    )

    def __getattribute__(self, name):
        if name in _IllegalWork._REFUSED:
            raise ValueError(f"Illegal to call {name} on IllegalWork object")
        return super().__getattribute__(name)


__all__ = ["handle_torch_function", "has_torch_function"]
