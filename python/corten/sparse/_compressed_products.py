"""Products of compressed matrices."""

from __future__ import annotations

import math

import corten
from corten import _C
from corten._utils import scalar_type

from . import _entries
from ._compressed import (
    CSR, NAMES, OPERATORS, CompressedTensor, assembled, batches, block, by_rows, coordinates, dense_of,
    in_blocks, like, values_of,
)
from ._compressed_operators import _become, _written
from ._compressed_views import transposed
from ._layouts import arranged, converted


def _product(a, b):
    """Entries times the rows of ``b`` they meet, added up by the rows of ``a``."""
    (_, row, column), values = coordinates(a), _entries._for_sums(a._parts[2])
    kind, b = b.dtype, _entries._for_sums(b)
    if not in_blocks(a._kind):
        made = b.new_zeros((a.shape[0], b.shape[1]))
        return made.index_add(0, row, values[:, None] * b[column]).to(kind)
    height, width = block(a)
    made = b.new_zeros((a.shape[0] // max(height, 1), height, b.shape[1]))
    right = b.reshape(b.shape[0] // max(width, 1), width, b.shape[1])[column]
    return made.index_add(0, row, values @ right).reshape(a.shape[0], b.shape[1]).to(kind)


# The gradient of the compressed matrix is dense: it says what new entries would change, too.
_recorded_product = _entries.recorded(
    "Mm", lambda a, b: _product(a.detach(), b.detach()),
    lambda grad, a, b: (
        corten.mm(grad, b.mH) if a.requires_grad else None,
        _mm(transposed(a, 0, 1).conj(), grad) if b.requires_grad else None,
    ),
)


def _checked(a, b):
    for name, x in (("self", a), ("mat2", b)):
        if x.dim() != 2:
            raise RuntimeError(f"addmm: {name} must be a matrix, got {x.dim()}-D tensor")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"addmm: mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype != b.dtype:
        kinds = [scalar_type(x.dtype) for x in (a, b)]
        raise RuntimeError(f"expected scalar type {kinds[0]} but found {kinds[1]}")
    layouts = {a.layout, b.layout} - {_C.strided}
    if _C.sparse_coo in layouts or len(layouts) == 2 and any(map(in_blocks, layouts)):
        raise RuntimeError(
            f"addmm: computation on CPU is not implemented for {NAMES[a.layout]} + {NAMES[a.layout]} "
            f"@ {NAMES[b.layout]}"
        )


def _mm(a, b, *, out=None):
    """A product of matrices, at least one of them compressed; of two it is compressed by rows."""
    _checked(a, b)
    if isinstance(a, CompressedTensor) and isinstance(b, CompressedTensor):
        made = _compressed_product(a, b)
        if out is None:
            return made
        return out.copy_(dense_of(made)) if out.layout == _C.strided else _become(out, made)
    if not isinstance(a, CompressedTensor):
        made = _mm(transposed(b, 0, 1), a.t()).t()
    elif corten.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        made = _recorded_product(a, b)
    else:
        made = _product(a, b)
    return made if out is None else out.copy_(made)


def masked_product(a, b):
    """The product of a CSR matrix and another; gradients reach the entries of the first only."""
    if isinstance(b, CompressedTensor) or not (a.requires_grad and corten.is_grad_enabled()):
        return _mm(a, b)
    _checked(a, b)
    _, row, column = coordinates(a)
    values, kind, b = _entries._for_sums(values_of(a)), b.dtype, _entries._for_sums(b)
    made = b.new_zeros((a.shape[0], b.shape[1]))
    return made.index_add(0, row, values[:, None] * b[column]).to(kind)


def _compressed_product(a, b):
    """Every entry of ``a`` meets the entries of one row of ``b``."""
    if in_blocks(a._kind):
        raise RuntimeError(
            "zeros_sparse_compressed expected sparse compressed (non-block) tensor layout but got "
            f"{NAMES[a._kind]}"
        )
    b = converted(b, CSR)
    (_, row, column), (ends, plain, _) = coordinates(a), b._parts
    ends = ends.to(corten.int64)
    counts = ends.diff()[column]
    starts = ends[:-1][column].repeat_interleave(counts)
    before = (counts.cumsum(0) - counts).repeat_interleave(counts)
    met = starts + corten.arange(starts.numel(), device=starts.device) - before
    values = values_of(a).repeat_interleave(counts, 0) * values_of(b)[met]
    places = corten.zeros_like(met), row.repeat_interleave(counts), plain[met].to(corten.int64)
    return arranged(places, values, (a.shape[0], b.shape[1]), CSR, 0, a._parts[0].dtype, True)


def _mv(a, b, *, out=None):
    if a.dim() != 2 or b.dim() != 1 or a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[-1]}), vec "
            f"({b.shape[0]})"
        )
    made = _mm(a, b[:, None])[:, 0]
    return made if out is None else out.copy_(made)


