"""Operators that pick elements by numbers of places, among them embeddings."""

from __future__ import annotations

import corten
from corten.distributed.tensor._dtensor_spec import DTensorSpec
from corten.distributed.tensor._op_schema import Candidate, Decision, positive
from corten.distributed.tensor._ops._reduction_rules import moved
from corten.distributed.tensor._sharding_prop import choose, rule, whole_rule
from corten.distributed.tensor._utils import _compute_local_shape_and_global_offset
from corten.distributed.tensor.placement_types import Partial, Replicate, Shard, _Parts

__all__ = []


class _MaskPartial(Partial):
    """Every rank holds the rows of a table that it has, and zeros for the others: terms of a sum."""

    def __init__(self, reduce_op="sum", offset_shape=None, offset_dim=0):
        super().__init__(reduce_op)
        self.offset_shape, self.offset_dim = offset_shape, offset_dim

    def _key(self):
        return (self.reduce_op, self.offset_shape, self.offset_dim)

    def __repr__(self):
        return (f"_MaskPartial(reduce_op={self.reduce_op}, offset_shape={self.offset_shape}, "
                f"offset_dim={self.offset_dim})")

    def __str__(self):
        return "MaskP"


def _range(spec, dim, mesh, placements):
    """The first place along `dim` that this rank holds, and how many."""
    shape, offset = _compute_local_shape_and_global_offset(
        tuple(spec.shape), tuple(mesh.shape), mesh.get_coordinate(), placements)
    return offset[dim], shape[dim]


def _held(indices, start, count):
    """Places among a rank's own, and which of them it does not hold."""
    absent = (indices < start) | (indices >= start + count)
    return (indices - start).masked_fill(absent, 0), absent


def _embedding_candidates(call, mesh_dim):
    indices = call.spec("indices")
    found = [call.replicated(), call.candidate(Shard(indices.ndim), weight=Shard(1))]
    one = indices.placements[mesh_dim]
    if isinstance(one, _Parts):
        found.append(call.candidate(one, indices=one))
    weight = call.current("weight", mesh_dim)
    if weight == Shard(0):
        terms = _MaskPartial("sum", tuple(call.spec("weight").shape), 0)
        found.append(call.candidate(terms, weight=weight))
    return found


@whole_rule("embedding")
def embedding(call):
    """Rows of a table: parts of the places, of the columns, or of the rows, which gives terms of a sum."""
    decision = choose(call, _embedding_candidates)
    if not any(isinstance(one, _MaskPartial) for one in decision.outputs[0]):
        return decision
    weight: DTensorSpec = call.spec("weight")
    placements = decision.inputs[call.at("weight")]

    def run(func, args, kwargs, mesh):
        table, indices = args[:2]
        start, count = _range(weight, 0, mesh, placements)
        places, absent = _held(indices, start, count)
        if count == 0:
            return table.new_zeros((*indices.shape, table.shape[1]))
        picked = func(table, places, -1, *args[3:], **kwargs)
        return picked.masked_fill(absent.unsqueeze(-1), 0.0)

    decision.run = run
    return decision


def _embedding_gradient_candidates(call, mesh_dim):
    gradient, indices = call.spec("grad_output"), call.spec("indices")
    found = [call.replicated(),
             call.candidate(Shard(1), grad_output=Shard(gradient.ndim - 1))]
    for dim in range(indices.ndim):
        found.append(call.candidate(Partial(), grad_output=Shard(dim), indices=Shard(dim)))
    one = gradient.placements[mesh_dim]
    if type(one) is Partial and one.reduce_op in Partial.LINEAR_REDUCE_OPS and not call.get("scale_grad_by_freq"):
        found.append(call.candidate(one, grad_output=one))
    if call.get("scale_grad_by_freq"):
        return found[:2]
    return found


@rule("embedding_dense_backward")
def embedding_gradient(call, mesh_dim):
    """The gradient of the table: columns, or terms of the places of each rank."""
    return _embedding_gradient_candidates(call, mesh_dim)


