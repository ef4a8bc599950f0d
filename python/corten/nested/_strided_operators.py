"""What operators do with nested tensors in the strided layout."""

from __future__ import annotations

import corten
from corten import _C
from corten._C import Tensor

from ._strided import StridedNestedTensor, like, of_items, wrapped

#: Operators of elements, and of the memory of all items at once.
_UNARY = frozenset(_C._ops_tagged("nested_unary")) | {
    "cpu", "cuda", "double", "float", "half", "bfloat16", "int", "long", "type", "bool",
}
_BINARY = frozenset(_C._ops_tagged("nested_binary"))
#: Operators with a number.
_SCALAR = frozenset(_C._ops_tagged("nested_scalar"))
_FILLING = frozenset(_C._ops_tagged("nested_fill")) | {"fill_"}


def call(name, func, args, kwargs):
    """The result of an operator.

    Raises:
        NotImplementedError: Nested tensors do not have it.
    """
    special = _SPECIAL.get(name)
    if special is not None:
        return special(func, *args, **kwargs)
    base = name[:-1] if name.endswith("_") else name
    if base in _BINARY or base in _SCALAR or name in _FILLING:
        return _pointwise(base, name, func, args, kwargs)
    if base in _UNARY:
        result = func(args[0]._buffer, *args[1:], **kwargs)
        return args[0] if base != name or result is args[0]._buffer else like(args[0], result)
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'NestedTensorCPU' backend."
    )


def _pointwise(base, name, func, args, kwargs):
    nested = [x for x in args if isinstance(x, StridedNestedTensor)]
    dense = [
        x for x in args
        if isinstance(x, Tensor) and not isinstance(x, StridedNestedTensor) and x.dim()
    ]
    if base in _SCALAR and len(nested) > 1:
        raise RuntimeError(f"{base} does not support nested tensor as other value.")
    if dense:
        first = "nested" if isinstance(args[0], StridedNestedTensor) else "non-nested"
        second = "non-nested" if first == "nested" else "nested"
        raise RuntimeError(
            f"Expected both self and other to be nested, but got a {first} self and {second} other"
        )
    if any(x._sizes != nested[0]._sizes for x in nested):
        raise RuntimeError(f"{base} does not support broadcasting when given a NestedTensor")
    result = func(*map(_buffer, args), **kwargs)
    return args[0] if name.endswith("_") else like(nested[0], result)


def _buffer(x):
    return x._buffer if isinstance(x, StridedNestedTensor) else x


def _each(function, *nested):
    """A function of the items one by one, as a nested tensor."""
    return of_items([function(*items) for items in zip(*(x.unbind() for x in nested))])


def _linear(func, input, weight, bias=None):
    return _each(lambda item: func(item, weight, bias), input)


def _matmul(func, a, b):
    if not (isinstance(a, StridedNestedTensor) and isinstance(b, StridedNestedTensor)):
        kinds = ["nested" if isinstance(x, StridedNestedTensor) else "non-nested" for x in (a, b)]
        raise RuntimeError(
            f"Expected both to be nested, but got a {kinds[0]} self and {kinds[1]} other"
        )
    return _each(corten.matmul, a, b)


def _inner(x, dim, refusal):
    """A dimension of items.

    Raises:
        RuntimeError: It is the first one, of the nested tensor.
    """
    place = wrapped(x, dim)
    if place == 0:
        raise RuntimeError(refusal)
    return place - 1


def _softmax(func, input, dim, dtype=None, **kwargs):
    place = _inner(input, dim, "Cannot apply softmax across nested dimension 0")
    return _each(lambda item: func(item, place, dtype=dtype), input)


def _layer_norm(func, input, normalized_shape, *args, **kwargs):
    return _each(lambda item: func(item, normalized_shape, *args, **kwargs), input)


def _transpose(func, x, dim0, dim1):
    if 0 in (wrapped(x, dim0), wrapped(x, dim1)):
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
    first, second = wrapped(x, dim0) - 1, wrapped(x, dim1) - 1
    return _each(lambda item: item.transpose(first, second), x)


def _select(func, x, dim, index):
    place = wrapped(x, dim)
    if place:
        return _each(lambda item: item.select(place - 1, index), x)
    if not -len(x) <= index < len(x):
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {len(x)}")
    return x.unbind()[index]


def _getitem(func, x, index):
    items = index if isinstance(index, tuple) else (index,)
    if type(items[0]) is int:
        found = _select(func, x, 0, items[0])
        return found[items[1:]] if items[1:] else found
    if items[0] is Ellipsis or (isinstance(items[0], slice) and items[0] == slice(None)):
        return _each(lambda item: item[items if items[0] is Ellipsis else items[1:]], x)
    raise NotImplementedError(
        "Could not run 'aten::slice.Tensor' with arguments from the 'NestedTensorCPU' backend."
    )


