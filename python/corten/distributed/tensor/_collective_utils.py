"""Collectives in which one rank of a dimension of a mesh gives what the others get."""

from __future__ import annotations

import corten
import corten.distributed as dist


def _source(mesh, mesh_dim, group_src):
    group = mesh.get_group(mesh_dim)
    return group, dist.get_global_rank(group, group_src)


def scatter_parts(parts, mesh, mesh_dim, group_src=0):
    """The part of this rank, which the rank `group_src` of the group sends."""
    if mesh.size(mesh_dim) == 1:
        return parts[0]
    group, source = _source(mesh, mesh_dim, group_src)
    rank = mesh.get_local_rank(mesh_dim)
    got = corten.empty_like(parts[rank], memory_format=corten.contiguous_format)
    dist.scatter(got, parts if rank == group_src else None, src=source, group=group)
    return got


def broadcast_from(tensor, mesh, mesh_dim, group_src=0):
    """The tensor of the rank `group_src` of the group, in memory of its own."""
    got = tensor.clone(memory_format=corten.contiguous_format)
    if mesh.size(mesh_dim) == 1:
        return got
    group, source = _source(mesh, mesh_dim, group_src)
    dist.broadcast(got, source, group=group)
    return got
