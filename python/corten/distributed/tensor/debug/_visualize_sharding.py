"""Where the parts of a distributed tensor lie, as a table of text."""

from __future__ import annotations

import itertools

from corten.distributed.tensor._utils import _compute_local_shape_and_global_offset

__all__ = ["visualize_sharding"]


def visualize_sharding(dtensor, header="", use_rich=False):
    """Prints which devices hold which elements of a distributed tensor of one or two dimensions, on the rank that is
    first in the mesh."""
    if dtensor.numel() == 0 or dtensor.ndim == 0:
        return
    if dtensor.ndim >= 3:
        raise RuntimeError("visualize sharding supports only 1D or 2D DTensor")
    mesh = dtensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None or any(coordinate):
        return
    held: dict = {}
    for place, rank in zip(itertools.product(*map(range, mesh.shape)), mesh.mesh.flatten().tolist()):
        shape, offset = _compute_local_shape_and_global_offset(
            tuple(dtensor.shape), tuple(mesh.shape), place, dtensor.placements)
        if 0 not in shape:
            held.setdefault(tuple(zip(offset, shape)), []).append(rank)
    if header:
        print(header)
    for ranges, ranks in sorted(held.items()):
        where = ", ".join(f"{start}:{start + size}" for start, size in ranges)
        print(f"[{where}]  {', '.join(f'{mesh.device_type}:{rank}' for rank in ranks)}")
