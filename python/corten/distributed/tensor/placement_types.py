"""Where the parts of a distributed tensor lie along one dimension of a mesh of devices."""

from __future__ import annotations

import corten
import corten.distributed._functional_collectives as funcol

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


def _arrived(tensor):
    """A tensor whose collective has ended."""
    if isinstance(tensor, funcol.AsyncCollectiveTensor):
        return tensor.wait()
    return funcol.wait_tensor(tensor)


def all_gather(tensor, gather_dim, mesh, mesh_dim):
    """The tensors of all ranks of a dimension of a mesh, joined along `gather_dim`."""
    return _arrived(funcol.all_gather_tensor(tensor.contiguous(), gather_dim, (mesh, mesh_dim)))


def _all_reduce(tensor, reduce_op, mesh, mesh_dim):
    """A reduction over the ranks; means are sums that are divided, as not every back end has means."""
    if reduce_op == "avg":
        return _all_reduce(tensor, "sum", mesh, mesh_dim) / mesh.size(mesh_dim)
    return _arrived(funcol.all_reduce(tensor.contiguous(), reduce_op, (mesh, mesh_dim)))


def _reduce_scatter(tensor, reduce_op, scatter_dim, mesh, mesh_dim):
    if reduce_op == "avg":
        return _reduce_scatter(tensor, "sum", scatter_dim, mesh, mesh_dim) / mesh.size(mesh_dim)
    group = (mesh, mesh_dim)
    return _arrived(funcol.reduce_scatter_tensor(tensor.contiguous(), reduce_op, scatter_dim, group))


def all_to_all(tensor, mesh, mesh_dim):
    """Exchanges the parts of a tensor, one for each rank in its first dimension."""
    return _arrived(funcol.all_to_all_single(tensor.contiguous(), None, None, (mesh, mesh_dim)))


def padded(tensor, dim, size):
    """A tensor with zeros at its end, so that it has `size` elements along `dim`."""
    missing = size - tensor.size(dim)
    if missing == 0:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = missing
    return corten.cat([tensor, tensor.new_zeros(shape)], dim)


class Placement:
    """How a tensor lies along one dimension of a mesh: :class:`Shard`, :class:`Replicate` or :class:`Partial`."""

    def is_shard(self, dim=None):
        """Whether the ranks hold parts, along `dim` where it is given."""
        return False

    def is_replicate(self):
        """Whether every rank holds the whole."""
        return False

    def is_partial(self, reduce_op=None):
        """Whether the ranks hold terms of a reduction, of the kind `reduce_op` where it is given."""
        return False

    def _key(self):
        return ()

    def __eq__(self, other):
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self):
        return hash((type(self).__name__, *self._key()))


