"""What is known of a distributed tensor besides its elements."""

from __future__ import annotations

from typing import NamedTuple

import corten
from corten.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _Parts, _StridedShard

__all__ = ["DTensorSpec", "TensorMeta"]


class TensorMeta(NamedTuple):
    """Shape and strides, in elements, of the whole tensor, and its dtype."""

    shape: corten.Size
    stride: tuple
    dtype: corten.dtype


def contiguous_stride(shape):
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def shard_order(placements, sizes, dim):
    """The dimensions of a mesh of `sizes` that split a tensor along `dim`, in the order in which they do so."""
    order = []
    for i in reversed(range(len(placements))):
        one = placements[i]
        if not isinstance(one, _Parts) or one.dim != dim:
            continue
        place = 0
        if isinstance(one, _StridedShard):
            place, pieces = _after(order, sizes, one.split_factor)
            if pieces != one.split_factor:
                # Pieces that no dimension of the mesh holds: the parts are taken from all of them.
                place = 0
        order.insert(place, i)
    return order


def _after(order, sizes, split_factor):
    pieces = 1
    for place, i in enumerate(order):
        if pieces >= split_factor:
            return place, pieces
        pieces *= sizes[i]
    return len(order), pieces


def is_interleaved(placements, sizes, mesh_dim):
    """Whether a dimension of a mesh holds parts of several pieces of the tensor."""
    one = placements[mesh_dim]
    if not isinstance(one, _StridedShard):
        return False
    order = shard_order(placements[mesh_dim + 1:], sizes[mesh_dim + 1:], one.dim)
    return _after(order, sizes[mesh_dim + 1:], one.split_factor)[1] != one.split_factor


def resolved(placements, sizes, mesh_dim):
    """The placement that splits what the dimensions of the mesh in front of it in the order have left."""
    one = placements[mesh_dim]
    if isinstance(one, _StridedShard) and not is_interleaved(placements, sizes, mesh_dim):
        return Shard(one.dim)
    return one


def local_length(total, dim, placements, sizes, coordinate):
    """How many elements of `total` a rank holds along a dimension."""
    for i in shard_order(placements, sizes, dim):
        one = resolved(placements, sizes, i)
        if isinstance(one, _StridedShard):
            total = len(one._order(total, sizes[i])[coordinate[i]])
        else:
            total, _ = one.local_shard_size_and_offset(total, sizes[i], coordinate[i])
    return total


class DTensorSpec:
    """The mesh of a distributed tensor, its placements along each dimension of the mesh, and the
    :class:`TensorMeta` of the whole."""

    __slots__ = ("mesh", "placements", "tensor_meta", "_hash")

    def __init__(self, mesh, placements, tensor_meta=None, **_ignored):
        self.mesh = mesh
        self.placements = tuple(placements)
        self.tensor_meta = tensor_meta
        self._hash = None

    def __eq__(self, other):
        return isinstance(other, DTensorSpec) and (
            self.placements == other.placements and self.tensor_meta == other.tensor_meta
            and (self.mesh is other.mesh or self.mesh == other.mesh))

    def __hash__(self):
        if self._hash is None:
            self._hash = hash((self.mesh, self.placements, self.tensor_meta))
        return self._hash

    def __getstate__(self):
        return {"mesh": self.mesh, "placements": self.placements, "tensor_meta": self.tensor_meta}

    def __setstate__(self, state):
        state = state if isinstance(state, dict) else state[1]
        self.__init__(state["mesh"], state["placements"], state["tensor_meta"])

    def __str__(self):
        placements = "".join(map(str, self.placements))
        if self.tensor_meta is None:
            return f"Spec({placements} on {tuple(self.mesh.shape)})"
        meta = self.tensor_meta
        return f"Spec({_short(meta.dtype)}{list(meta.shape)}({placements}))"

    __repr__ = __str__

    def _meta(self):
        if self.tensor_meta is None:
            raise ValueError("tensor_meta is not set")
        return self.tensor_meta

    @property
    def device_mesh(self):
        """The mesh of devices."""
        return self.mesh

    @property
    def shape(self):
        """The shape of the whole."""
        return self._meta().shape

    @property
    def stride(self):
        """The strides of the whole, in elements."""
        return self._meta().stride

    @property
    def dtype(self):
        """The dtype."""
        return self._meta().dtype

    @property
    def ndim(self):
        """The number of dimensions of the tensor."""
        return len(self._meta().shape)

    @property
    def num_shards(self):
        """Into how many parts the tensor is split."""
        parts = 1
        for i, one in enumerate(self.placements):
            parts *= self.mesh.size(i) if isinstance(one, _Parts) else 1
        return parts

    @property
    def num_shards_map(self):
        """For each dimension of the tensor, into how many parts it is split."""
        parts = [1] * self.ndim
        for i, one in enumerate(self.placements):
            if isinstance(one, _Parts):
                parts[one.dim] *= self.mesh.size(i)
        return parts

    @property
    def dim_map(self):
        """For each dimension of the tensor, the last dimension of the mesh that splits it; -1 where none does."""
        found = [-1] * self.ndim
        for i, one in enumerate(self.placements):
            if isinstance(one, _Parts):
                found[one.dim] = i
        return found

    @property
    def sums(self):
        """The dimensions of the mesh that hold terms of a reduction."""
        return [i for i, one in enumerate(self.placements) if isinstance(one, Partial)]

    @classmethod
    def from_dim_map(cls, mesh, dim_map, sums, tensor_meta=None):
        """What :attr:`dim_map` and :attr:`sums` say."""
        placements: list[Placement] = [Replicate()] * mesh.ndim
        for i in sums:
            placements[i] = Partial()
        for dim, i in enumerate(dim_map):
            if i >= 0:
                placements[i] = Shard(dim)
        return cls(mesh, placements, tensor_meta)

    def is_replicated(self):
        """Whether every rank holds the whole."""
        return all(one.is_replicate() for one in self.placements)

    def is_sharded(self):
        """Whether the ranks hold parts."""
        return any(isinstance(one, _Parts) for one in self.placements)

    def shallow_copy_with_tensor_meta(self, tensor_meta):
        """The same mesh and placements with another :class:`TensorMeta`."""
        return DTensorSpec(self.mesh, self.placements, tensor_meta)

    def replaced(self, placements):
        """The same tensor with other placements."""
        return DTensorSpec(self.mesh, placements, self.tensor_meta)

    def local_shape(self, shape=None):
        """The shape of what this rank holds of a tensor of `shape` (the whole's where it is not given)."""
        shape = self.shape if shape is None else shape
        coordinate = self.mesh.get_coordinate()
        if coordinate is None:
            return (0,)
        sizes = tuple(self.mesh.shape)
        return tuple(
            local_length(size, dim, self.placements, sizes, coordinate) for dim, size in enumerate(shape))


_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "b8"}


def _short(dtype):
    name = str(dtype).rpartition(".")[2]
    letters = name.rstrip("0123456789")
    return _SHORT.get(letters, letters) + name[len(letters):]
