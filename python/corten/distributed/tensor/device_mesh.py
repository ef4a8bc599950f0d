"""Meshes of devices, under the name that distributed tensors had for them."""

from __future__ import annotations

from corten.distributed import device_mesh as _meshes
from corten.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]


def current_mesh():
    """The mesh of the ``with`` block.

    Raises:
        RuntimeError: There is none.
    """
    return _meshes._mesh_resources.get_current_mesh()