class _Parts(Placement):
    """The ranks hold parts along a dimension."""

    def __init__(self, dim):
        self.dim = dim

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """The length of a rank's part, and where it begins; a part without elements begins at the end."""
        full = -(-curr_local_size // num_chunks)
        start = min(full * rank, curr_local_size)
        return min(full, curr_local_size - start), start

    @staticmethod
    def _local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        return _Parts.local_shard_size_and_offset(curr_local_size, num_chunks, rank)

    def _split_tensor(self, tensor, num_chunks, *, with_padding=True, contiguous=True):
        """The parts of a tensor, and how many elements were put at the end of each to make them equally long."""
        if self.dim >= tensor.ndim:
            raise AssertionError(f"Sharding dim {self.dim} greater than tensor ndim {tensor.ndim}")
        total, parts, pads = tensor.size(self.dim), [], []
        full = -(-total // num_chunks)
        for rank in range(num_chunks):
            size, start = self.local_shard_size_and_offset(total, num_chunks, rank)
            part = tensor.narrow(self.dim, start, size)
            pads.append(full - size if with_padding else 0)
            part = padded(part, self.dim, full) if with_padding else part
            parts.append(part.contiguous() if contiguous else part)
        return parts, pads

    def _select_split_tensor(self, tensor, num_chunks, index):
        """The part of a rank."""
        size, start = self.local_shard_size_and_offset(tensor.size(self.dim), num_chunks, index)
        return tensor.narrow(self.dim, start, size).clone(memory_format=corten.contiguous_format)

    def _replicate_to_shard(self, local_tensor, mesh, mesh_dim, shard_index):
        """The part of a rank of what every rank holds."""
        return self._select_split_tensor(local_tensor, mesh.size(mesh_dim), shard_index)

    def _to_replicate_tensor(self, local_tensor, mesh, mesh_dim, current_logical_shape):
        """The whole, of shape `current_logical_shape`, from the parts of the ranks."""
        ranks, total = mesh.size(mesh_dim), current_logical_shape[self.dim]
        full = -(-total // ranks)
        gathered = all_gather(padded(local_tensor, self.dim, full), self.dim, mesh, mesh_dim)
        # All parts in front of the last one with elements are full, so that padding is at the end alone.
        return gathered if full * ranks == total else gathered.narrow(self.dim, 0, total).contiguous()

    def _reduce_shard_tensor(self, tensor, mesh, reduce_op, mesh_dim):
        """The part of a rank of the reduction of what the ranks hold."""
        ranks, total, rank = mesh.size(mesh_dim), tensor.size(self.dim), mesh.get_local_rank(mesh_dim)
        whole = padded(tensor, self.dim, -(-total // ranks) * ranks)
        part = _reduce_scatter(whole, reduce_op, self.dim, mesh, mesh_dim)
        size, _ = self.local_shard_size_and_offset(total, ranks, rank)
        return part if part.size(self.dim) == size else part.narrow(self.dim, 0, size).contiguous()

    def _to_new_shard_dim(self, local_tensor, mesh, mesh_dim, current_logical_shape, new_shard_dim):
        """The part along another dimension, by one exchange among the ranks."""
        ranks, old, new = mesh.size(mesh_dim), self.dim, new_shard_dim
        rows, columns = current_logical_shape[old], current_logical_shape[new]
        width = -(-columns // ranks)
        mine = padded(padded(local_tensor, old, -(-rows // ranks)), new, width * ranks)
        # The parts that go to each rank come first: [rank, ...].
        sent = mine.unflatten(new, (ranks, width)).movedim(new, 0)
        received = all_to_all(sent, mesh, mesh_dim)
        joined = received.movedim(0, old).flatten(old, old + 1).narrow(old, 0, rows)
        size, _ = self.local_shard_size_and_offset(columns, ranks, mesh.get_local_rank(mesh_dim))
        return joined.narrow(new, 0, size).contiguous()

    def _shard_tensor(self, tensor, mesh, mesh_dim, src_data_rank=0):
        """The part of this rank of a tensor of the rank `src_data_rank` of the group, which sends the parts;
        of this rank's own tensor where `src_data_rank` is None."""
        from corten.distributed.tensor._collective_utils import scatter_parts

        rank = mesh.get_local_rank(mesh_dim)
        if src_data_rank is None:
            return self._replicate_to_shard(tensor, mesh, mesh_dim, rank)
        parts, pads = self._split_tensor(tensor, mesh.size(mesh_dim))
        part = scatter_parts(parts, mesh, mesh_dim, src_data_rank)
        return part.narrow(self.dim, 0, part.size(self.dim) - pads[rank]).contiguous() if pads[rank] else part


class Shard(_Parts):
    """Rank `i` holds the part `i` of the parts that ``tensor.chunk(ranks, dim)`` makes; ranks for which there is
    none hold an empty part."""

    def _key(self):
        return (self.dim,)

    def __repr__(self):
        return f"Shard(dim={self.dim})"

    def __str__(self):
        return f"S({self.dim})"

    def is_shard(self, dim=None):
        return dim is None or self.dim == dim


class _StridedShard(_Parts):
    """A part of each of `split_factor` pieces of a dimension: what a dimension of a mesh holds that splits after
    the dimensions of the mesh to its right. The ranks of those hold the pieces."""

    def __init__(self, dim, *, split_factor):
        super().__init__(dim)
        self.split_factor = split_factor

    def _key(self):
        return (self.dim, self.split_factor)

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"

    def _order(self, total, ranks):
        """The elements of each rank, in order."""
        full = -(-total // self.split_factor)
        pieces = [range(i, min(i + full, total)) for i in range(0, max(total, 1), max(full, 1))]
        found = [[] for _ in range(ranks)]
        for piece in pieces:
            for rank in range(ranks):
                size, start = self.local_shard_size_and_offset(len(piece), ranks, rank)
                found[rank].extend(piece[start:start + size])
        return found

    def _split_tensor(self, tensor, num_chunks, *, with_padding=True, contiguous=True):
        order = self._order(tensor.size(self.dim), num_chunks)
        full = max(map(len, order))
        parts = [
            tensor.index_select(self.dim, corten.tensor(one, dtype=corten.int64, device=tensor.device))
            for one in order
        ]
        if not with_padding:
            return parts, [0] * num_chunks
        return [padded(part, self.dim, full) for part in parts], [full - len(one) for one in order]

    def _select_split_tensor(self, tensor, num_chunks, index):
        return self._split_tensor(tensor, num_chunks, with_padding=False)[0][index]

    def _to_replicate_tensor(self, local_tensor, mesh, mesh_dim, current_logical_shape):
        ranks = mesh.size(mesh_dim)
        order = self._order(current_logical_shape[self.dim], ranks)
        full = max(map(len, order))
        gathered = all_gather(padded(local_tensor, self.dim, full), self.dim, mesh, mesh_dim)
        at = [0] * current_logical_shape[self.dim]
        for rank, elements in enumerate(order):
            for place, element in enumerate(elements):
                at[element] = rank * full + place
        return gathered.index_select(self.dim, corten.tensor(at, dtype=corten.int64, device=gathered.device))

    def _reduce_shard_tensor(self, tensor, mesh, reduce_op, mesh_dim):
        reduced = _all_reduce(tensor, reduce_op, mesh, mesh_dim)
        return self._replicate_to_shard(reduced, mesh, mesh_dim, mesh.get_local_rank(mesh_dim))

    def _to_new_shard_dim(self, local_tensor, mesh, mesh_dim, current_logical_shape, new_shard_dim):
        whole = self._to_replicate_tensor(local_tensor, mesh, mesh_dim, current_logical_shape)
        rank = mesh.get_local_rank(mesh_dim)
        return Shard(new_shard_dim)._replicate_to_shard(whole, mesh, mesh_dim, rank)


class Replicate(Placement):
    """Every rank holds the whole."""

    def __repr__(self):
        return "Replicate()"

    def __str__(self):
        return "R"

    def is_replicate(self):
        return True

    def _replicate_tensor(self, tensor, mesh, mesh_dim, src_data_rank=0):
        """The tensor of the rank `src_data_rank` of the group; this rank's own where it is None."""
        from corten.distributed.tensor._collective_utils import broadcast_from

        if src_data_rank is None:
            return tensor
        return broadcast_from(tensor, mesh, mesh_dim, src_data_rank)


class Partial(Placement):
    """Every rank holds a term of the shape of the whole, which is their reduction: ``sum``, ``avg``,
    ``product``, ``max`` or ``min``."""

    LINEAR_REDUCE_OPS = frozenset({"sum", "avg"})
    ALL_REDUCE_OPS = frozenset({"sum", "avg", "product", "max", "min", "band", "bor", "bxor"})

    def __init__(self, reduce_op="sum"):
        self.reduce_op = reduce_op

    def _key(self):
        return (self.reduce_op,)

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"

    def is_partial(self, reduce_op=None):
        return reduce_op is None or self.reduce_op == reduce_op

    def _reduce_value(self, tensor, mesh, mesh_dim):
        """The reduction, on every rank."""
        return _all_reduce(tensor, self.reduce_op, mesh, mesh_dim)

    def _reduce_shard_value(self, tensor, mesh, mesh_dim, shard_spec):
        """The part of this rank of the reduction."""
        return shard_spec._reduce_shard_tensor(tensor, mesh, self.reduce_op, mesh_dim)

    def _partition_value(self, tensor, mesh, mesh_dim):
        """A term of this rank whose reduction is `tensor`, which every rank holds."""
        if self.reduce_op == "sum":
            # Exact, unlike equal shares.
            return tensor if mesh.get_local_rank(mesh_dim) == 0 else corten.zeros_like(tensor)
        if self.reduce_op in ("avg", "max", "min"):
            return tensor
        raise ValueError(f"Replicate to Partial({self.reduce_op}) conversion is not supported.")


class _NormPartial(Partial):
    """Every rank holds the norm of its part of a tensor; the norm of the whole is the norm of these."""

    def __init__(self, norm_type=2):
        self.norm_type = norm_type
        infinite = {float("inf"): "max", float("-inf"): "min"}
        super().__init__(infinite.get(norm_type, "sum"))

    def _key(self):
        return (self.reduce_op, self.norm_type)

    def __repr__(self):
        return f"_NormPartial({self.norm_type})"

    __str__ = __repr__

    def _finite(self):
        return self.reduce_op == "sum" and self.norm_type not in (0, 1)

    def _reduce_value(self, tensor, mesh, mesh_dim):
        if not self._finite():
            return super()._reduce_value(tensor, mesh, mesh_dim)
        total = super()._reduce_value(tensor ** self.norm_type, mesh, mesh_dim)
        return total ** (1.0 / self.norm_type)

    def _reduce_shard_value(self, tensor, mesh, mesh_dim, shard_spec):
        if not self._finite():
            return super()._reduce_shard_value(tensor, mesh, mesh_dim, shard_spec)
        total = super()._reduce_shard_value(tensor ** self.norm_type, mesh, mesh_dim, shard_spec)
        return total ** (1.0 / self.norm_type)

    def _partition_value(self, tensor, mesh, mesh_dim):
        if self.reduce_op in ("max", "min"):
            return tensor
        if self.norm_type < 0:
            raise NotImplementedError(f"a norm of order {self.norm_type} is not taken apart into terms of ranks")
        # The norm of a number and zeros is the number.
        return tensor if mesh.get_local_rank(mesh_dim) == 0 else corten.zeros_like(tensor)
