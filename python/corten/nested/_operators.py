"""What operators do with jagged tensors: most of them compute on the values."""

from __future__ import annotations

import corten
from corten import _C
from corten._C import Tensor

from . import _padding, _products, _reductions, _views
from ._jagged import NestedTensor, like, wrapped

#: Operators of elements: the nested operands have one structure, the dense ones are broadcast.
_POINTWISE = frozenset(_C._ops_tagged("jagged_pointwise")) | {"logsigmoid", "softsign", "tanhshrink"}
#: Operators that make a tensor like the one they get, or convert it.
_LIKE = frozenset(_C._ops_tagged("jagged_like")) | {
    "cpu", "cuda", "double", "float", "half", "bfloat16", "int", "long", "short", "char",
    "byte", "bool", "cfloat", "cdouble", "type",
}
#: Operators that write into their first operand.
_FILLING = frozenset(_C._ops_tagged("jagged_fill")) | {"fill_"}
_SYMBOLS = {
    "__invert__": "bitwise_not", "__iter__": "unbind", "special_expit": "sigmoid",
}


def call(name, func, args, kwargs):
    """The result of an operator.

    Raises:
        NotImplementedError: Jagged tensors do not have it.
    """
    name = _SYMBOLS.get(name, name)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(func, *args, **kwargs)
    if name in _LIKE:
        return _of_values(name, func, *args, **kwargs)
    if name in _POINTWISE:
        return _pointwise(name, func, args, kwargs)
    if name in _FILLING or (name.endswith("_") and name[:-1] in _POINTWISE):
        _pointwise(name, func, args, kwargs, fixed=args[0])
        return args[0]
    if name in _reductions.NAMES:
        return _reductions.reduced(name, func, *args, **kwargs)
    raise NotImplementedError(f"aten.{name}.default")


def _of_values(name, func, x, *args, **kwargs):
    if name == "contiguous" and _is_contiguous(func, x):
        return x
    if name == "contiguous" and x._lengths is not None:
        return _packed(x)
    if name == "to" and args and isinstance(args[0], NestedTensor):
        args = (args[0]._values, *args[1:])
    values = func(x._values, *args, **kwargs)
    return x if values is x._values else like(x, values)


def _packed(x):
    """The items without what is between them."""
    row, _, _ = _padding.places(x)
    values = x._values.index_select(x._ragged_idx - 1, row)
    ends = corten.tensor([0, *x._seqlens()], device=values.device).cumsum(0)
    from ._jagged import made

    return made(values, ends, None, x._ragged_idx)


def _pointwise(name, func, args, kwargs, fixed=None):
    everything = (*args, *kwargs.values())
    nested = [x for x in everything if isinstance(x, NestedTensor)]
    first = fixed if isinstance(fixed, NestedTensor) else max(nested, key=NestedTensor.dim)
    for other in nested:
        if not _fits(first, other):
            raise RuntimeError(
                f"cannot call binary pointwise function {name}.Tensor with inputs of shapes "
                f"{tuple(nested[0].shape)} and {tuple(nested[-1].shape)}"
            )

    def values(x):
        return _aligned(name, first, x) if isinstance(x, Tensor) else x

    result = func(*map(values, args), **{key: values(x) for key, x in kwargs.items()})
    if isinstance(result, tuple):
        return tuple(like(first, part) for part in result)
    return like(first, result)


def _fits(x, other):
    place = x._ragged_idx
    same = x.dim() == other.dim() and place == other._ragged_idx
    return same and x.shape[place] == other.shape[place]


def _aligned(name, x, other):
    """An operand as it stands beside the values of ``x``."""
    if isinstance(other, NestedTensor):
        return other._values
    if other.dim() == 0:
        return other
    if other.dim() > x.dim():
        raise RuntimeError(
            f"cannot call binary pointwise function {name}.Tensor with inputs of shapes "
            f"{tuple(x.shape)} and {tuple(other.shape)}"
        )
    dense = other[(None,) * (x.dim() - other.dim())]
    place, longest = x._ragged_idx, x._max_seqlen
    if dense.size(place) == 1:
        if dense.size(0) == 1:
            return dense[0]
        return _padding.of_items(x, dense.select(place, 0)).movedim(0, place - 1)
    if dense.size(place) != longest or dense.size(0) not in (1, len(x)):
        raise RuntimeError(
            f"cannot call binary pointwise function {name}.Tensor with inputs of shapes "
            f"{tuple(x.shape)} and {tuple(other.shape)}"
        )
    return _padding.unpadded(x, dense.expand(len(x), *dense.shape[1:]))._values


def _is_contiguous(func, x, memory_format=corten.contiguous_format):
    return x._lengths is None and x._values.is_contiguous()


def _inner(name, x, dim):
    """The dimension of the values that a dimension is, which holds whole items' rows."""
    dim = wrapped(x, dim)
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return dim - 1


def _softmax(func, input, dim, dtype=None, **kwargs):
    dim = wrapped(input, dim)
    if dim == 0:
        raise RuntimeError("softmax(): not supported when reducing across the batch dimension for "
                           "NestedTensor")
    if dim != input._ragged_idx:
        return like(input, func(input._values, dim - 1, dtype=dtype))
    return _padding.unpadded(
        input, func(_padding.padded(input, float("-inf")), dim, dtype=dtype)
    )


def _normalised(func, input, normalized_shape, *args, **kwargs):
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    if input._ragged_idx >= input.dim() - count:
        raise RuntimeError(
            "layer_norm(): normalizing over ragged dim not supported for nested tensors"
        )
    return like(input, func(input._values, normalized_shape, *args, **kwargs))


def _embedding(func, weight, indices, *args, **kwargs):
    return like(indices, func(weight, indices._values, *args, **kwargs))


def _item(func, x):
    if x.numel() != 1:
        raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    return _packed(x)._values.item()


def _refused(text):
    def operator(func, *args, **kwargs):
        raise RuntimeError(text)

    return operator


def _grad(func, outputs, inputs, grad_outputs=None, **kwargs):
    from corten._parts_tensor import recorded

    grads = None if grad_outputs is None else tuple(map(recorded, grad_outputs))
    found = func(tuple(map(recorded, outputs)), tuple(map(recorded, inputs)), grads, **kwargs)
    return tuple(
        like(x, grad) if isinstance(x, NestedTensor) and grad is not None else grad
        for x, grad in zip(inputs, found)
    )


def _register_hook(func, x, hook):
    def on_values(grad):
        found = hook(like(x, grad))
        return found._values if isinstance(found, NestedTensor) else found

    return x._values.register_hook(on_values)


def _retain_grad(func, x):
    x._values.retain_grad()


_SPECIAL = {
    **_views.OPERATORS, **_products.OPERATORS, "is_contiguous": _is_contiguous,
    "softmax": _softmax, "log_softmax": _softmax, "layer_norm": _normalised,
    "rms_norm": _normalised, "embedding": _embedding, "item": _item, "grad": _grad,
    "numpy": _refused(".numpy() is not supported for tensor subclasses."),
    "tolist": _refused(".tolist() is not supported for tensor subclasses, got NestedTensor"),
    "register_hook": _register_hook, "retain_grad": _retain_grad,
    "__bool__": lambda func, x: bool(_item(func, x)),
}
