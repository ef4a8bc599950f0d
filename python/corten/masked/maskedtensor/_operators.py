"""What operators do with masked tensors."""

from __future__ import annotations

import warnings

import corten
from corten import _C
from corten.masked import _ops

from .core import (
    _SPARSE, MaskedTensor, dense_mask, dense_values, entries, equal, is_masked_tensor, with_entries,
    wrapped,
)

#: Operators of one tensor and numbers, element by element: the mask stays.
_UNARY = frozenset(_C._ops_tagged("masked_unary"))
#: Operators of two tensors, whose masks must be the same.
_BINARY = frozenset(_C._ops_tagged("masked_binary"))
#: Operators that move elements, and do to the mask what they do to the values.
_MOVES = frozenset(_C._ops_tagged("masked_view")) | {"__getitem__"}
_REDUCTIONS = frozenset(_C._ops_tagged("masked_reduction"))
_CONVERSIONS = frozenset(_C._ops_tagged("masked_conversion")) | {
    "cpu", "cuda", "double", "float", "half", "int", "long", "short", "char", "bool", "type",
    "bfloat16",
}
_KEYWORD_ONLY = frozenset(("alpha", "rounding_mode", "decimals", "out"))
_ABSENT = object()


def call(name, func, args, kwargs):
    """The result of an operator, or ``NotImplemented`` with a warning."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(func, *args, **kwargs)
    name = _SYMBOLS.get(name, name)
    base = name[:-1] if name.endswith("_") else name
    if base in _UNARY:
        return _unary(func, args, kwargs, base != name)
    if base in _BINARY:
        return _binary(func, args, kwargs, base != name)
    if name in _MOVES:
        return _moved(name, func, args, kwargs)
    if name in _REDUCTIONS:
        return _reduced(name, *args, **kwargs)
    if name in _CONVERSIONS:
        return _converted(func, *args, **kwargs)
    warnings.warn(
        f"{name} is not implemented in __torch_dispatch__ for MaskedTensor.", stacklevel=3
    )
    return NotImplemented


#: Methods of Python's operators that ask by their own name.
_SYMBOLS = {"__invert__": "bitwise_not"}


def _each(values, part):
    """Arguments with a part of the masked tensors in their places."""
    if is_masked_tensor(values):
        return part(values)
    if isinstance(values, (list, tuple)) and type(values) in (list, tuple):
        return type(values)(_each(value, part) for value in values)
    return values


def _data(x):
    return x._masked_data


def _mask(x):
    return x._masked_mask


def _unary(func, args, kwargs, in_place):
    if _KEYWORD_ONLY & kwargs.keys():
        raise ValueError(
            "MaskedTensor unary ops require that len(kwargs) == 0. "
            "If you need support for this, please open an issue on Github."
        )
    if any(corten.is_tensor(other) for other in (*args[1:], *kwargs.values())):
        raise TypeError("MaskedTensor unary ops do not support additional Tensor arguments")
    x = args[0]
    result = func(entries(x._masked_data), *args[1:], **kwargs)
    return _placed(x, with_entries(x._masked_data, result), x._masked_mask, in_place)


def _placed(x, data, mask, in_place):
    if not in_place:
        return wrapped(data, mask)
    x._set_data_mask(data, mask)
    return x


def _binary(func, args, kwargs, in_place):
    if _KEYWORD_ONLY & kwargs.keys():
        raise ValueError("len(kwargs) must equal 0")
    args = (*args, *kwargs.values())
    if any(corten.is_tensor(other) for other in args[2:]):
        raise TypeError(
            "MaskedTensor binary ops do not support Tensor arguments aside from the lhs and rhs"
        )
    a, b = args
    if is_masked_tensor(a) and is_masked_tensor(b) and not _same(a._masked_mask, b._masked_mask):
        raise ValueError(
            "Input masks must match. If you need support for this, please open an issue on Github."
        )
    left, right = _each(a, _data), _each(b, _data)
    model = left if is_masked_tensor(a) else right
    if model.layout in _SPARSE:
        left, right = _entries_of_both(left, right)
    result = with_entries(model, func(left, right))
    mask = (a if is_masked_tensor(a) else b)._masked_mask
    if model.layout == corten.strided and not in_place:
        mask = mask.expand_as(result)
    return _placed(a, result, mask, in_place)


def _same(a, b):
    if a.layout != b.layout:
        raise ValueError(
            f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}"
        )
    return _same_places(a, b) and equal(entries(a), entries(b))


def _same_places(a, b):
    if a.layout == corten.sparse_coo:
        return equal(a.indices(), b.indices())
    if a.layout == corten.sparse_csr:
        return equal(a.crow_indices(), b.crow_indices()) and equal(a.col_indices(), b.col_indices())
    return True


def _entries_of_both(left, right):
    layouts = [x.layout for x in (left, right) if corten.is_tensor(x)]
    if len(layouts) == 2 and layouts[0] == layouts[1]:
        kind = "coo" if layouts[0] == corten.sparse_coo else "csr"
        if not _same_places(left, right):
            raise ValueError(
                f"sparse_{kind} indices must match. If you need support for this, please open an "
                "issue on Github."
            )
        if left.size() != right.size():
            raise ValueError("input1 and input2 must have the same size for binary functions.")
    return tuple(
        x.values() if corten.is_tensor(x) and x.layout in _SPARSE else x for x in (left, right)
    )


def _moved(name, func, args, kwargs):
    if name == "mT":
        args, func = (*args, -2, -1), corten.transpose
    data = func(*_each(args, _data), **{k: _each(v, _data) for k, v in kwargs.items()})
    mask = func(*_each(args, _mask), **{k: _each(v, _mask) for k, v in kwargs.items()})
    if isinstance(data, (list, tuple)):
        # Copies: the results of masked tensors are not views.
        return type(data)(wrapped(d.clone(), m.clone()) for d, m in zip(data, mask))
    return wrapped(data.clone(), mask.clone())



def _reduced(name, input, dim=_ABSENT, keepdim=False, dtype=None):
    data, mask = input._masked_data, input._masked_mask
    function = _all if name == "all" else getattr(_ops, name)
    if dim is _ABSENT:
        if input.is_sparse:
            data, mask = data.values(), mask.values()
        return wrapped(function(data, mask=mask), mask.any())
    if input.is_sparse:
        warnings.warn(
            f"The sparse version of {name} is not implemented in reductions.", stacklevel=4
        )
        return NotImplemented
    options = {} if name == "all" else {"dtype": dtype}
    result = function(data, dim=dim, keepdim=keepdim, mask=mask, **options)
    return wrapped(result, _any(mask, dim, keepdim))


def _all(data, dim=None, keepdim=False, mask=None):
    kept = data.to(corten.bool) | ~mask
    return kept.all() if dim is None else kept.all(dim, keepdim)


def _any(mask, dim, keepdim):
    dims = (dim,) if isinstance(dim, int) else dim
    return mask.any() if dims is None else mask.any(tuple(dims), keepdim)


def _converted(func, x, *args, **kwargs):
    data = x._masked_data
    values = func(entries(data), *args, **kwargs)
    mask = x._masked_mask
    if values.device != mask.device:
        mask = mask.to(values.device)
    return wrapped(with_entries(data, values), mask)


def _where(func, condition, input=_ABSENT, other=_ABSENT):
    if input is _ABSENT or other is _ABSENT:
        count = 1 + (input is not _ABSENT)
        raise ValueError(
            f"__torch_function__, torch.where: len(args) must be 3 but got {count}"
        )
    parts = [
        (x._masked_data, x._masked_mask) if is_masked_tensor(x)
        else (x, corten.ones_like(x, dtype=corten.bool)) for x in (input, other)
    ]
    data = corten.where(condition, parts[0][0], parts[1][0])
    return wrapped(data, corten.where(condition, parts[0][1], parts[1][1]))


def _softmax(func, input, dim, dtype=None, *, _stacklevel=3):
    data, mask = input._masked_data, input._masked_mask
    soft = _ops.softmax(data, dim, dtype=dtype, mask=mask)
    # Where nothing counts there is NaN, which must reach neither values nor gradients.
    return wrapped(corten.where(mask, soft, 0), mask)


def _item(func, x):
    if not x._masked_mask.item():
        raise ValueError(
            "__torch_dispatch__, aten._local_scalar_dense: expected a mask tensor"
        )
    return x._masked_data.item()


def _as_python(kind):
    return lambda func, x: kind(_item(func, x))


def _detach(func, x):
    data = x._masked_data
    return wrapped(with_entries(data, entries(data).detach().clone()), x._masked_mask.clone())


def _clone(func, x, *, memory_format=None):
    data = x._masked_data
    return wrapped(with_entries(data, entries(data).clone()), x._masked_mask.clone())


def _contiguous(func, x, memory_format=corten.contiguous_format):
    if x.is_sparse:
        raise ValueError("MaskedTensors with sparse data do not have contiguous")
    if x._masked_data.is_contiguous():
        return x
    return wrapped(x._masked_data.contiguous(), x._masked_mask.contiguous())


def _is_contiguous(func, x, memory_format=corten.contiguous_format):
    if x.is_sparse:
        raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
    return x._masked_data.is_contiguous(memory_format=memory_format)


def _to_dense(func, x, *args, **kwargs):
    if not x.is_sparse:
        return x
    return wrapped(dense_values(x._masked_data), dense_mask(x._masked_mask))


def _to_sparse(func, x, *args, **kwargs):
    return x if x.is_sparse_coo() else _in_layout(x, corten.sparse_coo)


def _to_sparse_csr(func, x, *args, **kwargs):
    if x.dim() != 2:
        raise ValueError(
            f"Only 2D tensors can be converted to the SparseCsr layout but got shape: {x.size()}"
        )
    return x if x.is_sparse_csr() else _in_layout(x, corten.sparse_csr)


def _in_layout(x, layout):
    """Entries at the places of the mask: values of 0 that count are entries as well."""
    x = _to_dense(None, x)
    data, mask = x._masked_data, x._masked_mask
    places = mask.nonzero().t().contiguous()
    values, kept = data[tuple(places)], mask[tuple(places)]
    if layout == corten.sparse_coo:
        return wrapped(*(
            corten.sparse_coo_tensor(places, part, data.shape, is_coalesced=True)
            for part in (values, kept)
        ))
    crow = corten.zeros(data.shape[0] + 1, dtype=corten.int64)
    crow[1:] = mask.sum(1).cumsum(0)
    return wrapped(*(
        corten.sparse_csr_tensor(crow, places[1], part, data.shape) for part in (values, kept)
    ))


def _copy(func, x, src, non_blocking=False):
    if is_masked_tensor(src) and not _same(x._masked_mask, src._masked_mask):
        raise ValueError("args[0] mask and args[1] mask must match but do not")
    entries(x._masked_data).copy_(entries(_each(src, _data)))
    return x


def _ones_like(func, x, **kwargs):
    data = x._masked_data
    return wrapped(with_entries(data, func(entries(data), **kwargs)), x._masked_mask)


def _grad(func, outputs, inputs, grad_outputs=None, **kwargs):
    from corten._parts_tensor import recorded

    if grad_outputs is not None:
        grad_outputs = tuple(recorded(grad) for grad in grad_outputs)
    found = func(tuple(map(recorded, outputs)), tuple(map(recorded, inputs)), grad_outputs, **kwargs)
    return tuple(
        wrapped(with_entries(x._masked_data, grad), x._masked_mask)
        if is_masked_tensor(x) and grad is not None else grad for x, grad in zip(inputs, found)
    )


def _refused(text):
    def operator(func, *args, **kwargs):
        raise RuntimeError(text)

    return operator


def _register_hook(func, x, hook):
    """The hook sees gradients under the mask."""
    def on_values(grad):
        found = hook(wrapped(with_entries(x._masked_data, grad), x._masked_mask))
        return found._recorded if is_masked_tensor(found) else found

    return x._recorded.register_hook(on_values)


def _retain_grad(func, x):
    x._recorded.retain_grad()


_SPECIAL = {
    "where": _where, "softmax": _softmax, "_softmax": _softmax, "item": _item,
    "__bool__": _as_python(bool), "__float__": _as_python(float), "__int__": _as_python(int),
    "__index__": _as_python(int), "__complex__": _as_python(complex), "detach": _detach,
    "clone": _clone, "contiguous": _contiguous, "is_contiguous": _is_contiguous,
    "to_dense": _to_dense, "to_sparse": _to_sparse, "to_sparse_coo": _to_sparse,
    "to_sparse_csr": _to_sparse_csr, "copy_": _copy, "ones_like": _ones_like, "grad": _grad,
    "stride": lambda func, x, *dim: x._masked_data.stride(*dim),
    "numpy": _refused(".numpy() is not supported for tensor subclasses."),
    "tolist": _refused(".tolist() is not supported for tensor subclasses, got MaskedTensor"),
    "register_hook": _register_hook, "retain_grad": _retain_grad,
}

__all__ = ["call"]
