"""Nested structures of tensors in parts on several GPUs, and together again."""

from __future__ import annotations

import corten

from ._functions import Gather, Scatter

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj):
    """Whether an object is a tuple with names."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs, target_gpus, dim=0):
    """A list with a structure for each GPU: tensors are split, everything else is the same object in all."""
    if isinstance(inputs, corten.Tensor):
        return list(Scatter.apply(target_gpus, None, dim, inputs))
    if isinstance(inputs, (list, tuple, dict)) and len(inputs) > 0:
        values = inputs.items() if isinstance(inputs, dict) else inputs
        parts = list(zip(*(scatter(value, target_gpus, dim) for value in values)))
        if is_namedtuple(inputs):
            return [type(inputs)(*part) for part in parts]
        if isinstance(inputs, tuple):
            return parts
        return [type(inputs)(part) for part in parts]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """Positional and named arguments for each GPU."""
    given = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(given), len(named))
    given += [()] * (count - len(given))
    named += [{} for _ in range(count - len(named))]
    return tuple(given), tuple(named)


def gather(outputs, target_device, dim=0):
    """The structures of several GPUs as one, on one of them or on the host (-1)."""
    first = outputs[0]
    if isinstance(first, corten.Tensor):
        return Gather.apply(target_device, dim, *outputs)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(output) != len(first) for output in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    together = [gather(place, target_device, dim) for place in zip(*outputs)]
    return type(first)(*together) if is_namedtuple(first) else type(first)(together)
