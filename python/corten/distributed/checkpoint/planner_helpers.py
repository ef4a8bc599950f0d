"""What the default planners consist of: items for values, comparing plans, and the resharding of tensors."""

from __future__ import annotations

import corten

from ._tensors import box_of, is_dtensor, takes_part
from .metadata import (
    BytesStorageMetadata, ChunkStorageMetadata, MetadataIndex, TensorProperties,
)
from .planner import (
    LoadItemType, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType,
)
from .protocol import _get_checkpointable_tensor_chunks, _is_checkpointable_tensor
from .resharding import _shards_get_overlap_region_wrt_saved_tensor

__all__ = ["create_read_items_for_chunk_list"]


def _same_box(a, b):
    return a is b or (a is not None and b is not None and a.offsets == b.offsets and a.sizes == b.sizes)


def _same_item(a, b):
    if a.type != b.type or a.index != b.index or a.index.index != b.index.index:
        return False
    if a.tensor_data is None or b.tensor_data is None:
        return a.tensor_data is b.tensor_data
    return a.tensor_data.size == b.tensor_data.size and _same_box(a.tensor_data.chunk, b.tensor_data.chunk)


def _compare_save_plans(plan, other_plan):
    """Whether two plans write the same items."""
    return (
        plan.usable == other_plan.usable and len(plan.items) == len(other_plan.items)
        and all(map(_same_item, plan.items, other_plan.items))
    )


def _contains_usable_plan(delta_plans):
    return any(plan and plan.usable for plan in delta_plans)


def _merge_delta_local_plans(cached_plans, delta_plans):
    """The new plans, with those of the last save where a process says that its own has not changed."""
    return [
        cached if delta and not delta.usable else delta
        for cached, delta in zip(cached_plans, delta_plans)
    ]


def _create_chunk_from_tensor(tensor):
    return ChunkStorageMetadata(corten.Size([0] * tensor.dim()), tensor.size())


def _create_chunk_from_dtensor(tensor):
    return ChunkStorageMetadata(*box_of(tensor))


def _create_write_items_for_dtensor(fqn, tensor):
    chunk = _create_chunk_from_dtensor(tensor)
    return WriteItem(
        MetadataIndex(fqn, chunk.offsets), WriteItemType.SHARD,
        tensor_data=TensorWriteData(
            chunk, TensorProperties.create_from_tensor(tensor.to_local()), tensor.size()
        ),
    )


def _create_write_item_for_tensor(fqn, tensor):
    chunk = _create_chunk_from_tensor(tensor)
    return WriteItem(
        MetadataIndex(fqn, chunk.offsets), WriteItemType.TENSOR,
        tensor_data=TensorWriteData(
            chunk, TensorProperties.create_from_tensor(tensor), tensor.size()
        ),
    )


def _create_write_item_for_bytesio(fqn, bytes):
    return WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)


def _create_write_items(fqn, object):
    """What to write of a value."""
    if is_dtensor(object):
        return [_create_write_items_for_dtensor(fqn, object)]
    if _is_checkpointable_tensor(object):
        properties = TensorProperties.create_from_tensor(object)
        size = corten.Size(object.global_shape)
        return [
            WriteItem(
                MetadataIndex(fqn, chunk.offsets, i), WriteItemType.SHARD,
                tensor_data=TensorWriteData(chunk, properties, size),
            )
            for i, chunk in enumerate(_get_checkpointable_tensor_chunks(object))
        ]
    if isinstance(object, corten.Tensor):
        return [_create_write_item_for_tensor(fqn, object)]
    return [_create_write_item_for_bytesio(fqn, object)]


def _create_default_metadata_only_plan(state_dict):
    """The items of all values, for what they say of themselves."""
    return SavePlan([item for fqn, value in state_dict.items() for item in _create_write_items(fqn, value)])


def _create_chunk_list(tensor):
    """The boxes of a value that this process holds."""
    if is_dtensor(tensor):
        return [_create_chunk_from_dtensor(tensor)]
    if _is_checkpointable_tensor(tensor):
        return _get_checkpointable_tensor_chunks(tensor)
    if isinstance(tensor, corten.Tensor):
        return [_create_chunk_from_tensor(tensor)]
    raise ValueError(
        "Unsupported Type, expecting one of [Tensor, DTensor, CheckpointableTensor] "
        f",but got {type(tensor)}"
    )


