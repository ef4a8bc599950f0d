"""Products of matrices, and attention."""

from __future__ import annotations

from corten.distributed.tensor._op_schema import Candidate
from corten.distributed.tensor._sharding_prop import rule
from corten.distributed.tensor.placement_types import Partial, Replicate, Shard, _StridedShard

__all__ = []


def product(call, mesh_dim, left, right, batch):
    """Candidates of a product: the rows or columns of the result, a batch, or the terms of its sums."""
    row, inner, column = batch, batch + 1, batch + 1
    found = []

    def add(out, a, b):
        found.append((out, a, b))

    add(Replicate(), Replicate(), Replicate())
    for dim in range(batch):
        add(Shard(dim), Shard(dim), Shard(dim))
    add(Shard(row), Shard(row), Replicate())
    add(Shard(column), Replicate(), Shard(column))
    add(Partial(), Shard(inner), Shard(row))
    a, b = (call.specs[i].placements[mesh_dim] for i in (left, right))
    if isinstance(a, _StridedShard) and a.dim == row:
        add(a, a, Replicate())
    if isinstance(b, _StridedShard) and b.dim == column:
        add(b, Replicate(), b)
    if isinstance(a, _StridedShard) and isinstance(b, _StridedShard) and (
            a.dim, b.dim, a.split_factor) == (inner, row, b.split_factor):
        add(Partial(), a, b)
    if a in (Partial("sum"), Partial("avg")):
        add(a, a, Replicate())
    if b in (Partial("sum"), Partial("avg")):
        add(b, Replicate(), b)
    return found


@rule("mm", "bmm")
def products(call, mesh_dim):
    """``self @ mat2``."""
    return [Candidate([out], [a, b]) for out, a, b in product(call, mesh_dim, 0, 1, call.specs[0].ndim - 2)]


@rule("addmm", "baddbmm")
def added_products(call, mesh_dim):
    """``beta * self + alpha * mat1 @ mat2``; what is added is broadcast to the result. Terms of sums need it as a
    term, too."""
    added, batch = call.specs[0], call.specs[1].ndim - 2
    shape = call.results[0].shape
    found = []
    for out, a, b in product(call, mesh_dim, 1, 2, batch):
        if isinstance(out, (Shard, _StridedShard)):
            own = out.dim - (len(shape) - added.ndim)
            if own < 0 or (added.shape[own] == 1 and shape[out.dim] != 1):
                term = Replicate()
            elif isinstance(out, _StridedShard):
                term = _StridedShard(own, split_factor=out.split_factor)
            else:
                term = Shard(own)
        else:
            term = out
        found.append(Candidate([out], [term, a, b]))
    return found


@rule("dot", "vdot")
def dots(call, mesh_dim):
    """The sum of the products of elements."""
    return [call.replicated(), Candidate([Partial()], [Shard(0), Shard(0)])]


@rule("mv")
def matrix_vectors(call, mesh_dim):
    """``self @ vec``."""
    return [call.replicated(), Candidate([Shard(0)], [Shard(0), Replicate()]),
            Candidate([Partial()], [Shard(1), Shard(0)])]


_ATTENTION = ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math",
              "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
              "_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_cudnn_attention")


def _mask(call, dim):
    """The placement of a mask that is broadcast to [batch, heads, rows, columns], for parts along `dim`."""
    for name in ("attn_mask", "attn_bias"):
        at = call.at(name)
        if at is not None:
            spec = call.specs[at]
            own = dim - (4 - spec.ndim)
            return name, Replicate() if own < 0 or spec.shape[own] == 1 else Shard(own)
    return None, None


def _is_random(call):
    return (call.get("dropout_p") or 0.0) > 0.0


@rule(*_ATTENTION)
def attention(call, mesh_dim):
    """Parts of the batch or of the heads; with dropout the whole, as the random numbers are those of the whole."""
    found = [call.replicated()]
    query, key = call.spec("query"), call.spec("key")
    if query.ndim != 4 or _is_random(call):
        return found
    dims = (0, 1) if query.shape[1] == key.shape[1] else (0,)
    for dim in dims:
        name, mask = _mask(call, dim)
        given = {"query": Shard(dim), "key": Shard(dim), "value": Shard(dim)} | ({name: mask} if name else {})
        # Results that are no parts of the batch and of the heads are states of generators.
        outputs = [
            None if one is None else Shard(dim) if len(one.shape) >= 3 else Replicate() for one in call.results]
        found.append(Candidate(outputs, call.inputs(**given)))
    return found


@rule(*(f"{name}_backward" for name in _ATTENTION))
def attention_gradient(call, mesh_dim):
    """As the operator itself."""
    found = [call.replicated()]
    if call.spec("query").ndim != 4 or _is_random(call):
        return found
    dims = (0, 1) if call.spec("query").shape[1] == call.spec("key").shape[1] else (0,)
    for dim in dims:
        name, mask = _mask(call, dim)
        given = [Shard(dim) if spec.ndim >= 3 else Replicate() for spec in call.specs]
        if name:
            given[call.at(name)] = mask
            if call.results and len(call.results) > 3 and call.results[3] is not None:
                # The gradient of a mask that is broadcast is a sum over the ranks.
                last = mask if isinstance(mask, Shard) else Partial()
                found.append(Candidate([Shard(dim)] * 3 + [last], given))
                continue
        found.append(Candidate([None if one is None else Shard(dim) for one in call.results], given))
    return found
