"""Copies of tensors between GPUs: to all of them, in parts, and back."""

from __future__ import annotations

import corten
from corten.cuda._utils import _get_device_index

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _on(tensor, index):
    """The tensor on a GPU, or on the host for -1."""
    return tensor.to("cpu" if index < 0 else corten.device("cuda", index), non_blocking=True)


def broadcast(tensor, devices=None, *, out=None):
    """Copies of a tensor on GPUs.

    Args:
        tensor: The tensor, on the host or on a GPU.
        devices: The GPUs; the tensor's own must come first.
        out: Tensors to copy to instead.
    """
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    if out is not None:
        for target in out:
            target.copy_(tensor, non_blocking=True)
        return tuple(out)
    return tuple(_on(tensor, _get_device_index(device)) for device in devices)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    """Copies of several tensors on GPUs: a list for each GPU."""
    return [[_on(tensor, _get_device_index(device)) for tensor in tensors] for device in devices]


def reduce_add(inputs, destination=None):
    """The sum of tensors of several GPUs, on one of them."""
    index = _get_device_index(destination, optional=True)
    for place, one in enumerate(inputs):
        if one.device.type == "cpu":
            raise AssertionError(f"reduce_add expects all inputs to be on GPUs, but input {place} is on CPU")
        if one.size() != inputs[0].size():
            got, expected = ("x".join(map(str, tensor.size())) for tensor in (one, inputs[0]))
            raise ValueError(f"input {place} has invalid size: got {got}, but expected {expected}")
    if all(one.get_device() != index for one in inputs):
        raise RuntimeError(
            "reduce_add expects destination to be on the same GPU with one of the tensors"
        )
    if len(inputs) == 1:
        return inputs[0]
    total = _on(inputs[0], index) + _on(inputs[1], index)
    for one in inputs[2:]:
        total += _on(one, index)
    return total


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    """The sums of the tensors at each place of several lists, one list for each GPU."""
    return tuple(reduce_add(place, destination) for place in zip(*inputs))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    """Parts of a tensor on GPUs.

    Args:
        tensor: The tensor, on the host or on a GPU.
        devices: The GPUs.
        chunk_sizes: The sizes of the parts; equal ones if it is ``None``.
        dim: Along which dimension it is split.
        streams: Streams in which the parts are copied.
        out: Tensors to copy to instead.
    """
    if out is not None:
        if devices is not None:
            raise RuntimeError(f"'devices' must not be specified when 'out' is specified, but got devices={devices}")
        if chunk_sizes is not None:
            raise RuntimeError(
                f"'chunk_sizes' must not be specified when 'out' is specified, but got chunk_sizes={chunk_sizes}"
            )
        for target, part in zip(out, tensor.split([one.size(dim) for one in out], dim)):
            target.copy_(part, non_blocking=True)
        return tuple(out)
    indices = [_get_device_index(device) for device in devices]
    parts = tensor.chunk(len(indices), dim) if chunk_sizes is None else tensor.split(chunk_sizes, dim)
    placed = []
    for place, (index, part) in enumerate(zip(indices, parts)):
        with corten.cuda.stream(streams[place] if streams is not None else None):
            placed.append(_on(part, index).contiguous())
    return tuple(placed)


def gather(tensors, dim=0, destination=None, *, out=None):
    """Parts from GPUs as one tensor.

    Args:
        tensors: The parts.
        dim: Along which dimension they are put together.
        destination: The GPU, or the host; the current GPU if it is ``None``.
        out: A tensor to write to instead.
    """
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                f"'destination' must not be specified when 'out' is specified, but got destination={destination}"
            )
        index = -1 if out.device.type == "cpu" else out.get_device()
        return out.copy_(corten.cat([_on(one, index) for one in tensors], dim))
    index = _get_device_index(destination, optional=True, allow_cpu=True)
    return corten.cat([_on(one, index) for one in tensors], dim)
