"""Operators of compressed tensors beside products of matrices."""

from __future__ import annotations

import corten
from corten import _C
from corten._C import Tensor
from corten._utils import scalar_type

from . import _arithmetic, _entries, _compressed_views as _views
from ._compressed import (
    CSR, NAMES, OPERATORS, CompressedTensor, _C_plain, batches, by_rows, coordinates, dense_of,
    entries_at, in_blocks, like, same_places, shell, values_of, word,
)
from ._compressed_views import linear as _linear, transposed
from ._layouts import METHODS, arranged, flat_values, to_dense, to_sparse

_copied = _linear(
    "Clone",
    lambda x: shell(*(part.clone() for part in x._parts), x.shape, x._kind), lambda grad, x: grad
)
_moved = _linear(
    "ToCopy",
    lambda x, dtype, device: shell(
        *(part.to(device) for part in x._parts[:2]), x._parts[2].to(device, dtype), x.shape, x._kind
    ) if device.type != "meta" else _zeros_like(x, dtype=dtype, device=device),
    lambda grad, x, dtype, device: grad.to(x.device, x.dtype),
)
_total = _linear("Sum", lambda x: x._parts[2].sum(), lambda grad, x: grad.expand(x.shape))


def _converted(x, *args, copy=False, **kwargs):
    """``Tensor.to``: parts on another device, entries of another dtype."""
    model = corten.empty((0,), dtype=x.dtype, device=x.device).to(*args, **kwargs)
    if (model.dtype, model.device) != (x.dtype, x.device):
        return _moved(x, model.dtype, model.device)
    return _copied(x) if copy or True in args[-1:] and len(args) >= 3 else x


def _with_dtype(dtype):
    return lambda x, *args, **kwargs: _converted(x, dtype)


def _type(x, dtype=None, non_blocking=False, **kwargs):
    if dtype is None:
        raise RuntimeError("Unimplemented backend SparseCsrCPU")
    return _converted(x, dtype)


def _detached(x):
    return shell(*x._parts, x.shape, x._kind)


def _check_cast(dtype, wanted):
    """That numbers of a dtype may be written into a tensor of another one."""
    if not corten.can_cast(dtype, wanted):
        raise RuntimeError(
            f"result type {scalar_type(dtype)} can't be cast to the desired output type "
            f"{scalar_type(wanted)}"
        )


def _of_entries(name):
    """An operator that keeps zero zero, on the entries."""

    def operator(x, *args, out=None, **kwargs):
        made = like(x, getattr(values_of(x), name)(*args, **kwargs))
        return made if out is None else _written(out, made)

    return operator


def _written(out, made):
    """Writes a result where the caller wants it: the output is given its shape."""
    if corten.is_grad_enabled() and (made.requires_grad or out.requires_grad):
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    _check_cast(made.dtype, out.dtype)
    if isinstance(out, CompressedTensor) and out._kind == made._kind and out.shape != made.shape:
        return _given_form(out, _moved(made, out.dtype, out.device))
    return _become(out, made)


def _given_form(x, made):
    """Gives a tensor the parts and the shape of another."""
    with _C_plain():
        Tensor.data.__set__(x, made)
    x._parts = made._parts
    return x


def _become(x, other):
    """Writes another tensor, and its history, into one; without history entries stay where they are if
    the places are the same."""
    if not isinstance(x, CompressedTensor) or x._kind != other._kind or x.shape != other.shape:
        raise RuntimeError(
            f"Expected out tensor to have the layout {NAMES[other._kind]} and the shape "
            f"{list(other.shape)}"
        )
    history = corten.is_grad_enabled() and (x.requires_grad or other.requires_grad)
    return _entries.write(x, other, _put if history or not same_places(x, other) else _overwrite)


def _put(x, other):
    x._parts = *other._parts[:2], other._parts[2].to(x.dtype)


def _overwrite(x, other):
    x._parts[2].copy_(other._parts[2])


def _in_place(name):
    def operator(x, *args, **kwargs):
        made = OPERATORS[name](_entries.before(x), *args, **kwargs)
        if name == "abs" and x.is_complex():
            raise RuntimeError("In-place abs is not supported for complex tensors.")
        if made.layout == _C.strided:
            raise RuntimeError(f"{name}_: a dense result cannot be written into a {NAMES[x._kind]} tensor")
        _check_cast(made.dtype, x.dtype)
        return _become(x, made)

    return operator


