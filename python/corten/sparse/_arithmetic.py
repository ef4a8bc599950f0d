"""Products, quotients and sums of tensors in the coordinate layout, with their gradients."""

from __future__ import annotations

import math

import corten
from corten._C import Tensor

from ._entries import (
    SparseTensor, _added_up, _at, _coalesce, _made, _shell, before, recorded, write,
)


def _with_values(change):
    def operator(x, *args, **kwargs):
        indices, values = x._parts
        return _made(indices, change(values, *args, **kwargs), x.shape, x._coalesced)

    return operator


def _conjugated(number):
    return number.conj() if isinstance(number, Tensor) else number.conjugate()


def _for_number(grad, x, number):
    """The gradient of a number that all entries are multiplied with."""
    if not isinstance(number, Tensor) or not number.requires_grad:
        return None
    return (_at(grad, x._held[0]) * x._parts[1].conj()).sum().to(number.dtype)


_times = recorded(
    "Mul", lambda x, number: _with_values(lambda values: values * number)(x),
    lambda grad, x, number: (grad * _conjugated(number), _for_number(grad, x, number)),
)


def _scaled(a, b):
    """A product with a number."""
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if isinstance(b, Tensor) and b.dim():
        raise NotImplementedError("products of elements are not implemented for sparse tensors")
    return _times(a, b)


def _quotient(x, number, *, rounding_mode=None):
    """Entries divided by a number."""
    if isinstance(number, Tensor) and (number.dim() or isinstance(number, SparseTensor)):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor")
    if not isinstance(x, SparseTensor):
        raise NotImplementedError("division by a sparse tensor")
    if rounding_mode is not None:
        if x.requires_grad and corten.is_grad_enabled():
            raise NotImplementedError("the derivative of a rounded quotient of a sparse tensor")
        return _with_values(lambda v: v.div(number, rounding_mode=rounding_mode))(_coalesce(x))
    return _divided(x, number)


def _divisor_gradient(grad, x, number):
    found = _for_number(grad, x, number)
    return None if found is None else -found / _conjugated(number * number)


_divided = recorded(
    "Div", lambda x, number: _with_values(lambda values: values / number)(x),
    lambda grad, x, number: (
        grad / _conjugated(number), _divisor_gradient(grad, x, number)
    ),
)
_negative = recorded("Neg", lambda x: _with_values(lambda v: -v)(x), lambda grad, x: (-grad,))
_plus = recorded(
    "Add", lambda a, b, alpha: _concatenated(a, b, alpha),
    lambda grad, a, b, alpha: (grad, grad * _conjugated(alpha), None),
)
_plus_dense = recorded(
    "Add", lambda a, b, alpha: corten.add(a, b.to_dense(), alpha=alpha),
    lambda grad, a, b, alpha: (
        grad.sum_to_size(a.shape) if a.requires_grad else None,
        (grad * _conjugated(alpha)).sum_to_size(b.shape), None,
    ),
)


def _added(a, b, *, alpha=1):
    """A sum of two sparse tensors is sparse, of a dense and a sparse one dense."""
    if not isinstance(a, SparseTensor):
        a = corten.as_tensor(a)
        _check_same_size(a, b)
        return _plus_dense(a, b, alpha)
    if not isinstance(b, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
            f"{list(b.shape)}"
        )
    if a.dtype == b.dtype == corten.bool:
        raise NotImplementedError("\"cadd_sparse\" not implemented for 'Bool'")
    if a.sparse_dim() != b.sparse_dim():
        if not a._nnz() or not b._nnz():
            return _with_other_density(a, b, alpha)
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{a.sparse_dim()} sparse dimensions while 'other' has {b.sparse_dim()} sparse dimensions"
        )
    return _plus(a, b, alpha)


def _subtracted(a, b, *, alpha=1):
    if all(isinstance(x, Tensor) and x.dtype == corten.bool for x in (a, b)):
        raise NotImplementedError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(isinstance(x, Tensor) and x.dtype == corten.bool for x in (a, b)):
        raise NotImplementedError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return _added(a, b, alpha=-alpha)


def _with_other_density(a, b, alpha):
    """The sum of a tensor without entries and one of other sparse dimensions."""
    kept, factor, empty = (b, alpha, a) if not a._nnz() else (a, 1, b)
    indices = kept._held[0]
    values = empty._held[1].new_zeros((0, *kept.shape[indices.size(0):]))
    return _plus(_shell(indices[:, :0], values, kept.shape, True), kept, factor)


def _check_same_size(a, b):
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(a.shape)} while other has size {list(b.shape)} (FYI: dense-sparse addition "
            "does not currently support broadcasting)"
        )


def _concatenated(a, b, alpha):
    (indices, values), (others, more) = a._held, b._held
    # Factors and sums are of the common dtype: -1 times a byte without a sign is none.
    common = corten.promote_types(values.dtype, more.dtype)
    values, more = values.to(common), more.to(common)
    if indices is others:
        return _shell(indices, values + alpha * more, a.shape, a._coalesced and b._coalesced)
    if not indices.size(1) or not others.size(1):  # nothing to add: the entries stay as they are
        dtype = corten.result_type(values, more)
        if others.size(1):
            return _shell(others, (alpha * more).to(dtype), a.shape, b._coalesced)
        return _shell(indices, values.to(dtype, copy=True), a.shape, a._coalesced)
    indices = corten.cat([indices, others], 1)
    joined = _shell(indices, corten.cat([values, alpha * more]), a.shape, False)
    # Sums into the same tensor over and over keep no more entries than there are elements.
    many = indices.size(1) > math.prod(a.shape)
    return _added_up(joined) if many or a._coalesced and b._coalesced else joined


def _add_in_place(a, b, *, alpha=1):
    """Adds a sparse tensor to a dense one, or to a sparse one."""
    if isinstance(a, SparseTensor):
        made = _added(before(a), b, alpha=alpha)
        _check_sum_fits(made.dtype, a.dtype)
        return _become(a, made.to(a.dtype))
    _check_same_size(a, b)
    _check_sum_fits(corten.result_type(a, b), a.dtype)
    if a.requires_grad or b.requires_grad:
        return a.add_(_added(corten.zeros_like(a), b, alpha=alpha))
    indices, values = b._parts
    if indices.size(0) == 0:
        return a.add_(values.sum(0), alpha=alpha)
    values = values.to(corten.promote_types(values.dtype, a.dtype)) * alpha
    return a.index_put_(tuple(indices), values.to(a.dtype), accumulate=True)


def _check_sum_fits(dtype, given):
    if not corten.can_cast(dtype, given):
        raise RuntimeError(
            f"Can't convert result type {_kind(dtype)} to output {_kind(given)} in add operation"
        )


def _kind(dtype):
    """The name that messages call a dtype by."""
    from corten._legacy import _KINDS

    kinds = {getattr(corten, name): kind for kind, name in _KINDS.items()}
    return kinds.get(dtype, str(dtype))


def _become(x, other):
    """Makes a sparse tensor hold the parts, and have the history, of another one."""
    return write(x, other, _put)


def _put(x, other):
    x._put(*other._sparse_parts())


def _zero(x):
    indices, values = before(x)._held
    return _become(x, _shell(indices[:, :0], values[:0], x.shape, True))