def _unsqueeze(func, x, dim):
    place = dim % (x.dim() + 1)
    if place == 0:
        raise RuntimeError("unsqueeze(): For nested tensors, dimension 0 cannot be unsqueezed")
    return _each(lambda item: item.unsqueeze(place - 1), x)


def _squeeze(func, x, dim=None):
    if dim is None:
        raise RuntimeError(
            "For nested tensors, squeeze without the dim argument is not supported at the moment, "
            "however you can use squeeze(Tensor self, int dim) instead if you need this feature"
        )
    place = _inner(x, dim, "For nested tensors, squeezing dimension 0 is not supported at the moment "
                   "if you need this feature")
    return _each(lambda item: item.squeeze(place), x)


def _view(func, x, *size):
    size = list(size[0] if isinstance(size[0], (tuple, list)) else size)
    if size[0] not in (-1, len(x)):
        raise RuntimeError(
            "view: For now nested view cannot change or infer the implicit batch dimension"
        )
    # -1 is what the dimension at this place was, where the nested tensor had one.
    return of_items([
        item.reshape([
            old[place] if n == -1 and place < len(old) else n for place, n in enumerate(size[1:])
        ]) for item, old in zip(x.unbind(), x._sizes)
    ])


def _chunk(func, x, chunks, dim=0):
    if wrapped(x, dim) != x.dim() - 1:
        raise RuntimeError(
            "Chunk for nested tensors is currently only supported for the last dimension."
        )
    parts = [item.chunk(chunks, -1) for item in x.unbind()]
    return tuple(of_items(list(group)) for group in zip(*parts))


def _narrow(func, x, dim, start, length):
    if wrapped(x, dim) != 0:
        raise RuntimeError("narrow(): only dim=0 supported for nested tensors")
    return of_items(list(x.unbind()[start:start + length]))


def _cat(func, tensors, dim=0):
    if dim != 0 or not all(isinstance(x, StridedNestedTensor) for x in tensors):
        raise RuntimeError("cat(): nested tensors are joined with nested ones, along dimension 0")
    return of_items([item for x in tensors for item in x.unbind()])


def _sum(func, input, dim=None, keepdim=False, *, dtype=None):
    dims = [dim] if isinstance(dim, int) else dim
    if dims is None or len(dims) != 1:
        raise NotImplementedError(
            "Could not run 'aten::sum' with arguments from the 'NestedTensorCPU' backend."
        )
    place = wrapped(input, dims[0])
    if place != input.dim() - 1:
        raise RuntimeError(
            "NestedTensor can only be reduced across the last dimension for now got dimension "
            f"{place} instead."
        )
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    return _each(lambda item: item.sum(-1, keepdim=True, dtype=dtype), input)


def _attention(func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
               enable_gqa=False):
    if attn_mask is not None:
        raise RuntimeError("Nested tensors for query / key are not supported when attn_mask is given")
    return _each(lambda q, k, v: func(
        q[None], k[None], v[None], dropout_p=dropout_p, is_causal=is_causal, scale=scale,
        enable_gqa=enable_gqa,
    )[0], query, key, value)


def _item(func, x):
    if x.numel() != 1:
        raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    return x._buffer.item()


def _grad(func, outputs, inputs, grad_outputs=None, **kwargs):
    from corten._parts_tensor import recorded

    grads = None if grad_outputs is None else tuple(map(recorded, grad_outputs))
    found = func(tuple(map(recorded, outputs)), tuple(map(recorded, inputs)), grads, **kwargs)
    return tuple(
        like(x, grad) if isinstance(x, StridedNestedTensor) and grad is not None else grad
        for x, grad in zip(inputs, found)
    )


def _retain_grad(func, x):
    x._buffer.retain_grad()


_SPECIAL = {
    "linear": _linear, "matmul": _matmul, "bmm": _matmul, "softmax": _softmax,
    "layer_norm": _layer_norm, "transpose": _transpose, "select": _select,
    "__getitem__": _getitem, "unsqueeze": _unsqueeze, "squeeze": _squeeze, "view": _view,
    "reshape": _view, "chunk": _chunk, "narrow": _narrow, "cat": _cat, "sum": _sum,
    "scaled_dot_product_attention": _attention, "item": _item, "grad": _grad,
    "retain_grad": _retain_grad, "contiguous": lambda func, x, **kwargs: x,
    "is_contiguous": lambda func, x, **kwargs: True,
    "embedding": lambda func, weight, x, *args, **kwargs: _each(
        lambda item: func(weight, item, *args, **kwargs), x),
    "unbind": lambda func, x, dim=0: x.unbind(dim),
    "__iter__": lambda func, x: iter(x.unbind()),
    "__bool__": lambda func, x: bool(_item(func, x)),
}