def _matmul(a, b, *, out=None):
    if b.dim() == 1:
        return _mv(a, b, out=out)
    if a.dim() == 1:
        return _mm(a[None], b)[0]
    if isinstance(a, CompressedTensor) and b.dim() > 2:
        raise RuntimeError(f"expand is unsupported for {NAMES[a._kind]} tensors")
    return _mm(a, b, out=out)


def _plus(start, made, beta, alpha, out):
    if isinstance(made, CompressedTensor):
        made = made if alpha == 1 else like(made, values_of(made) * alpha)
        if isinstance(start, CompressedTensor):
            made = converted(made, start._kind)
            made = made if beta == 0 else corten.add(made, start, alpha=beta)
            return made if out is None else _become(out, made)
        made, alpha = dense_of(made), 1
    if isinstance(start, CompressedTensor):
        raise RuntimeError(
            f"addmm: computation on CPU is not implemented for {NAMES[start._kind]} + "
            "SparseCsr @ Strided"
        )
    start = start.expand(made.shape)
    made = made if alpha == 1 else made * alpha
    made = made if beta == 0 else made + (start if beta == 1 else start * beta)
    return made if out is None else out.copy_(made)


def _addmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    if mat1.layout == mat2.layout == _C.strided:
        raise RuntimeError(
            f"addmm: computation on CPU is not implemented for {NAMES[input.layout]} + Strided @ Strided"
        )
    return _plus(input, _mm(mat1, mat2), beta, alpha, out)


def _addmv(input, mat, vec, *, beta=1, alpha=1, out=None):
    return _plus(input, _mv(mat, vec), beta, alpha, out)


def _triangular_solve(b, A, upper=True, transpose=False, unitriangular=False, *, out=None):  # noqa: N803
    """The solution for a triangular matrix in the layouts of rows; not a number without entries."""
    if not isinstance(A, CompressedTensor) or isinstance(b, CompressedTensor) or not by_rows(A._kind):
        raise ValueError("triangular_solve: unsupported sparse layout.")
    found = corten.triangular_solve(b, dense_of(A), upper, transpose, unitriangular)
    solution = found.solution if A._nnz() else corten.full_like(found.solution, float("nan"))
    if out is not None:
        solution = out[0].resize_(solution.shape).copy_(solution)
    return type(found)((solution, b.new_empty((0,))))


def _linear(input, weight, bias=None):
    rows = input.reshape(-1, input.shape[-1])
    made = _mm(rows, transposed(weight, 0, 1)).reshape(*input.shape[:-1], weight.shape[0])
    return made if bias is None else made + bias


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """``beta * input + alpha * (mat1 @ mat2)`` at the places that ``input``, in the layout
    ``sparse_csr``, has: of the product only these elements are computed.

    Raises:
        RuntimeError: Layouts, shapes or dtypes do not fit.
    """
    if isinstance(input, CompressedTensor) and not batches(input) and mat1.dim() > 2:
        input = _repeated(input, tuple(mat1.shape[:-2]))
    _check_sampled(input, mat1, mat2)
    number, row, column = coordinates(input)
    count = math.prod(batches(input))
    left = mat1.reshape(count, *mat1.shape[-2:])[number, row]
    right = mat2.reshape(count, *mat2.shape[-2:]).transpose(-1, -2)[number, column]
    values = (left * right).sum(-1).reshape(input._parts[2].shape)
    values = values if alpha == 1 else values * alpha
    if beta != 0:
        values = values + (values_of(input) if beta == 1 else values_of(input) * beta)
    made = like(input, values)
    return made if out is None else _written(out, made)


def _repeated(x, batch):
    """A matrix as each of a batch of matrices."""
    parts = (*x._parts[:2], values_of(x))
    ends, plain, values = (
        part.expand(*batch, *part.shape).reshape(*batch, *part.shape) for part in parts
    )
    return assembled(values, ends, plain, (*batch, *x.shape), x._kind)