def _gather_candidates(call, mesh_dim):
    source, index = call.specs[0], call.spec("index")
    at = positive(call["dim"], source.ndim) if source.ndim else 0
    found = [call.replicated()]
    one = call.current("index", mesh_dim)
    if isinstance(one, _Parts):
        if one.dim == at:
            found.append(call.candidate(one, index=one))
        elif source.shape[one.dim] == index.shape[one.dim]:
            found.append(call.candidate(one, self=one, index=one))
    one = call.current("self", mesh_dim)
    if isinstance(one, _Parts) and one.dim != at and source.shape[one.dim] == index.shape[one.dim]:
        found.append(call.candidate(one, self=one, index=one))
    elif one == Shard(at) and index.ndim == source.ndim:
        terms = _MaskPartial("sum", tuple(source.shape), at)
        found.append(call.candidate(terms, self=one))
    return found


@whole_rule("gather")
def gather(call):
    """Elements by places: parts along other dimensions, parts of the places, or terms where the source is in parts
    along the dimension."""
    decision = choose(call, _gather_candidates)
    if not any(isinstance(one, _MaskPartial) for one in decision.outputs[0]):
        return decision
    source: DTensorSpec = call.specs[0]
    at, placements = positive(call["dim"], source.ndim), decision.inputs[0]

    def run(func, args, kwargs, mesh):
        held, dim, index = args[:3]
        start, count = _range(source, at, mesh, placements)
        places, absent = _held(index, start, count)
        if count == 0:
            return held.new_zeros(index.shape)
        return func(held, dim, places).masked_fill(absent, 0)

    decision.run = run
    return decision


@rule("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "put",
      "masked_scatter", "masked_select", "take", "bincount", "unique_dim", "_unique2", "histc", "searchsorted",
      "bucketize")
def scattered(call, mesh_dim):
    """Writes at places: parts along dimensions in which all shapes agree."""
    found = [call.replicated()]
    if not call.name.startswith("scatter"):
        return found if call.name not in ("index_add", "index_copy", "index_fill") else found + _index_parts(
            call, mesh_dim)
    target = call.specs[0]
    at = positive(call["dim"], target.ndim) if target.ndim else 0
    for spec in call.specs:
        one = spec.placements[mesh_dim]
        if isinstance(one, _Parts) and one.dim != at and all(
                other.ndim == target.ndim and other.shape[one.dim] == target.shape[one.dim] for other in call.specs):
            found.append(Candidate([one], [one] * len(call.specs)))
    if call.name.startswith("scatter_add"):
        found += _added_terms(call, mesh_dim, at)
    return found


def _added_terms(call, mesh_dim, at):
    """Terms of sums of what each rank adds at places."""
    one = call.current("index", mesh_dim)
    target = call.current("self", mesh_dim)
    if isinstance(one, _Parts) and target == Partial() and one.dim == at:
        return [Candidate([Partial()], call.inputs(self=Partial(), index=one, src=one))]
    if target == Partial() and call.at("src") is not None and call.current("src", mesh_dim) == Partial():
        return [call.candidate(Partial(), self=Partial(), src=Partial())]
    return []


def _index_parts(call, mesh_dim):
    target = call.specs[0]
    at = positive(call["dim"], target.ndim) if target.ndim else 0
    one = call.current("self", mesh_dim)
    if not isinstance(one, _Parts) or one.dim == at:
        return []
    source = {"source": one} if call.at("source") is not None and call.spec("source").ndim == target.ndim else {}
    return [call.candidate(one, self=one, **source)]


@rule("index_select")
def index_select(call, mesh_dim):
    """Rows by places: parts along other dimensions, or of the places."""
    source = call.specs[0]
    at = positive(call["dim"], source.ndim) if source.ndim else 0
    found = [call.replicated()]
    one = call.current("self", mesh_dim)
    if isinstance(one, _Parts) and one.dim != at:
        found.append(call.candidate(one, self=one))
    elif type(one) is Partial and one.reduce_op in Partial.LINEAR_REDUCE_OPS:
        found.append(call.candidate(one, self=one))
    if isinstance(call.current("index", mesh_dim), _Parts):
        found.append(call.candidate(Shard(at), index=Shard(0)))
    return found