def _filled(x, value):
    if x.requires_grad and corten.is_grad_enabled():
        x_now = _entries.before(x).detach()
        return _become(x, like(x_now, corten.full_like(x_now._parts[2], value)))
    x._parts[2].fill_(value)
    return x


def _zeroed(x):
    """Zeros: no entries are left."""
    return _become(x, _zeros_like(_entries.before(x).detach()))


def _is_number(x):
    return not isinstance(x, Tensor) or x.dim() == 0 and not isinstance(x, CompressedTensor)


def _product(a, b, *, out=None):
    """The product of the elements: zero where one of both has no entry."""
    if not isinstance(a, CompressedTensor):
        a, b = b, a
    if _is_number(b):
        made = _times(a, b)
    else:
        if a.shape != b.shape:
            raise RuntimeError(
                "sparse_mask(): operands have incompatible sizes; self has size "
                f"{list(b.shape)} but mask has size {list(a.shape)}"
            )
        made = like(a, values_of(a) * entries_at(b, a)) if not isinstance(b, CompressedTensor) else (
            _of_both(a, _in_layout_of(a, b))
        )
    return made if out is None else _become(out, made)


def _in_layout_of(a, b):
    if b._kind == a._kind:
        return b
    return METHODS[f"to_{word(a._kind)}"](b, *([a.block()] if in_blocks(a._kind) else []))


def _common(a, b):
    """The product where both have an entry."""
    if same_places(a, b):
        return like(a, values_of(a) * values_of(b))
    mine, theirs = _flat_places(a), _flat_places(b)
    ordered, order = theirs.sort()
    at = corten.searchsorted(ordered, mine).clamp(max=max(theirs.numel() - 1, 0))
    both = ordered[at] == mine if theirs.numel() else corten.zeros_like(mine, dtype=corten.bool)
    values = flat_values(a)[both] * flat_values(b)[order[at[both]]]
    places = tuple(place[both] for place in coordinates(a))
    return arranged(places, values, a.shape, a._kind, len(batches(a)), a._parts[0].dtype)


def _times_conjugated(grad, factor):
    return corten.mul(grad, factor.conj() if factor.is_complex() else factor)


# A gradient has elements wherever the other factor has some.
_of_both = _entries.recorded(
    "Mul", _common,
    lambda grad, a, b: (
        _times_conjugated(grad, b) if a.requires_grad else None,
        _times_conjugated(grad, a) if b.requires_grad else None,
    ),
)


def _flat_places(x):
    number, row, column = coordinates(x)
    start = len(batches(x))
    return (number * x.shape[start] + row) * x.shape[start + 1] + column


def _quotient(a, b, *, rounding_mode=None):
    if not isinstance(a, CompressedTensor) or not _is_number(b):
        raise RuntimeError("unsupported tensor layout: SparseCsr")
    if rounding_mode is None:
        return _divided(a, b)
    return like(a, values_of(a).div(b, rounding_mode=rounding_mode))


def _for_number(grad, x, number):
    """The gradient of a number that all entries are multiplied with."""
    if not isinstance(number, Tensor) or not number.requires_grad:
        return None
    return (entries_at(grad, x) * values_of(x).conj()).sum().to(number.dtype)


def _divisor_gradient(grad, x, number):
    found = _for_number(grad, x, number)
    return None if found is None else -found / _arithmetic._conjugated(number * number)


# Gradients of these may be dense, and stay so.
_times = _entries.recorded(
    "Mul", lambda x, number: like(x, values_of(x) * number),
    lambda grad, x, number: (
        corten.mul(grad, _arithmetic._conjugated(number)), _for_number(grad, x, number)
    ),
)
_divided = _entries.recorded(
    "Div", lambda x, number: like(x, values_of(x) / number),
    lambda grad, x, number: (
        corten.div(grad, _arithmetic._conjugated(number)), _divisor_gradient(grad, x, number)
    ),
)
_negative = _entries.recorded(
    "Neg", lambda x: like(x, -values_of(x)), lambda grad, x: (corten.neg(grad),)
)