def _check_sampled(input, mat1, mat2):
    def require(holds, message, error=RuntimeError):
        if not holds:
            raise error(f"sampled_addmm: {message}")

    if not isinstance(input, CompressedTensor):
        raise NotImplementedError(
            "Could not run 'aten::sparse_sampled_addmm' with arguments from the 'CPU' backend."
        )
    require(input._kind == CSR,
            f"Expected result to have sparse csr layout, but got {NAMES[input._kind]}")
    for name, mat in (("mat1", mat1), ("mat2", mat2)):
        require(mat.layout == _C.strided,
                f"Expected {name} to have strided layout, but got {NAMES.get(mat.layout)}")
    for name, mat in (("mat1", mat1), ("mat2", mat2)):
        require(mat.dim() >= 2, f"Expected {name} to be a matrix, got {mat.dim()}-D tensor")
    require(mat1.shape[:-2] == mat2.shape[:-2],
            f"Expected mat1 and mat2 to have the same batch size, but got {list(mat1.shape[:-2])} "
            f"and {list(mat2.shape[:-2])}")
    require(batches(input) == tuple(mat1.shape[:-2]),
            "Expected self and mat1 to have the same batch size, but got "
            f"{list(batches(input))} and {list(mat1.shape[:-2])}")
    require(mat1.shape[-1] == mat2.shape[-2],
            f"mat1 and mat2 shapes cannot be multiplied ({mat1.shape[-2]}x{mat1.shape[-1]} and "
            f"{mat2.shape[-2]}x{mat2.shape[-1]})")
    require(input.shape[-2] == mat1.shape[-2], "self.shape[-2] must match mat1.shape[-2]")
    require(input.shape[-1] == mat2.shape[-1], "self.shape[-1] must match mat2.shape[-1]")
    kind = [scalar_type(x.dtype) for x in (input, mat1, mat2)]
    require(kind[1] == kind[2],
            f"Expected mat1 and mat2 to have the same dtype, but got {kind[1]} and {kind[2]}")
    require(kind[0] == kind[1],
            f"Expected self and mat1 to have the same dtype, but got {kind[0]} and {kind[1]}")


def mm_reduced(sparse, dense, reduce):
    """Rows of a CSR matrix times a dense one, the products of a row added up, or their mean, greatest
    or least taken; 0 for rows without entries.

    Raises:
        RuntimeError: Layouts, shapes or dtypes do not fit.
    """
    _check_reduced(sparse, dense, reduce)
    _, row, column = coordinates(sparse)
    if reduce in ("sum", "mean"):
        products = _entries._for_sums(values_of(sparse))[:, None] * _entries._for_sums(dense)[column]
        made = products.new_zeros((sparse.shape[0], dense.shape[1])).index_add(0, row, products)
        counts = sparse._parts[0].diff().clamp(min=1)
        made = made if reduce == "sum" else made / counts[:, None].to(made.dtype)
        return made.to(dense.dtype)
    products = values_of(sparse)[:, None] * dense[column]
    return _extremes(products, row, sparse.shape[0], reduce)


def _extremes(products, row, rows, reduce):
    """The greatest or least product of each row; the first one of equals gets the gradient."""
    count, width = products.shape
    spread = row[:, None].expand(count, width)
    found = products.detach().new_zeros((rows, width))
    found = found.scatter_reduce(0, spread, products.detach(), reduce, include_self=False)
    reached = found[row]
    equal = (products.detach() == reached) | products.detach().isnan() & reached.isnan()
    order = corten.arange(count, device=row.device)[:, None].expand(count, width)
    first = corten.full((rows, width), count, dtype=corten.int64, device=row.device)
    first = first.scatter_reduce(0, spread, corten.where(equal, order, count), "amin")
    empty = first == count
    if count == 0:
        return found
    chosen = products.gather(0, first.masked_fill(empty, 0))
    return chosen.masked_fill(empty, 0)


def _check_reduced(sparse, dense, reduce):
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if not isinstance(sparse, CompressedTensor):
        backend = "SparseCPU" if sparse.layout == _C.sparse_coo else "CPU"
        raise NotImplementedError(
            f"Could not run 'aten::_sparse_mm_reduce_impl' with arguments from the '{backend}' "
            "backend."
        )
    if sparse._kind != CSR:
        raise RuntimeError(f"sparse_mm_reduce: expect self to be SparseCsr, got {NAMES[sparse._kind]}")
    if dense.layout != _C.strided:
        raise RuntimeError(
            f"Expected tensor to have Strided Layout, but got tensor with {NAMES[dense.layout]} Layout "
            "(while checking arguments for sparse_mm_reduce)"
        )
    if dense.dtype != sparse.dtype:
        kind = scalar_type(sparse.dtype)
        raise RuntimeError(
            f"Expected tensor for argument #1 'other' to have scalar type {kind}; but got "
            f"torch.{dense.type()[6:]} instead (while checking arguments for sparse_mm_reduce)"
        )
    if dense.dim() != 2 or dense.shape[0] != sparse.shape[1]:
        raise RuntimeError(
            f"Expected a tensor of dimension 2 and tensor.size[0] == {sparse.shape[1]} but got: "
            f"dimension {dense.dim()} and tensor.size[0] = {dense.shape[0] if dense.dim() else 0}"
        )
    if reduce == "prod":
        raise RuntimeError(f"sparse_mm_reduce: reduce type of {reduce} has not been enabled.")


OPERATORS.update({
    "mm": _mm, "spmm": _mm, "dsmm": _mm, "smm": _mm, "matmul": _matmul, "mv": _mv, "addmm": _addmm,
    "addmv": _addmv, "triangular_solve": _triangular_solve,
    "linear": _linear, "rmatmul": lambda a, b: _matmul(b, a),
})
CompressedTensor.smm = _mm
