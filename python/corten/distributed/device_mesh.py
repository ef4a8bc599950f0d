"""Ranks as an array: each of its dimensions has a group of processes."""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import math
import os
import threading
import warnings

import corten
from corten._C._distributed_c10d import ProcessGroup
from corten.distributed import _mesh_layout as layouts
from corten.distributed._mesh_environment import (
    NO_OVERRIDE, _get_device_handle, _mesh_resources, _normalize_backend_override,
)
from corten.distributed.distributed_c10d import (
    GroupMember, _get_default_group, _resolve_process_group, _world, get_backend, get_process_group_ranks, get_rank,
    get_world_size, init_process_group, is_initialized, new_group, split_group,
)

__all__ = ["init_device_mesh", "DeviceMesh"]

logger = logging.getLogger(__name__)

class DeviceMesh:
    """Ranks in an array of any number of dimensions. Every rank of the world makes the same one.

    Args:
        device_type: ``cpu`` or ``cuda``.
        mesh: The ranks, as nested lists or a tensor.
        mesh_dim_names: A name for each dimension.
        backend_override: A back end and its options for each dimension.
        preserve_rank_order: Whether ranks in groups follow the array; else those of the world.

    Raises:
        RuntimeError: The array has more ranks than the world.
    """

    def __init__(
        self, device_type, mesh=None, *, mesh_dim_names=None, backend_override=None, preserve_rank_order=False,
        _init_backend=True, _rank=None, _layout=None, _rank_map=None, _root_mesh=None,
    ):
        if mesh is not None:
            if _layout is not None or _rank_map is not None:
                raise TypeError("Cannot provide _layout and/or _rank_map if passing explicit mesh")
            shape, _rank_map = _ranks_of(mesh)
            _layout = layouts.axes_of_shape(shape)
        elif _layout is None or _rank_map is None:
            raise TypeError("The mesh argument is required except for PRIVATE USAGE ONLY!")
        if not layouts.is_orthogonal(_layout):
            raise AssertionError("Please use a non-overlapping layout when creating a DeviceMesh.")
        self._device_type = device_type
        self._layout = _layout
        self._flatten_rank_map = tuple(_rank_map)
        self._mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._root_mesh = _root_mesh
        self._preserve_rank_order = preserve_rank_order
        self._thread_id = threading.get_ident() if _world.threads_are_ranks else None
        self._flatten_mapping = {}
        self._pg_registry = {}
        overrides = (NO_OVERRIDE,) * len(_layout) if backend_override is None else tuple(backend_override)
        if len(overrides) != len(_layout):
            raise ValueError(
                "backend_override should have the same length as the number of mesh dimensions, but got "
                f"{len(overrides)} and {len(_layout)}."
            )
        if _init_backend:
            self._setup_world_group_and_device()
            self._init_groups(overrides)
        self._rank = get_rank() if _rank is None else _rank
        self._coordinate_on_dim = self._compute_coordinate_on_dim()

    def _init_groups(self, overrides):
        names = self._mesh_dim_names or [f"dim_{dim}" for dim in range(self.ndim)]
        self._dim_group_names = self._init_process_groups(self._layout, names, overrides)
        registry = self._get_root_mesh()._pg_registry
        registry.update((name, _resolve_process_group(name)) for name in self._dim_group_names)

    def _place(self):
        """Where in the list of ranks this one is, or None."""
        try:
            return self._flatten_rank_map.index(self._rank)
        except ValueError:
            return None

    def _compute_coordinate_on_dim(self):
        place = self._place()
        return None if place is None else tuple(layouts.coordinate(axis, place) for axis in self._layout)

    def __getstate__(self):
        # Hashes of texts differ between processes.
        return {name: value for name, value in vars(self).items() if name not in ("_pg_registry", "_hash")}

    def __setstate__(self, state):
        vars(self).update(state)
        self._pg_registry = {}
        for name in getattr(self, "_dim_group_names", ()):
            try:
                self._pg_registry[name] = _resolve_process_group(name)
            except RuntimeError:
                logger.warning("The group %s of an unpickled DeviceMesh does not exist (yet).", name)

    @property
    def device_type(self):
        """The type of the devices."""
        return self._device_type

    @property
    def mesh_dim_names(self):
        """The names of the dimensions, or None."""
        return self._mesh_dim_names

    @property
    def _rank_map(self):
        return corten.tensor(self._flatten_rank_map, dtype=corten.int, device="cpu")

    @property
    def mesh(self):
        """The ranks as a tensor of ``int32`` on the CPU: of a slice, those of this rank's part.

        Raises:
            RuntimeError: Of a slice, on a rank that is not in it.
        """
        place = self._place()
        if math.prod(self.shape) == len(self._flatten_rank_map):
            place = 0
        if place is None:
            raise RuntimeError(
                "In order to get the mesh Tensor of a DeviceMesh it needs to either have all its original "
                "dimensions (e.g., no slicing) or it needs to contain the local rank"
            )
        first = layouts.start(self._layout, place)
        steps = itertools.product(*map(layouts.offsets, self._layout))
        ranks = [self._flatten_rank_map[first + sum(step)] for step in steps]
        return corten.tensor(ranks, dtype=corten.int, device="cpu").view(self.shape)

    def _setup_world_group_and_device(self):
        """Makes the default group, and chooses the device of this process, where nobody has."""
        if not is_initialized():
            init_process_group()
        world_size = get_world_size()
        if len(self._flatten_rank_map) > world_size:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {world_size}, but found "
                f"{len(self._flatten_rank_map)} ranks!"
            )
        handle = _get_device_handle(self._device_type)
        if self._device_type == "cpu" or handle is None or get_backend() == "fake" or handle.is_initialized():
            return
        if "LOCAL_RANK" in os.environ:
            handle.set_device(int(os.environ["LOCAL_RANK"]))
            return
        count = handle.device_count()
        if count == 0:
            return
        warnings.warn(
            "It seems like you did not set/select the default device for the current process before the "
            "DeviceMesh initialization or use a launcher (i.e. torchrun) which populates `LOCAL_RANK` "
            "environment variable. The device `global_rank % num_devices_per_host` is used.",
            stacklevel=4,
        )
        if world_size > count and world_size % count != 0:
            raise RuntimeError(
                f"DeviceMesh only support homogeneous hardware, but found {world_size} ranks and {count} "
                f"{self._device_type} devices!"
            )
        handle.set_device(get_rank() % count)

    def _init_process_groups(self, axes, dim_names, overrides):
        """The names of this rank's groups, one for each axis; of none where it is not in the mesh."""
        made = [
            self._init_one_process_group(axis, name, override)
            for axis, name, override in zip(axes, dim_names, overrides, strict=True)
        ]
        return [name for name in made if name is not None]

    def _init_one_process_group(self, axis, dim_name, override):
        ranks_by_group = [
            [self._flatten_rank_map[place] for place in places]
            for places in layouts.places_by_group(axis, len(self._flatten_rank_map))
        ]
        backend, options = override
        default = _get_default_group()
        everybody = list(range(get_world_size()))
        if layouts.size_of(axis) == len(everybody) and override == NO_OVERRIDE:
            if not self._preserve_rank_order or ranks_by_group[0] == everybody:
                return default.group_name
        timeout = options._timeout if options else None
        how = {"timeout": timeout, "pg_options": options, "group_desc": f"mesh_{dim_name}"}
        if getattr(default, "bound_device_id", None) is not None and backend is None and self._splits(default):
            found = split_group(parent_pg=default, split_ranks=ranks_by_group, **how)
            return None if found == GroupMember.NON_GROUP_MEMBER else found.group_name
        name = None
        for ranks in ranks_by_group:
            found = new_group(ranks=ranks, backend=backend, sort_ranks=not self._preserve_rank_order, **how)
            if get_rank() in ranks:
                if name is not None:
                    raise RuntimeError(
                        "Each device mesh dimension should get only one process group, but got "
                        f"{get_rank()} in {ranks}!"
                    )
                name = found.group_name
        return name

    @staticmethod
    def _splits(default):
        return corten.accelerator.is_available() and default._get_backend(default.bound_device_id).supports_splitting

    def _get_root_mesh(self):
        return self if self._root_mesh is None else self._root_mesh

    def __enter__(self):
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, kind, value, traceback):
        _mesh_resources.mesh_stack.pop()

    def __repr__(self):
        shown = f"{self.shape}"
        if self._mesh_dim_names:
            pairs = zip(self._mesh_dim_names, self.shape, strict=True)
            shown = f"({', '.join(f'{name}={size}' for name, size in pairs)})"
        strides = tuple(
            axis[0][1] if len(axis) == 1 else tuple(stride for _, stride in axis) for axis in self._layout
        )
        mesh = ""
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") == "DETAIL":
            mesh = f", Mesh: {self.mesh.tolist()}"
        return f"DeviceMesh({shown}, '{self.device_type}', stride={strides}{mesh})"

    def _hash_key(self):
        return (
            self._flatten_rank_map, self._layout, self._device_type, self._mesh_dim_names, self._thread_id,
            self._preserve_rank_order,
        )

    @functools.cached_property
    def _hash(self):
        return hash(self._hash_key())

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        if self is other:
            return True
        return isinstance(other, DeviceMesh) and self._hash_key() == other._hash_key()

    def _stable_hash(self):
        """A text that is the same in every process."""
        return hashlib.blake2b(repr(self._hash_key()).encode(), digest_size=16).hexdigest()

    def __getitem__(self, mesh_dim_names):
        """The mesh of some dimensions, by name: of a mesh ``("dp", "tp")`` of the ranks ``[[0, 1], [2, 3]]``,
        ``mesh["tp"]`` is ``[0, 1]`` on the ranks 0 and 1 and ``[2, 3]`` on the others.

        Raises:
            RuntimeError: The mesh has no names, or dimensions overlap.
            KeyError: There is no dimension of a name, or their order is another.
        """
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._mesh_dim_names:
            return self
        return self._create_sub_mesh(names)

    def _create_sub_mesh(self, names):
        flattened = self._flatten_mapping if self._root_mesh is None else {}
        valid = [*self._mesh_dim_names, *flattened]
        if not all(name in valid for name in names):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        axes, groups = [], []
        for name in names:
            if name in self._mesh_dim_names:
                source, dim = self, self._mesh_dim_names.index(name)
            else:
                warnings.warn(
                    "Slicing a flattened dim from root mesh will be deprecated in PT 2.11. Users need to "
                    "bookkeep the flattened mesh directly. ",
                    stacklevel=3,
                )
                source, dim = flattened[name], 0
            axes.append(source._layout[dim])
            if getattr(source, "_dim_group_names", None):
                groups.append(source._dim_group_names[dim])
        if not layouts.is_sorted(axes):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order."
            )
        if not layouts.is_orthogonal(axes):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        return self._derived(tuple(axes), names, groups)

    def _derived(self, axes, names, groups=None, overrides=None):
        """A mesh over the same ranks, with these groups or with new ones."""
        root = self._get_root_mesh()
        made = DeviceMesh(
            self._device_type, _layout=axes, _rank_map=root._flatten_rank_map, mesh_dim_names=names,
            _root_mesh=root, _init_backend=groups is None, backend_override=overrides,
            preserve_rank_order=root._preserve_rank_order, _rank=self._rank,
        )
        if groups is not None:
            made._dim_group_names = list(groups)
        return made

    def get_group(self, mesh_dim=None):
        """The group of a dimension, which may be left out where there is one.

        Args:
            mesh_dim: Its number or name.

        Raises:
            RuntimeError: The mesh was made without groups, or has several dimensions and none is named.
            KeyError: There is no dimension of the name.
        """
        if not hasattr(self, "_dim_group_names"):
            raise RuntimeError("DeviceMesh process groups not initialized!")
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                    "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                    "please use `get_all_groups()` instead.",
                )
            mesh_dim = 0
        root = self._get_root_mesh()
        if mesh_dim in root._flatten_mapping:
            name = root._flatten_mapping[mesh_dim]._dim_group_names[0]
        else:
            dim = self._get_mesh_dim_by_name(mesh_dim) if isinstance(mesh_dim, str) else mesh_dim
            if not isinstance(dim, int):
                raise AssertionError(f"mesh_dim must be an int, got {type(dim)}")
            name = self._dim_group_names[dim]
        found = root._pg_registry.get(name)
        return _resolve_process_group(name) if found is None else found

    def get_all_groups(self):
        """The group of each dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def abort(self):
        """Ends the groups of a mesh without waiting for what is under way.

        Raises:
            RuntimeError: The mesh is a slice.
        """
        from corten.distributed.distributed_c10d import _abort_process_group

        if self._root_mesh is not None:
            raise RuntimeError(
                "abort() is not supported on a submesh. Call abort() on the root mesh instead."
            )
        meshes = [self, *self._flatten_mapping.values()]
        names = dict.fromkeys(name for mesh in meshes for name in getattr(mesh, "_dim_group_names", ()))
        groups = [_resolve_process_group(name) for name in names]
        # The default group takes all others with it.
        for group in sorted(groups, key=lambda group: group is GroupMember.WORLD):
            _abort_process_group(group)

    def _get_root_mesh_dim(self):
        """Which dimension of the mesh that it was sliced from a mesh of one dimension is."""
        root = self._get_root_mesh()
        if not self._mesh_dim_names:
            return None
        if len(self._mesh_dim_names) != 1:
            raise AssertionError("The submesh can only be a 1D mesh.")
        return root._get_mesh_dim_by_name(self._mesh_dim_names[0])

    def _get_mesh_dim_by_name(self, mesh_dim_name):
        if not self._mesh_dim_names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self._mesh_dim_names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim_name}' does not exist.",
                f"Available mesh dimensions are: mesh_dim_names={self._mesh_dim_names}",
            )
        return self._mesh_dim_names.index(mesh_dim_name)

    def _get_all_submeshes(self, mesh_dim_name):
        """The meshes along a dimension, for every position on the others."""
        dim = self._get_mesh_dim_by_name(mesh_dim_name)
        found = []
        for places in layouts.places_by_group(self._layout[dim], len(self._flatten_rank_map)):
            ranks = [self._flatten_rank_map[place] for place in places]
            mesh = DeviceMesh(
                self._device_type, ranks, mesh_dim_names=(mesh_dim_name,), _init_backend=False,
                preserve_rank_order=self._preserve_rank_order,
            )
            mesh._dim_group_names = [self._dim_group_names[dim]] if self.get_rank() in ranks else []
            found.append(mesh)
        return found

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh of existing groups.

        Args:
            group: A group, or one for each dimension.
            device_type: The type of the devices.
            mesh: The ranks; needed where there are several groups.
            mesh_dim_names: Names of the dimensions; needed likewise.

        Raises:
            ValueError: Something needed is absent, or the ranks are not those of the group.
        """
        if isinstance(group, ProcessGroup):
            ranks = get_process_group_ranks(group)
            if mesh is not None and (mesh.tolist() if isinstance(mesh, corten.Tensor) else mesh) != ranks:
                raise ValueError(f"Invalid mesh {str(mesh)} for ProcessGroup with ranks {ranks}")
            groups, mesh = [group], ranks
        else:
            groups = list(group)
            if not groups:
                raise ValueError("Expects at least one ProcessGroup to be passed")
            if mesh is None:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            if mesh_dim_names is None:
                raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if made.ndim != len(groups):
            raise ValueError(
                f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {made.mesh.tolist()} and "
                f"{len(groups)} ProcessGroups"
            )
        made._dim_group_names = [each.group_name for each in groups]
        made._pg_registry.update((each.group_name, each) for each in groups)
        return made

    def size(self, mesh_dim=None):
        """How many ranks there are, or along a dimension."""
        return math.prod(self.shape) if mesh_dim is None else layouts.size_of(self._layout[mesh_dim])

    @property
    def ndim(self):
        """How many dimensions there are."""
        return len(self._layout)

    @functools.cached_property
    def shape(self):
        """How many ranks each dimension has."""
        return tuple(map(layouts.size_of, self._layout))

    def get_rank(self):
        """The rank of this process in the world."""
        return get_rank()

    def get_local_rank(self, mesh_dim=None):
        """The rank of this process along a dimension, which may be left out where there is one.

        Raises:
            RuntimeError: The mesh has several dimensions and none is named.
        """
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        return get_rank(self.get_group(0 if mesh_dim is None else mesh_dim))

    def _is_current_rank_part_of_mesh(self):
        return self._coordinate_on_dim is not None

    def get_coordinate(self):
        """The position of this rank along each dimension, or None where it is not in the mesh."""
        return self._coordinate_on_dim

    def _flatten(self, mesh_dim_name=None, backend_override=None):
        """A mesh of one dimension with the ranks of this one, under a name of the mesh that it was sliced
        from: that of the dimensions, joined by ``_``, unless another is given.

        Raises:
            RuntimeError: The mesh has no names.
            ValueError: The name is taken.
        """
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._mesh_dim_names)
        if self.ndim == 1 and name in self._mesh_dim_names:
            return self
        root = self._get_root_mesh()
        if name in root._mesh_dim_names:
            raise ValueError(
                f"{name} already exists for submesh of the {root}. ",
                f"The mesh_dim_names of submesh and flattened mesh are {root._mesh_dim_names}. "
                "Please specify another valid mesh_dim_name.",
            )
        axis = layouts.collapsed(self._layout)
        known = root._flatten_mapping.get(name)
        if known is not None:
            if known._layout == (axis,):
                return known
            raise ValueError(
                f"Flatten mesh with mesh_dim_name {name} has been created before, Please specify another valid "
                "mesh_dim_name."
            )
        overrides = None if backend_override is None else _normalize_backend_override({0: backend_override}, 1)
        made = root._flatten_mapping[name] = self._derived((axis,), (name,), overrides=overrides)
        return made

    def _unflatten(self, dim, mesh_sizes, mesh_dim_names, backend_override=None):
        """A mesh with one dimension cut into several.

        Raises:
            ValueError: There is no such dimension, or the sizes do not multiply to its size.
            RuntimeError: There are more names than sizes, or fewer.
        """
        names = list(self._mesh_dim_names or ())
        if isinstance(dim, int) and dim >= self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if isinstance(dim, str) and dim not in names:
            raise ValueError(f"dim {dim} specified in `_unflatten` is not in {self.mesh_dim_names}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        dim = names.index(dim) if isinstance(dim, str) else dim
        mesh_sizes = tuple(mesh_sizes)
        if math.prod(mesh_sizes) != self.size(dim):
            raise ValueError(
                f"The product of {mesh_sizes=} is {math.prod(mesh_sizes)}, but the original dimension at "
                f"dim={dim} has size {self.size(dim)}. These must be equal for unflatten to work correctly."
            )
        overrides = _normalize_backend_override(backend_override or {}, len(mesh_sizes), tuple(mesh_dim_names))
        parts = layouts.cut(self._layout[dim], mesh_sizes)
        axes = (*self._layout[:dim], *parts, *self._layout[dim + 1:])
        names[dim:dim + 1] = mesh_dim_names
        groups = list(getattr(self, "_dim_group_names", ()))
        new = self._init_process_groups(parts, mesh_dim_names, overrides) if hasattr(self, "_dim_group_names") else []
        groups[dim:dim + 1] = new
        root = self._get_root_mesh()
        root._pg_registry.update((name, _resolve_process_group(name)) for name in new)
        return self._derived(axes, tuple(names), groups)

    @staticmethod
    def _concatenate(device_mesh_list):
        """The mesh of the dimensions of several slices of one mesh.

        Raises:
            RuntimeError: They are of different meshes, or overlap.
        """
        first = device_mesh_list[0]
        if any(mesh._flatten_rank_map != first._flatten_rank_map for mesh in device_mesh_list):
            raise RuntimeError("Cannot concatenate DeviceMeshes derived from different device meshes")
        axes = tuple(axis for mesh in device_mesh_list for axis in mesh._layout)
        if not layouts.is_orthogonal(axes):
            raise RuntimeError(f"Cannot concatenate overlapping meshes: {device_mesh_list}")
        names = tuple(name for mesh in device_mesh_list for name in mesh._mesh_dim_names)
        return first._derived(axes, names, [name for mesh in device_mesh_list for name in mesh._dim_group_names])


def _ranks_of(mesh):
    """The shape of an array of ranks, and the ranks in row-major order."""
    if not isinstance(mesh, corten.Tensor):
        mesh = corten.tensor(mesh, dtype=corten.int, device="cpu")
    mesh = mesh.detach().to(dtype=corten.int, device="cpu").contiguous()
    return tuple(mesh.shape), tuple(mesh.flatten().tolist())


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """A mesh of the first ranks of the world, in row-major order. Every rank calls it.

    Args:
        device_type: ``cpu`` or ``cuda``.
        mesh_shape: The size of each dimension.
        mesh_dim_names: A name for each.
        backend_override: A back end, options, or both, by number or name of a dimension.

    Raises:
        RuntimeError: Names repeat or are too few, the device has an index, or the world is too small.
    """
    mesh_shape = tuple(mesh_shape) if not isinstance(mesh_shape, int) else (mesh_shape,)
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names "
                f"{mesh_dim_names}"
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
                f"{len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    overrides = None
    if backend_override is not None:
        overrides = _normalize_backend_override(backend_override, len(mesh_shape), mesh_dim_names)
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    return DeviceMesh(
        device_type, mesh_dim_names=mesh_dim_names, backend_override=overrides,
        _layout=layouts.axes_of_shape(mesh_shape), _rank_map=range(math.prod(mesh_shape)),
    )