def _negated(x, *, out=None):
    made = _negative(x)
    return made if out is None else _become(out, made)


def _random_like(name):
    """Random entries at the places of a tensor."""

    def operator(x, *, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False,
                 memory_format=None, generator=None):
        values = getattr(corten, name)(values_of(x).detach(), dtype=dtype, device=device)
        return like(x, values).requires_grad_(requires_grad)

    return operator



# The gradient of the compressed tensor is dense: it says what new entries would change, too.
_sum_with_dense = _entries.recorded(
    "Add", lambda dense, x, alpha: corten.add(dense, dense_of(x), alpha=alpha),
    lambda grad, dense, x, alpha: (grad, grad * _arithmetic._conjugated(alpha), None),
)


def _sum_of_two(a, b, *, alpha=1, out=None):
    """Compressed for two compressed tensors of one layout, dense with a dense one."""
    if isinstance(a, CompressedTensor) and isinstance(b, CompressedTensor) and a.shape != b.shape:
        raise RuntimeError(
            "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape "
            f"{list(a.shape)} and tensor `other` with shape {list(b.shape)}"
        )
    if not isinstance(b, Tensor) or a.shape != b.shape:
        sizes = [list(x.shape) if isinstance(x, Tensor) else [] for x in (b, a)]
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{sizes[0]} while other has size {sizes[1]} (FYI: op2-sparse addition does not "
            "currently support broadcasting)"
        )
    if not isinstance(a, CompressedTensor):
        made = _sum_with_dense(a, b, alpha)
        return made if out is None else out.copy_(made)
    if b.layout == _C.strided:  # the factor is that of the sparse operand, whichever comes second
        made = corten.add(b, dense_of(a), alpha=alpha)
        return made if out is None else out.copy_(made)
    if b.layout != a._kind or a.block() != b.block():
        raise RuntimeError(
            f"add: expected tensors of one layout, but got {NAMES[a._kind]} and {NAMES[b.layout]}"
        )
    if same_places(a, b):
        made = like(a, values_of(a).add(values_of(b), alpha=alpha))
    else:
        places = tuple(map(corten.cat, zip(coordinates(a), coordinates(b))))
        values = corten.cat([flat_values(a), alpha * flat_values(b)])
        made = arranged(places, values, a.shape, a._kind, len(batches(a)), a._parts[0].dtype, True)
    return made if out is None else _become(out, made)


def _add_in_place(a, b, *, alpha=1):
    if isinstance(a, CompressedTensor):
        made = _sum_of_two(_entries.before(a), b, alpha=alpha)
        if not isinstance(made, CompressedTensor):
            raise RuntimeError("add_: a dense tensor cannot be added to a sparse compressed one")
        _check_cast(made.dtype, a.dtype)
        return _become(a, made)
    if corten.is_grad_enabled() and b.requires_grad:
        return a.add_(_sum_with_dense(corten.zeros_like(a), b, alpha))
    return a.add_(dense_of(b), alpha=alpha)


def _difference(a, b, *, alpha=1):
    if isinstance(b, Tensor) and b.layout == _C.strided and a.shape == b.shape:
        return corten.sub(dense_of(a), b, alpha=alpha)
    return _sum_of_two(a, b, alpha=-alpha)


def _reduced(x, dim=None, keepdim=False, *, dtype=None, axis=None):
    """The sum of all entries, or, compressed again, over rows or columns."""
    dim = axis if dim is None else dim
    if dtype is not None:
        x = _converted(x, dtype)
    elif not (x.is_floating_point() or x.is_complex()):
        x = _converted(x, corten.int64)
    if dim is None or dim == ():
        return _total(x)
    if x._kind != CSR:
        raise RuntimeError(
            "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but "
            f"got layout {NAMES[x._kind]}"
        )
    if not keepdim:
        raise RuntimeError(
            "reduction operations on CSR tensors with keepdim=False is unsupported"
        )
    if x.dim() != 2:
        raise RuntimeError("sums of CSR tensors are for matrices")
    return _summed(x, (dim,) if isinstance(dim, int) else tuple(dim))


