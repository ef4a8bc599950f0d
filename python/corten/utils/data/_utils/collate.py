"""Samples to batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence

import corten
from corten import _utils

from .slots import WorkerSlots

_ERROR = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _numpy_kind(value):
    """"array" or "scalar" for numpy's values, without importing numpy."""
    kind = type(value)
    if kind.__module__ != "numpy":
        return None
    return "array" if kind.__name__ in ("ndarray", "memmap") else "scalar"


def _text_dtype(value):
    return value.dtype.kind in "SaUO"


def default_convert(data):
    """Arrays in a nested structure to tensors; other leaves stay."""
    kind = _numpy_kind(data)
    if isinstance(data, corten.Tensor):
        return data
    if kind is not None:
        return data if _text_dtype(data) else corten.as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt_sequence(data, [default_convert(item) for item in data])
    return data


def _rebuilt_mapping(like, items):
    """`items` in a mapping of the class of `like`, if that can be made."""
    try:
        if isinstance(like, MutableMapping):
            made = copy.copy(like)
            made.update(items)
            return made
        return type(like)(items)
    except TypeError:
        return items


def _rebuilt_sequence(like, items):
    try:
        if isinstance(like, MutableSequence):
            made = copy.copy(like)
            for i, item in enumerate(items):
                made[i] = item
            return made
        return type(like)(items)
    except TypeError:
        return items


def _lookup(kinds, value):
    if type(value) in kinds:
        return kinds[type(value)]
    return next((fn for kind, fn in kinds.items() if isinstance(value, kind)), None)


def collate(batch, *, collate_fn_map=None):
    """Batches nested samples; ``collate_fn_map`` says how for each class of leaf."""
    first = batch[0]
    kinds = default_collate_fn_map if collate_fn_map is None else collate_fn_map
    fn = _lookup(kinds, first)
    if fn is not None:
        return fn(batch, collate_fn_map=kinds)
    if kinds is default_collate_fn_map:
        kind = _numpy_kind(first)
        if kind is not None:
            return _collate_numpy(batch, first, kind)
    again = lambda values: collate(values, collate_fn_map=kinds)  # noqa: E731
    if isinstance(first, Mapping):
        items = {key: again([sample[key] for sample in batch]) for key in first}
        return _rebuilt_mapping(first, items)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(again(values) for values in zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [again(values) for values in zip(*batch)]
        return columns if isinstance(first, tuple) else _rebuilt_sequence(first, columns)
    raise TypeError(_ERROR.format(type(first)))


def _collate_numpy(batch, first, kind):
    if kind == "scalar":
        return corten.as_tensor(batch)
    if _text_dtype(first):
        raise TypeError(_ERROR.format(first.dtype))
    return collate([corten.as_tensor(array) for array in batch])


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Stacks tensors; in a worker, where the loader will read them."""
    slots = WorkerSlots.current
    out = None if slots is None else _room(batch, slots)
    if out is None:
        return corten.stack(batch, 0)
    if out.dim() == 1:
        return corten.stack(batch, 0, out=out)
    # The same elements as those of a stack; samples are copied as blocks to where they are to be.
    corten.cat(batch, 0, out=out.flatten(0, 1))
    return out


def _room(batch, slots):
    """An empty tensor for a stack in a slot, or None where there is none or the stack is more than elements."""
    first = batch[0]
    kind, dtype, shape = type(first), first.dtype, first.shape
    same = all(
        type(one) is kind and one.dtype == dtype and one.shape == shape and one.layout is corten.strided
        and one.device.type == "cpu" and not one.requires_grad and not one.is_quantized
        for one in batch
    )
    if not same or kind is not corten.Tensor or first.has_names():
        return None
    storage = slots.take(len(batch) * first.numel() * first.element_size())
    if storage is None:
        return None
    sizes = (len(batch), *shape)
    strides = [1] * len(sizes)
    for dim in range(len(sizes) - 1, 0, -1):
        strides[dim - 1] = strides[dim] * sizes[dim]
    return _utils.strided_over(corten.empty((0,), dtype=dtype), storage, 0, sizes, tuple(strides))


def collate_float_fn(batch, *, collate_fn_map=None):
    """A float64 tensor of floats."""
    return corten.tensor(batch, dtype=corten.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """A tensor of whole numbers."""
    return corten.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Strings stay a list."""
    return batch


default_collate_fn_map = {
    corten.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch):
    """Stacks tensors, arrays and numbers leaf by leaf."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
