"""Tensors that are spread over processes, without loading what makes them."""

from __future__ import annotations

import sys

import corten


def is_dtensor(value):
    """Whether a value is a ``DTensor``; where its module was never loaded nothing is."""
    if not isinstance(value, corten.Tensor) or type(value) is corten.Tensor:
        return False
    module = sys.modules.get("corten.distributed.tensor")
    cls = getattr(module, "DTensor", None)
    return cls is not None and isinstance(value, cls)


def takes_part(tensor):
    """Whether this process holds a part of a ``DTensor``."""
    return tensor.device_mesh.get_coordinate() is not None


def box_of(tensor):
    """The offsets and sizes of this process's part of a ``DTensor``."""
    from corten.distributed.tensor._utils import compute_local_shape_and_global_offset

    sizes, offsets = compute_local_shape_and_global_offset(
        tensor.shape, tensor.device_mesh, tensor.placements
    )
    return corten.Size(offsets), corten.Size(sizes)


def narrowed(tensor, offsets, sizes):
    """The box of a tensor, as a view."""
    for dim, (offset, size) in enumerate(zip(offsets, sizes)):
        if size < tensor.size(dim):
            tensor = tensor.narrow(dim, offset, size)
    return tensor