def _over_lines(x, given):
    """The sums of rows or columns, or of both, compressed by rows again."""
    dims = {d % 2 for d in given}
    places = [place * 0 if d in dims else place for d, place in zip((0, 1), coordinates(x)[1:])]
    size = [1 if d in dims else x.shape[d] for d in (0, 1)]
    number = corten.zeros_like(places[0])
    return arranged((number, *places), x._parts[2], size, CSR, 0, x._parts[0].dtype, True)


def _spread_sums(grad, x, given):
    dense = grad if grad.layout == _C.strided else grad.to_dense()
    return dense.expand(x.shape), None


# The gradient is dense: it says what new entries would change, too.
_summed = _entries.recorded("Sum", _over_lines, _spread_sums)


def _empty_like(x, *, dtype=None, device=None, requires_grad=False, **kwargs):
    compressed, plain, values = x._parts
    values = values.detach().new_zeros(values.shape, dtype=dtype, device=device)
    made = shell(compressed.to(values.device), plain.to(values.device), values, x.shape, x._kind)
    return made.requires_grad_(requires_grad)


def _zeros_like(x, *, dtype=None, device=None, requires_grad=False, **kwargs):
    compressed, plain, values = x._parts
    values = values.detach().narrow(len(batches(x)), 0, 0).to(device or x.device, dtype or x.dtype)
    made = shell(
        corten.zeros_like(compressed, device=values.device), plain[..., :0].to(values.device), values,
        x.shape, x._kind,
    )
    return made.requires_grad_(requires_grad)


def _ones_like(x, *, requires_grad=False, **kwargs):
    return _filled(_empty_like(x, **kwargs), 1).requires_grad_(requires_grad)


def sparse_mask(dense, mask):
    """The elements of a tensor at the places that ``mask`` has."""
    if dense.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(dense.shape)} but "
            f"mask has size {list(mask.shape)}"
        )
    return like(mask, entries_at(dense, mask))


def _indices(place, rows, name):
    """One of the parts, refused for layouts that call it otherwise."""
    expected = f"sparse {'row' if rows else 'column'} compressed"

    def part(x):
        if by_rows(x._kind) != rows:
            raise RuntimeError(
                f"{name} expected {expected} tensor layout but got {NAMES[x._kind]}"
            )
        return x._parts[place]

    return part


def _for_coordinates(name):
    def method(x, *args):
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got {NAMES[x._kind]}"
        )

    return method


def _missing(name):
    def method(x, *args):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'SparseCsrCPU' backend."
        )

    return method


def _without(what, error=RuntimeError):
    def method(x, *args, **kwargs):
        raise error(f"Sparse {NAMES[x._kind][6:].upper()} tensors do not have {what}")

    return method


def _plain(name):
    """A question about the shape, answered by the shell."""

    def operator(x, *args, **kwargs):
        with _C_plain():
            return getattr(Tensor, name)(x, *args, **kwargs)

    return operator


def _item(x):
    if x.numel() != 1:
        raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    return dense_of(x).item()


def _is_nonzero(x):
    if x.numel() != 1:
        kind = "no values" if x.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    return bool(_item(x))


def _numpy(x, *args, **kwargs):
    raise TypeError(
        f"can't convert {NAMES[x._kind]} layout tensor to numpy. Use Tensor.to_dense() first."
    )


def _no_storage(x):
    raise NotImplementedError("Cannot access storage of SparseCsrTensorImpl")


def _no_pointer(x):
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


def _grad(x, flag=True):
    with _C_plain():
        return Tensor.requires_grad_(x, flag)


def _detach_in_place(x):
    with _C_plain():
        return Tensor.detach_(x)


_KEEP_ZERO = _C._ops_tagged("keeps_zero_compressed")
_DTYPES = ("float", "double", "half", "bfloat16", "int", "long", "short", "bool")

