"""Which device meshes a thread works on, and what their dimensions are made with."""

from __future__ import annotations

import threading

import corten
from corten._C._distributed_c10d import Backend as _NativeBackend
from corten.distributed.distributed_c10d import get_world_size

NO_OVERRIDE = (None, None)


class _MeshEnv(threading.local):
    """The meshes whose ``with`` blocks a thread is in."""

    def __init__(self):
        self.mesh_stack = []

    def get_current_mesh(self):
        """The innermost one.

        Raises:
            RuntimeError: There is none.
        """
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]

    def get_root_mesh(self, device_mesh):
        """The mesh that a mesh was sliced from."""
        return device_mesh._get_root_mesh() if device_mesh else device_mesh

    @staticmethod
    def num_devices_per_host(device_type):
        """How many devices of a type this machine has."""
        return _get_device_handle(device_type).device_count()

    @staticmethod
    def num_hosts(device_type):
        """How many machines there are, if all have as many devices as this one."""
        return get_world_size() // _MeshEnv.num_devices_per_host(device_type)


_mesh_resources = _MeshEnv()


def _get_device_handle(device_type="cuda"):
    """The module of a type of device, or None."""
    return getattr(corten, device_type, None)


def _normalize_backend_override(backend_override, ndim, mesh_dim_names=None):
    """A back end and its options for each dimension, of a dictionary by numbers or names."""
    given = dict(backend_override)
    names = mesh_dim_names or (None,) * ndim
    found = []
    for dim, name in enumerate(names):
        if dim in given and name is not None and name in given:
            raise RuntimeError(f"Found redundant dim index {dim} and name {name} in backend_override")
        value = given.pop(dim, None)
        value = given.pop(name, value) if name is not None else value
        if isinstance(value, str):
            value = (value, None)
        elif isinstance(value, _NativeBackend.Options):
            value = (None, value)
        found.append(NO_OVERRIDE if value is None else tuple(value))
    if given:
        raise RuntimeError(
            f"Found invalid keys in backend_override: got {list(given)}, expected integers in range [0, {ndim}) "
            f"or one of {mesh_dim_names or ()}"
        )
    return tuple(found)
