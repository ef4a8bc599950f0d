"""``SparseTensor``: indices and values of the entries that are not zero.

It is a tensor without memory of its own, of which the operators below are defined by the dense
operators on its two parts. Its history is its own: :class:`Values` and :class:`SparseCooTensor` lead
from the whole to the entries and back, so that gradients reach both. Operators after which a gradient
may be dense, since new entries would change their results, are recorded as a whole
(:func:`recorded`). Other operators are refused.
"""

from __future__ import annotations

import corten
from corten import _C
from corten._C import Tensor
from corten._overriding import as_operator
from corten._utils import wrap_dim

from ._arithmetic import (
    _add_in_place, _added, _become, _kind, _negative, _quotient, _scaled, _subtracted, _with_values, _zero,
)
from ._entries import (
    OPERATORS as _OPERATORS, SparseTensor, _C_plain, _coalesce, _for_sums, _made, _shell, before,
    check_not_traced, lacks_data, recorded,
)


@as_operator
def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None, is_coalesced=None):
    """A tensor of the entries ``values`` at ``indices``, of shape (dimensions, entries).

    Raises:
        RuntimeError: The parts do not fit together, or an index lies outside.
    """
    if indices is None and size is None:
        raise TypeError('sparse_coo_tensor() missing 1 required positional arguments: "size"')
    if values is None:  # a tensor of zeros, of the size that is given alone
        size = tuple(indices) if size is None else tuple(size)
        indices = corten.empty((len(size), 0), dtype=corten.int64, device=device)
        values = corten.empty((0,), dtype=dtype, device=device)
    indices = corten.as_tensor(indices, device=device).to(corten.int64)
    values = corten.as_tensor(values, dtype=dtype, device=device)
    values = values[None] if values.dim() == 0 else values
    _check_entries(indices, values)
    if size is None:
        reach = indices.max(1).values + 1 if indices.size(1) else indices.new_zeros(indices.size(0))
        size = (*reach.tolist(), *values.shape[1:])
    size = tuple(size)
    if len(size) != indices.size(0) + values.dim() - 1 and not _asks_for_checks(check_invariants):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {indices.size(0)}, dense_dim = {values.dim() - 1}"
        )
    _check_size(indices, values, size)
    if is_coalesced and _asks_for_checks(check_invariants):
        check(indices, values, size, True)
    # Objects of their own over the same memory: the caller's may be given another shape.
    indices, values = indices.detach(), values if values.requires_grad else values.detach()
    coalesced = indices.size(1) < 2 if is_coalesced is None else bool(is_coalesced)
    if requires_grad:
        return _shell(indices, values, size, coalesced).requires_grad_()
    return _made(indices, values, size, coalesced)


def _validate_sparse_coo_tensor_args(indices, values, size, is_coalesced=None):
    check(indices, values, tuple(size), bool(is_coalesced))


def _asks_for_checks(check_invariants):
    from ._operators import check_sparse_tensor_invariants

    if check_invariants is None:
        return check_sparse_tensor_invariants.is_enabled()
    return check_invariants


def check(indices, values, size, coalesced):
    """That four parts make a sparse tensor.

    Raises:
        RuntimeError: They do not.
    """
    if indices.dtype != corten.int64:
        raise RuntimeError(f"indices must be an int64 tensor, but got {indices.dtype}")
    _check_entries(indices, values)
    _check_size(indices, values, size)
    if coalesced and indices.size(1) > 1 and not _ordered(indices):
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        )


def _ordered(indices):
    """Whether every place comes after the one before it."""
    less, equal = corten.zeros(indices.size(1) - 1, dtype=corten.bool), True
    for row in indices:
        less = less | (equal & (row[:-1] < row[1:]))
        equal = equal & (row[:-1] == row[1:])
    return bool(less.all())


def _check_entries(indices, values):
    if indices.dim() != 2:
        raise RuntimeError(
            f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}"
        )
    if values.dim() < 1 or values.size(0) != indices.size(1):
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.size(1)}, "
            f"nnz from values: {values.size(0) if values.dim() else 1}"
        )