def _layout(call):
    """Of ``self[indices]``: the dimensions that are indexed, and where those of the indices are in the result."""
    given = [(dim, one) for dim, one in enumerate(call["indices"]) if one is not None]
    dims = [dim for dim, _ in given]
    width = max(one.ndim for _, one in given)
    together = dims == list(range(dims[0], dims[0] + len(dims)))
    return dims, width, dims[0] if together else 0


def _is_mask(call):
    return any(one is not None and one.dtype in (corten.bool, corten.uint8) for one in call["indices"])


def _kept_dim(dim, dims, width, at):
    """Where a dimension that is not indexed is in the result."""
    rest = dim - sum(one < dim for one in dims)
    return rest + (width if rest >= at else 0)


@rule("index", "_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl")
def indexed(call, mesh_dim):
    """Elements by tensors of places, read or written: parts along dimensions without places, and, where they are
    read, parts of the places."""
    found = [call.replicated()]
    if _is_mask(call):
        return found
    dims, width, at = _layout(call)
    one = call.current("self", mesh_dim)
    writes = "put" in call.name
    if isinstance(one, _Parts) and one.dim not in dims:
        after = moved(one, _kept_dim(one.dim, dims, width, at))
        if not writes:
            found.append(call.candidate(after, self=one))
        else:
            values = call.spec("values")
            own = after.dim - (call.specs[0].ndim - len(dims) + width - values.ndim)
            is_broadcast = own < 0 or values.shape[own] == 1
            found.append(call.candidate(one, self=one, values=Replicate() if is_broadcast else moved(one, own)))
    if not writes:
        found += _parts_of_places(call, mesh_dim, width, at)
        if type(one) is Partial and one.reduce_op in Partial.LINEAR_REDUCE_OPS:
            found.append(call.candidate(one, self=one))
    elif call.get("accumulate"):
        found += _accumulated_terms(call, mesh_dim, width, at)
    return found


def _places_of(call, dim, width, make):
    """The placements of the tensors of places for parts along one of their broadcast dimensions."""
    placements = []
    for one in call["indices"]:
        if one is None:
            placements.append(None)
            continue
        own = dim - (width - one.ndim)
        placements.append(make(own) if own >= 0 and one.shape[own] != 1 else Replicate())
    return placements


def _parts_of_places(call, mesh_dim, width, at):
    found = []
    for spec, name in zip(call.specs, call.names):
        one = spec.placements[mesh_dim]
        if name == "indices" and isinstance(one, _Parts):
            dim = one.dim + width - spec.ndim
            found.append(call.candidate(Shard(at + dim), indices=_places_of(call, dim, width, Shard)))
    return found


def _accumulated_terms(call, mesh_dim, width, at):
    """Terms of sums: each rank adds the values of its places."""
    one, values = call.current("self", mesh_dim), call.spec("values")
    if one != Partial() and not one.is_replicate():
        return []
    found = []
    if values.placements[mesh_dim] == Partial():
        found.append(call.candidate(Partial(), self=Partial(), values=Partial()))
    ndim = call.specs[0].ndim - sum(index is not None for index in call["indices"]) + width
    for dim in range(width):
        own = at + dim - (ndim - values.ndim)
        if own >= 0 and values.placements[mesh_dim] == Shard(own) and values.shape[own] != 1:
            found.append(call.candidate(
                Partial(), self=Partial(), values=Shard(own), indices=_places_of(call, dim, width, Shard)))
    return found


@whole_rule("one_hot")
def one_hot(call):
    """Rows of zeros with a one: parts of the places."""
    placements = call.specs[0].placements
    return Decision([placements], [placements])
