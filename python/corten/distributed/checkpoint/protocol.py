"""Plain tensors that say which part of a larger tensor they hold."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import corten

from .metadata import ChunkStorageMetadata

__all__ = ["CheckpointableTensor"]


@runtime_checkable
class CheckpointableTensor(Protocol):
    """A tensor with these attributes is saved as parts of a tensor of the shape ``global_shape``: part ``i``
    begins at ``global_offsets[i]`` there, at ``local_offsets[i]`` here, and has the shape ``local_sizes[i]``."""

    global_shape: tuple[int, ...]
    global_offsets: tuple[tuple[int, ...], ...]
    local_offsets: tuple[tuple[int, ...], ...]
    local_sizes: tuple[tuple[int, ...], ...]


_FIELDS = ("global_shape", "global_offsets", "local_offsets", "local_sizes")


def _is_checkpointable_tensor(obj):
    return isinstance(obj, corten.Tensor) and all(hasattr(obj, name) for name in _FIELDS)


def _copy_checkpointable_tensor_metadata(src, dst):
    for name in _FIELDS:
        setattr(dst, name, getattr(src, name))


def _get_checkpointable_tensor_chunks(tensor):
    _validate_checkpointable_tensor_metadata(tensor)
    return [
        ChunkStorageMetadata(offsets=corten.Size(offset), sizes=corten.Size(size))
        for offset, size in zip(tensor.global_offsets, tensor.local_sizes)
    ]


def _get_checkpointable_tensor_shard(tensor, index):
    """The part of a tensor that an index names, as a view."""
    _validate_checkpointable_tensor_metadata(tensor)
    place = _place_of_shard(tensor, index)
    offset, size = tensor.local_offsets[place], tensor.local_sizes[place]
    return tensor[tuple(slice(o, o + s) for o, s in zip(offset, size))] if offset else tensor


def _place_of_shard(tensor, index):
    offsets = [corten.Size(offset) for offset in tensor.global_offsets]
    if index.offset is None:
        if len(offsets) == 1:
            return 0
        raise ValueError(
            f"Cannot lookup {index.fqn} with multiple checkpointable shards and no offset"
        )
    hint = index.index
    if hint is not None and hint < len(offsets) and offsets[hint] == index.offset:
        return hint
    if index.offset not in offsets:
        raise ValueError(
            f"Could not find checkpointable tensor shard at '{index.offset}' "
            f"for FQN: '{index.fqn}'"
        )
    return offsets.index(index.offset)


def _validate_checkpointable_tensor_metadata(tensor):
    """Raises ``ValueError`` for parts that are not inside the tensors that they are of."""
    count = len(tensor.global_offsets)
    for name in ("local_offsets", "local_sizes"):
        if len(getattr(tensor, name)) != count:
            raise ValueError(f"global_offsets and {name} must have the same length")
    whole, local = tuple(tensor.global_shape), tuple(tensor.size())
    for i in range(count):
        size = tensor.local_sizes[i]
        expected = (
            ("global_offsets", tensor.global_offsets[i], whole, ""),
            ("local_offsets", tensor.local_offsets[i], local, ""),
            ("local_sizes", size, whole, ""), ("local_sizes", size, local, "local "),
        )
        for name, value, shape, kind in expected:
            if len(value) != len(shape):
                raise ValueError(f"{name}[{i}] must have {len(shape)} {kind}dimensions")
        _validate_box(tensor.global_offsets[i], size, whole, f"global shard {i}", "global_shape")
        _validate_box(tensor.local_offsets[i], size, local, f"local shard {i}", "tensor shape")


def _validate_box(offsets, sizes, shape, shard, place):
    for dim, (offset, size, extent) in enumerate(zip(offsets, sizes, shape)):
        if offset < 0 or size < 0 or offset + size > extent:
            raise ValueError(f"{shard} dimension {dim} is outside {place}")