def _check_size(indices, values, size):
    if len(size) != indices.size(0) + values.dim() - 1:
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({indices.size(0)}) + dense_dim "
            f"({values.dim() - 1}), but got {len(size)}"
        )
    if tuple(values.shape[1:]) != size[indices.size(0):]:
        expected = [values.size(0), *size[indices.size(0):]]
        raise RuntimeError(
            f"values has incorrect size, expected {expected}, got {list(values.shape)}"
        )
    if lacks_data(indices) or not indices.numel():
        return
    for dim, (least, greatest) in enumerate(zip(indices.amin(1).tolist(), indices.amax(1).tolist())):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")
        if greatest >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found "
                f"index {greatest}"
            )


def to_sparse(dense, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The entries of a dense tensor that are not zero.

    With ``layout`` in another sparse layout.
    """
    if layout is not None and not isinstance(layout, type(_C.strided)):
        raise TypeError(
            f"to_sparse(): argument 'layout' must be torch.layout, not {type(layout).__name__}"
        )
    _check_blocksize(dense, layout, blocksize)
    if layout not in (None, _C.sparse_coo, _C.strided):
        from ._layouts import to_layout

        if sparse_dim is not None:
            raise TypeError("to_sparse() takes 0 positional arguments but 1 was given")
        return to_layout(dense, layout, blocksize, dense_dim)
    if isinstance(dense, SparseTensor) or layout == _C.strided:
        if isinstance(dense, SparseTensor) and sparse_dim not in (None, dense.sparse_dim()):
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument "
                "!=self.sparse_dim() is not supported"
            )
        return dense
    if sparse_dim is not None and not 0 <= sparse_dim <= dense.dim():
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{dense.dim()}] range, but "
            f"{sparse_dim} is given"
        )
    if sparse_dim == 0 and dense.dim():
        raise RuntimeError(
            "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0"
        )
    return _from_dense(dense, dense.dim() if sparse_dim is None else sparse_dim)


def _check_blocksize(x, layout, blocksize):
    if blocksize is None or isinstance(blocksize, int):
        return
    name = "sparse_coo_to_sparse" if isinstance(x, SparseTensor) else "dense_to_sparse"
    if len(blocksize) != 2:
        raise RuntimeError(
            f"{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}"
        )
    if min(blocksize) <= 0:
        raise RuntimeError(f"{name}: blocksize needs to be positive, but got {list(blocksize)}")
    if layout in (None, _C.sparse_coo):
        kind = "Sparse" if isinstance(x, SparseTensor) else "Strided"
        raise RuntimeError(
            f"{name}: conversion from {kind} to Sparse with blocksize argument given is not supported"
        )


def _entries_of(dense, count):
    if lacks_data(dense):
        check_not_traced(dense)
        # As many entries as nobody knows: none.
        indices = corten.empty((count, 0), dtype=corten.int64, device=dense.device)
        return _shell(indices, dense.new_empty((0, *dense.shape[count:])), dense.shape, True)
    rest = tuple(range(count, dense.dim()))
    filled = (dense != 0).any(rest) if rest else dense != 0
    indices = filled.nonzero().t().contiguous()
    values = dense[tuple(indices)] if count else dense.expand(indices.size(1), *dense.shape)
    return _shell(indices, values, dense.shape, True)


def _dense(grad):
    return grad if grad.layout == _C.strided else grad.to_dense()


_from_dense = recorded("ToSparse", _entries_of, lambda grad, dense, count: (_dense(grad), None))
_all_places = recorded(
    "ToDense", lambda x: _to_dense(x), lambda grad, x: (to_sparse(grad, x._held[0].size(0)),)
)


def _to_dense(x, dtype=None, *, masked_grad=None):
    if masked_grad is False and x.requires_grad and corten.is_grad_enabled():
        dense = _all_places(x)
        return dense if dtype is None else dense.to(dtype)
    indices, values = x._parts
    if indices.size(0) == 0:
        dense = values.sum(0, dtype=values.dtype)
        return dense if dtype is None else dense.to(dtype)
    kind, values = values.dtype, _for_sums(values)
    dense = values.new_zeros(tuple(x.shape))
    dense = dense.index_put(tuple(indices), values, accumulate=True)
    return dense.to(kind if dtype is None else dtype)


def _of_coalesced(place, name):
    def part(x):
        if not x._coalesced:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )
        return x._parts[place]

    return part


def _turned(x):
    """The transposed matrix, conjugated: what gradients of products are multiplied with."""
    if isinstance(x, SparseTensor):
        x = _transposed(x, 0, 1)
        return _with_values(lambda values: values.conj())(x) if x.is_complex() else x
    return x.mH


# The gradient of the sparse matrix is dense: it says what new entries would change, too.
_product = recorded(
    "Mm", lambda a, b: _masked_mm(a, b),
    lambda grad, a, b: (
        corten.mm(_dense(grad), _turned(b)) if a.requires_grad else None,
        _mm(_turned(a), _dense(grad)) if b.requires_grad else None,
    ),
)


def _mm(a, b, *, out=None):
    """The product of two matrices, at least one of them sparse."""
    if isinstance(b, SparseTensor):
        if isinstance(a, SparseTensor):
            return _masked_mm(a, b)
        return _mm(_transposed(b), a.t()).t()
    return _product(a, b)


def _masked_mm(a, b):
    """Rows of ``b`` times the values, added up by the rows of ``a``. Gradients reach the entries of
    sparse matrices only."""
    if isinstance(b, SparseTensor):
        if isinstance(a, SparseTensor):
            if a.dtype != b.dtype:
                raise RuntimeError(
                    f"mat1 dtype {_kind(a.dtype)} does not match mat2 dtype {_kind(b.dtype)}"
                )
            return to_sparse(_masked_mm(a, _to_dense(b)))
        return _masked_mm(_transposed(b), a.t()).t()
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError("matrices expected, got "
                           f"{a.dim()}D, {b.dim()}D tensors")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected scalar type {_kind(a.dtype)} but found {_kind(b.dtype)}")
    (rows, columns), values = a._parts
    values, kind, b = _for_sums(values), b.dtype, _for_sums(b)
    result = b.new_zeros(a.shape[0], b.shape[1])
    return result.index_add(0, rows, values[:, None] * b[columns]).to(kind)


def _matmul(a, b, *, out=None):
    if b.dim() == 1 and a.dim() == 2:
        return _mv(a, b)
    return _mm(a, b)


def _mv(a, b, *, out=None):
    """The product of a matrix and a vector, at least one of them sparse."""
    if a.dim() != 2 or b.dim() != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {a.dim()}Tensor Dim: "
            f"{b.dim()}"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    b = _to_dense(b) if isinstance(b, SparseTensor) else b
    return _mm(a, b[:, None])[:, 0] if isinstance(a, SparseTensor) else corten.mv(a, b)


def _transposed(x, dim0=0, dim1=1):
    """Two sparse dimensions, or two dense ones, exchanged."""
    count = x._held[0].size(0)
    dim0, dim1 = (wrap_dim(dim, x.dim()) for dim in (dim0, dim1))
    if (dim0 < count) != (dim1 < count):
        raise NotImplementedError("transpose of a sparse and a dense dimension")
    return x if dim0 == dim1 else _exchanged(x, dim0, dim1)


def _swapped(x, dim0, dim1):
    indices, values = x._held
    count = indices.size(0)
    if dim0 >= count:
        size = list(x.shape)
        size[dim0], size[dim1] = size[dim1], size[dim0]
        values = values.transpose(dim0 - count + 1, dim1 - count + 1)
        return _shell(indices, values, size, x._coalesced)
    order = list(range(indices.size(0)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    size = [x.shape[d] for d in order] + list(x.shape[len(order):])
    indices = corten.stack([indices[dim] for dim in order])
    return _shell(indices, values, size, indices.size(1) == 0)


_exchanged = recorded(
    "Transpose", _swapped, lambda grad, x, dim0, dim1: (grad.transpose(dim0, dim1), None, None)
)


def _matrix_transposed(x):
    sparse, dense = x._parts[0].size(0), x._parts[1].dim() - 1
    if sparse > 2 or dense:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse} sparse "
            f"and {dense} dense dimensions"
        )
    return _transposed(x) if sparse == 2 else x


def _in_place(name):
    """An operator whose result takes the place of its first operand."""

    def operator(x, *args, **kwargs):
        return _become(x, _OPERATORS[name](before(x), *args, **kwargs))

    return operator


def _sparse_mask(dense, mask):
    """The entries of ``dense`` at the places that ``mask`` has."""
    from ._compressed import CompressedTensor

    if isinstance(mask, CompressedTensor):
        from ._compressed_operators import sparse_mask

        return sparse_mask(dense, mask)
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask(): the mask must be a sparse tensor")
    if dense.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(dense.shape)} "
            f"but mask has size {list(mask.shape)}"
        )
    # The mask of a sparse tensor says whether the result is coalesced; its places differ in any case.
    coalesced = mask._coalesced or not isinstance(dense, SparseTensor)
    mask = _coalesce(mask)
    if isinstance(dense, SparseTensor):
        dense = _to_dense(dense)
    indices = mask._parts[0]
    values = dense[tuple(indices)] if indices.size(0) else dense.expand(indices.size(1), *dense.shape)
    return _made(indices, values.clone(), mask.shape, coalesced)


def _of_entries(name):
    """An operator that keeps zero zero, on the entries: repeated places are added up first."""

    def operator(x, *args, **kwargs):
        x = _coalesce(x)
        indices, values = x._parts
        return _made(indices, getattr(values, name)(*args, **kwargs), x.shape, True)

    return operator


def _power(x, exponent):
    if isinstance(exponent, Tensor) or exponent <= 0:
        raise NotImplementedError("powers of sparse tensors have a positive number as exponent")
    return _of_entries("pow")(x, exponent)


def _moved(x, args, kwargs):
    indices, values = x._held
    if not values.is_meta and values[:0].to(*args, **kwargs).is_meta:
        indices, values = indices[:, :0], values[:0]  # no data, so no entries
    values = values.to(*args, **kwargs)
    return _shell(indices.to(values.device), values, x.shape, x._coalesced or not indices.size(1))


_converted = recorded(
    "ToCopy", _moved, lambda grad, x, args, kwargs: (grad.to(x.device, x.dtype), None, None)
)
_copied = recorded(
    "Clone", lambda x: _shell(*(part.clone() for part in x._held), x.shape, x._coalesced),
    lambda grad, x: (grad,),
)


def _to(x, *args, **kwargs):
    """The entries with another dtype or on another device."""
    values = x._held[1]
    if values.to(*args, **kwargs) is values:
        return x
    return _converted(x, args, kwargs)


def _with_dtype(dtype):
    return lambda x, *args, **kwargs: _to(x, dtype)


_total = recorded(
    "Sum", lambda x: x._held[1].sum(), lambda grad, x: (grad.expand(x.shape),)
)


def _sum(x, dim=None, keepdim=False, *, dtype=None, axis=None):
    """The sum of all entries, dense, or over dimensions, sparse."""
    dim = axis if dim is None else dim
    if dtype is not None:
        x = _to(x, dtype)
    elif not (x.is_floating_point() or x.is_complex()):
        x = _to(x, corten.int64)
    if dim is None or dim == ():
        return _total(x)
    dense = _to_dense(x).sum(dim, keepdim)
    return to_sparse(dense) if dense.dim() else dense


def _norm(x, p="fro", dim=None, keepdim=False, dtype=None):
    """The norm of all elements."""
    dims = [dim] if isinstance(dim, int) else dim
    if p == "nuc":
        raise NotImplementedError(
            "Could not run 'aten::_linalg_svd' with arguments from the 'SparseCPU' backend."
        )
    if dtype is not None:
        raise ValueError("dtype argument is not supported in frobenius norm") if p == "fro" else RuntimeError(
            "norm_sparse currently does not support 'dtype' argument"
        )
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dims and sorted(wrap_dim(one, x.dim()) for one in dims) != list(range(x.dim())):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or "
            "contain all dimensions of the input"
        )
    return _coalesce(x)._parts[1].norm(2 if p == "fro" else p)


def _plain(name):
    """A question about the shape, answered by the shell."""

    def operator(x, *args, **kwargs):
        with _C_plain():
            return getattr(Tensor, name)(x, *args, **kwargs)

    return operator


#: Methods that are casts.
_CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}


def _conj(x):
    return _conjugate(x) if x.is_complex() else x


_conjugate = recorded(
    "Conj", lambda x: _with_values(lambda v: v.conj())(x), lambda grad, x: (grad.conj(),)
)
_OPERATORS.update({
    "to_dense": _to_dense, "coalesce": _coalesce, "is_coalesced": lambda x: x._coalesced,
    "indices": _of_coalesced(0, "indices"), "values": _of_coalesced(1, "values"),
    "sparse_dim": lambda x: x._held[0].size(0),
    "dense_dim": lambda x: x._held[1].dim() - 1, "to_sparse": to_sparse,
    "to_sparse_coo": lambda x: x,
    "mm": _mm, "spmm": _mm, "smm": _mm, "matmul": _matmul, "mv": _mv,
    "rmatmul": lambda a, b: _mm(b, a), "t": _matrix_transposed, "transpose": _transposed,
    "mul": _scaled, "rmul": _scaled, "div": _quotient, "truediv": _quotient, "true_divide": _quotient,
    "neg": _negative, "negative": _negative,
    "add": _added, "radd": _added, "sub": _subtracted, "subtract": _subtracted,
    "add_": _add_in_place, "iadd": _add_in_place,
    "sub_": lambda a, b, *, alpha=1: _add_in_place(a, b, alpha=-alpha),
    "isub": lambda a, b: _add_in_place(a, b, alpha=-1), "zero_": _zero,
    "sparse_mask": _sparse_mask, "pow": _power, "square": lambda x: _power(x, 2),
    **{name: _in_place(name.strip("i_")) for name in ("mul_", "div_", "neg_", "imul")},
    "itruediv": _in_place("div"), "detach_": _plain("detach_"),
    "norm": _norm,
    "linalg_vector_norm": lambda x, *a, **k: corten.linalg.vector_norm(_coalesce(x)._parts[1], *a, **k),
    **{name: _of_entries(name) for name in _C._ops_tagged("keeps_zero_recorded")},
    "to": _to, "clone": lambda x, *, memory_format=None: _copied(x),
    "detach": lambda x: _shell(*x._held, x.shape, x._coalesced), "cpu": lambda x: _to(x, "cpu"),
    **{name: _with_dtype(getattr(_C, kind)) for name, kind in _CASTS.items()},
    "type": lambda x, dtype=None: "torch.sparse.FloatTensor" if dtype is None else _to(x, dtype),
    "sum": _sum, "cuda": lambda x, *a, **k: _to(x, "cuda"), "conj": _conj,
    **{name: _plain(name) for name in ("size", "dim", "numel", "nelement", "is_floating_point",
                                       "is_complex", "len", "stride", "requires_grad_",
                                       "register_hook", "retain_grad", "backward")},
})


def _attach():
    """Methods that do not ask ``__torch_function__``: those written in Python, and ``to``."""
    for name in ("to_dense", "coalesce", "is_coalesced", "indices", "values", "sparse_dim",
                 "dense_dim", "to_sparse", "smm", "to", "cpu", "cuda", *_CASTS, "clone",
                 "detach", "detach_", "type", "requires_grad_", "zero_", "sparse_mask",
                 "norm", "to_sparse_coo"):
        setattr(SparseTensor, name, _OPERATORS[name])


_attach()
