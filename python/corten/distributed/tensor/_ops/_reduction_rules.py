"""Reductions of dimensions, and operators that see whole rows."""

from __future__ import annotations

from corten.distributed.tensor._op_schema import Candidate, all_dims
from corten.distributed.tensor._sharding_prop import rule
from corten.distributed.tensor.placement_types import Partial, Replicate, _NormPartial, _Parts, _StridedShard

__all__ = ["reduced", "rows"]


def moved(placement, dim):
    """Parts along another dimension."""
    if isinstance(placement, _StridedShard):
        return _StridedShard(dim, split_factor=placement.split_factor)
    return type(placement)(dim)


def reduced(call, mesh_dim, dims, keepdim, terms, linear=False):
    """Candidates of a reduction. Parts along a reduced dimension give `terms` (None where there is no such
    reduction), other parts stay."""
    spec = call.specs[0]
    one = spec.placements[mesh_dim]
    found = [call.replicated()]
    count = len(call.results) or 1
    if isinstance(one, _Parts):
        if one.dim in dims:
            if terms is not None:
                found.append(Candidate([terms] * count, call.inputs(**{call.names[0]: one})))
        else:
            shift = 0 if keepdim else sum(dim < one.dim for dim in dims)
            kept = moved(one, one.dim - shift)
            found.append(Candidate([kept] * count, call.inputs(**{call.names[0]: one})))
    elif linear and type(one) is Partial and one.reduce_op in Partial.LINEAR_REDUCE_OPS:
        found.append(Candidate([one] * count, [one]))
    return found


def _is_even(spec, dims):
    """Whether all ranks have equally many elements to reduce."""
    parts = [1] * spec.ndim
    for i, one in enumerate(spec.placements):
        if isinstance(one, _Parts):
            parts[one.dim] *= spec.mesh.size(i)
    return all(spec.shape[dim] % parts[dim] == 0 for dim in dims)


def _has_empty(spec, dims):
    """Whether a rank may have nothing to reduce."""
    sizes = tuple(spec.mesh.shape)
    coordinates = [size - 1 for size in sizes]
    from corten.distributed.tensor._dtensor_spec import local_length

    return any(local_length(spec.shape[dim], dim, spec.placements, sizes, coordinates) == 0 for dim in dims)


def _dims(call):
    return all_dims(call.get("dim"), call.specs[0].ndim)


@rule("sum", "nansum", "count_nonzero")
def sums(call, mesh_dim):
    """Sums: terms of sums."""
    linear = call.name == "sum" and (call.specs[0].dtype.is_floating_point or call.specs[0].dtype.is_complex)
    return reduced(call, mesh_dim, _dims(call), bool(call.get("keepdim")), Partial(), linear=linear)


@rule("mean")
def means(call, mesh_dim):
    """Means: terms of means where all ranks have equally many elements."""
    dims = _dims(call)
    terms = Partial("avg") if _is_even(call.specs[0], dims) else None
    return reduced(call, mesh_dim, dims, bool(call.get("keepdim")), terms, linear=True)


@rule("amax", "amin", "prod", "max.default", "min.default")
def extremes(call, mesh_dim):
    """Greatest and least elements, and products."""
    kind = {"amax": "max", "max": "max", "amin": "min", "min": "min", "prod": "product"}[call.name]
    dims = _dims(call)
    terms = Partial(kind) if kind == "product" or not _has_empty(call.specs[0], dims) else None
    return reduced(call, mesh_dim, dims, bool(call.get("keepdim")), terms)


@rule("max.dim", "min.dim", "argmax", "argmin", "any", "all", "logsumexp", "median.dim", "nanmedian.dim", "mode",
      "aminmax", "median.default", "nanmedian.default", "std", "var", "std_mean", "var_mean", "kthvalue")
def whole_reductions(call, mesh_dim):
    """Reductions whose terms are not reduced further."""
    return reduced(call, mesh_dim, _dims(call), bool(call.get("keepdim")), None)


@rule("linalg_vector_norm", "norm")
def norms(call, mesh_dim):
    """Norms: the norms of parts have the norm of the whole as theirs."""
    order = call.get("ord", call.get("p"))
    order = 2 if order is None else order
    dims = _dims(call)
    terms = _NormPartial(order)
    if terms.reduce_op != "sum" and _has_empty(call.specs[0], dims):
        terms = None
    return reduced(call, mesh_dim, dims, bool(call.get("keepdim")), terms)


def rows(call, mesh_dim, dims):
    """Candidates of operators that see whole rows along some dimensions and keep the shape: parts along others."""
    ndim = call.specs[0].ndim
    found = [call.replicated()]
    for spec in call.specs:
        one = spec.placements[mesh_dim]
        if isinstance(one, _Parts) and spec.ndim == ndim and one.dim not in dims:
            found.append(Candidate([one] * len(call.results), [
                one if other.ndim == ndim else Replicate() for other in call.specs]))
    return found


@rule("_softmax", "_log_softmax", "softmax", "log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
      "_safe_softmax", "cumsum", "cumprod", "logcumsumexp", "sort", "argsort", "topk", "cummax", "cummin", "flip",
      "roll")
def row_operators(call, mesh_dim):
    """Softmax, running sums, sorting, and moving elements within dimensions."""
    ndim = call.specs[0].ndim
    given = call.get("dim", call.get("dims"))
    if given is None and call.name in ("sort", "argsort", "topk"):
        given = -1
    dims = all_dims(given, ndim) if ndim else []
    return rows(call, mesh_dim, dims)


@rule("tril", "triu")
def triangles(call, mesh_dim):
    """Triangles of the last two dimensions; parts of batches."""
    ndim = call.specs[0].ndim
    return rows(call, mesh_dim, [ndim - 2, ndim - 1]) + _linear(call, mesh_dim)


def _linear(call, mesh_dim):
    one = call.specs[0].placements[mesh_dim]
    keeps = type(one) is Partial and one.reduce_op in Partial.LINEAR_REDUCE_OPS
    return [Candidate([one], [one])] if keeps else []


@rule("linalg_qr", "linalg_svd", "_linalg_svd", "_linalg_eigh", "linalg_inv_ex", "linalg_cholesky_ex",
      "_linalg_slogdet", "_linalg_det", "linalg_lu_factor_ex", "_linalg_solve_ex", "triangular_solve",
      "linalg_solve_triangular", "cholesky", "linalg_lu", "linalg_householder_product")
def matrices(call, mesh_dim):
    """Factorisations: every rank computes the whole."""
    return [call.replicated()]