OPERATORS.update({
    **{name: _of_entries(name) for name in _KEEP_ZERO},
    "conj": lambda x: like(x, values_of(x).conj().resolve_conj()) if x.is_complex() else x,
    "mul": _product, "rmul": _product, "multiply": _product, "add": _sum_of_two, "sub": _difference,
    "radd": lambda a, b: _sum_of_two(a, b), "subtract": _difference, "div": _quotient,
    "rsub": lambda a, b: _sum_of_two(_negative(a), b), "neg": _negated, "negative": _negated,
    **{name: _random_like(name) for name in ("rand_like", "randn_like")},
    "truediv": _quotient, "divide": _quotient, "true_divide": _quotient,
    "add_": _add_in_place, "iadd": _add_in_place, "zero_": _zeroed,
    "fill_": _filled, "sum": _reduced, "select": _views.select, "getitem": _views.get_item,
    "transpose": transposed, "swapaxes": transposed, "swapdims": transposed,
    "t": _views.matrix_transposed, "select_copy": _views.select_copy,
    "mT": lambda x: transposed(x, -2, -1), "mH": lambda x: transposed(x, -2, -1).conj(),
    "adjoint": lambda x: transposed(x, -2, -1).conj(),
    "to": _converted, "clone": lambda x, *, memory_format=None: _copied(x), "detach": _detached,
    "cpu": lambda x: _converted(x, "cpu"), "type": _type,
    "empty_like": _empty_like, "zeros_like": _zeros_like, "ones_like": _ones_like,
    "sparse_mask": sparse_mask, "to_dense": to_dense, "to_sparse": to_sparse,
    "is_same_size": lambda a, b: a.shape == b.shape, "requires_grad_": _grad,
    "item": _item, "is_nonzero": _is_nonzero, "detach_": _detach_in_place, "numpy": _numpy,
    "tolist": _no_pointer, "data_ptr": _no_pointer,
    "storage": _no_storage, "untyped_storage": _no_storage,
    "stride": _without("strides"), "is_contiguous": _without("is_contiguous"),
    "contiguous": _without("is_contiguous"),
    **{name: _with_dtype(getattr(corten, {"float": "float32", "double": "float64", "half": "float16",
       "int": "int32", "long": "int64", "short": "int16"}.get(name, name))) for name in _DTYPES},
    **{name: _plain(name) for name in (
        "size", "dim", "ndimension", "numel", "nelement", "is_floating_point", "is_complex",
        "element_size", "is_inference", "is_conj", "is_neg", "backward", "retain_grad",
        "register_hook", "register_post_accumulate_grad_hook", "get_device",
    )},
})
OPERATORS.update({
    f"{name}_": _in_place(name) for name in (*_KEEP_ZERO, "mul", "div") if name != "positive"
})
OPERATORS.update({"imul": _in_place("mul"), "itruediv": _in_place("div")})
_METHODS = {
    "crow_indices": _indices(0, True, "crow_indices"), "col_indices": _indices(1, True, "col_indices"),
    "ccol_indices": _indices(0, False, "ccol_indices"),
    "row_indices": _indices(1, False, "row_indices"),
    "values": _views.values, "_is_view": _views.is_view, "_nnz": lambda x: x._parts[1].size(-1),
    "sparse_dim": lambda x: 2,
    "dense_dim": lambda x: x.dim() - 2 - len(batches(x)),
    "to_sparse_coo": lambda x: to_sparse(x), **METHODS,
    **{name: _for_coordinates(name) for name in (
        "is_coalesced", "coalesce", "indices")},
    "_indices": _missing("_indices"), "_values": _missing("_values"),
}


def _copy_of(part):
    def copied(x, *, out=None):
        made = OPERATORS[part](x).clone()
        return made if out is None else out.resize_(made.shape).copy_(made)
    return copied


OPERATORS.update({
    f"{part}_copy": _copy_of(part)
    for part in (*(name for name in _METHODS if name.endswith("_indices") and name != "_indices"), "values")
})


def _attach():
    """Methods that do not ask ``__torch_function__``."""
    OPERATORS.update(_METHODS)
    for name in (*_METHODS, "to_dense", "to_sparse", "to", "clone", "detach", "detach_", "cpu", "type",
                 "requires_grad_", "sparse_mask", "zero_", "numpy", "tolist", "data_ptr", "storage",
                 "untyped_storage", "stride", "is_contiguous", "contiguous", *_DTYPES):
        setattr(CompressedTensor, name, OPERATORS[name])


_attach()
