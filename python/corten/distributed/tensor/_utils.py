"""Shapes of the parts of distributed tensors, and where they lie in the whole."""

from __future__ import annotations

import corten
from corten.distributed.tensor._dtensor_spec import local_length, resolved, shard_order
from corten.distributed.tensor.placement_types import Partial, Replicate, Shard, _Parts, _StridedShard

__all__ = []


def normalize_to_torch_size(size):
    """A size given as numbers or as one sequence, as ``torch.Size``."""
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    return corten.Size(size)


def compute_local_shape(global_shape, mesh, placements):
    """The shape of this rank's part of a tensor."""
    return _compute_local_shape_and_global_offset(
        global_shape, tuple(mesh.shape), mesh.get_coordinate(), placements)[0]


def compute_local_shape_and_global_offset(global_shape, mesh, placements, **_ignored):
    """The shape of this rank's part of a tensor, and where it begins along each dimension; ``((0,), ())`` on a
    rank outside of the mesh."""
    return _compute_local_shape_and_global_offset(
        global_shape, tuple(mesh.shape), mesh.get_coordinate(), placements)


def _compute_local_shape_and_global_offset(global_shape, mesh_shape, my_coordinate, placements, **_ignored):
    if my_coordinate is None:
        return (0,), ()
    placements = normalized(placements, len(global_shape))
    shape, offset = list(global_shape), [0] * len(global_shape)
    for dim, total in enumerate(global_shape):
        elements = None
        for i in shard_order(placements, mesh_shape, dim):
            one = resolved(placements, mesh_shape, i)
            if isinstance(one, _StridedShard):
                elements = one._order(shape[dim], mesh_shape[i])[my_coordinate[i]]
                shape[dim] = len(elements)
                offset[dim] += elements[0] if elements else 0
                continue
            size, start = one.local_shard_size_and_offset(shape[dim], mesh_shape[i], my_coordinate[i])
            if elements is not None:
                start = elements[start] - elements[0] if start < len(elements) else 0
            shape[dim], offset[dim] = size, offset[dim] + start
        if shape[dim] == 0:
            offset[dim] = total
    return tuple(shape), tuple(offset)


def compute_global_tensor_info(tensor, mesh, placements):
    """The shape and strides of the whole of which a tensor is a part, if all parts are equally large."""
    shape, stride = list(tensor.size()), list(tensor.stride())
    for i, one in enumerate(placements):
        if isinstance(one, _Parts):
            if one.dim < 0:
                raise AssertionError("Shard placements should have negative dims normalized in the user-facing APIs: "
                                     f"{one}")
            if one.dim >= tensor.ndim:
                raise AssertionError(
                    f"Sharding dim {one.dim} greater than tensor ndim {tensor.ndim} for placement number {i}.")
            ranks, length = mesh.size(i), stride[one.dim]
            shape[one.dim] *= ranks
            for other in range(len(stride)):
                if other != one.dim and stride[other] >= length:
                    stride[other] *= ranks
        elif not isinstance(one, (Replicate, Partial)):
            raise RuntimeError(f"placement type {type(one)} not supported!")
    return shape, stride


def compute_global_tensor_shape(shape, mesh, placements):
    """The shape of the whole of which this rank's part has `shape`, of parts that may differ between the ranks of
    one mesh dimension."""
    if len(placements) != 1:
        raise NotImplementedError(f"compute_global_tensor_shape only supports 1 placement for now. Got {placements}.")
    one = placements[0]
    if isinstance(one, Replicate):
        return corten.Size(shape)
    if not isinstance(one, Shard):
        raise NotImplementedError(f"Placement type {type(one)} not supported.")
    from corten.distributed.tensor.placement_types import all_gather

    lengths = all_gather(corten.tensor([shape[one.dim]], device=mesh.device_type), 0, mesh, 0)
    return corten.Size([*shape[:one.dim], int(lengths.sum()), *shape[one.dim + 1:]])


def normalized(placements, ndim):
    """Placements with dimensions counted from the front."""
    found = []
    for one in placements:
        if isinstance(one, Shard) and one.dim < 0:
            one = Shard(one.dim + ndim)
        elif isinstance(one, _StridedShard) and one.dim < 0:
            one = _StridedShard(one.dim + ndim, split_factor=one.split_factor)
        found.append(one)
    return tuple(found)


__all__ += ["compute_global_tensor_info", "compute_local_shape", "compute_local_shape_and_global_offset",
            "local_length"]