def _create_read_item_for_byteio(dest_index, dest_offset, storage_index, storage_offset, length):
    return ReadItem(
        LoadItemType.BYTE_IO, dest_index, corten.Size((dest_offset,)), storage_index,
        corten.Size((storage_offset,)), corten.Size((length,)),
    )


def _create_read_item_for_tensor(dest_index, dest_offsets, storage_index, storage_offsets, lengths):
    return ReadItem(
        LoadItemType.TENSOR, dest_index, corten.Size(dest_offsets), storage_index,
        corten.Size(storage_offsets), corten.Size(lengths),
    )


def create_read_items_for_chunk_list(fqn, checkpoint_md, local_chunks):
    """The reads that fill ``local_chunks`` of a tensor from the boxes in which it was saved.

    Along the dimension that is cut into most boxes only those are compared that can overlap.
    """
    saved = checkpoint_md.chunks
    if not local_chunks or not saved:
        return []
    dim = _sweep_dimension(saved)
    order = sorted(range(len(saved)), key=lambda i: _bounds(saved[i], dim)[0])
    items = []
    for i, local in enumerate(local_chunks):
        begin, end = _bounds(local, dim)
        for j in order:
            saved_begin, saved_end = _bounds(saved[j], dim)
            if saved_begin >= end:
                break
            if saved_end > begin:
                items.extend(_overlap(fqn, i, local, j, saved[j]))
    return items


def _sweep_dimension(chunks):
    """The dimension in which the boxes begin at most places."""
    dims = range(len(chunks[0].offsets))
    return max(dims, key=lambda d: len({chunk.offsets[d] for chunk in chunks}), default=None)


def _bounds(chunk, dim):
    """Where a box begins and ends; a tensor without dimensions is one element."""
    if dim is None:
        return 0, 1
    return chunk.offsets[dim], chunk.offsets[dim] + chunk.sizes[dim]


def _overlap(fqn, i, local, j, saved):
    region = _shards_get_overlap_region_wrt_saved_tensor(saved, local)
    lengths = [length for _, _, _, length in region]
    if any(length <= 0 for length in lengths):
        return []
    return [_create_read_item_for_tensor(
        dest_index=MetadataIndex(fqn, local.offsets, i),
        dest_offsets=[current for _, _, current, _ in region],
        storage_index=MetadataIndex(fqn, saved.offsets, j),
        storage_offsets=[begin for _, begin, _, _ in region],
        lengths=lengths,
    )]


def _create_read_items(fqn, md, obj):
    """What to read for a value."""
    if isinstance(md, BytesStorageMetadata):
        index = MetadataIndex(fqn)
        return [_create_read_item_for_byteio(index, 0, index, 0, 0)]
    try:
        chunks = _create_chunk_list(obj)
    except ValueError as error:
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(md)}"
        ) from error
    return create_read_items_for_chunk_list(fqn, md, chunks)


def _init_state_dict(state_dict):
    """Gives tensors on the meta device memory, in place of them in the dictionary."""

    def filled(value):
        if isinstance(value, dict):
            for key, part in value.items():
                value[key] = filled(part)
        elif isinstance(value, list):
            value[:] = map(filled, value)
        elif isinstance(value, tuple) and type(value) is tuple:
            value = tuple(map(filled, value))
        elif isinstance(value, corten.Tensor) and value.is_meta:
            return _with_memory(value)
        return value

    filled(state_dict)


def _with_memory(tensor):
    device = _device_for(tensor)
    if is_dtensor(tensor):
        from corten.distributed.tensor import DTensor

        local = corten.empty_like(tensor.to_local(), device=device)
        made = DTensor.from_local(
            local, device_mesh=tensor.device_mesh, placements=tensor.placements,
            shape=tensor.size(), stride=tensor.stride(),
        )
    else:
        made = corten.empty_like(tensor, device=device)
    if isinstance(tensor, corten.nn.Parameter):
        return corten.nn.Parameter(made, tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)


def _device_for(tensor):
    """Where what the state dictionary has no memory for shall be: the default device of the processes' group."""
    if is_dtensor(tensor):
        kind = tensor.device_mesh.device_type
    else:
        distributed = corten.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return corten.device("cpu")
        kind = distributed.distributed_c10d._get_pg_default_device().type
    if kind == "cuda":
        return corten.device(kind, corten.cuda.current_device())
    return corten.device(kind)



def _participates(value):
    """Whether a value is this process's to save or load."""
    return not is_dtensor(value) or takes_part(value)
