"""Operators on the entries of sparse tensors: functions that keep zero zero, their in-place forms and
outputs, powers, quotients."""

from __future__ import annotations

import corten
from corten import _C
from corten._C import Tensor

from ._arithmetic import _become, _kind, _put, _quotient
from ._entries import (
    OPERATORS, SparseTensor, _C_plain, _coalesce, _made, _shell, before, write,
)

#: Functions that are 0 (or false) at 0, by all their names.
KEEP_ZERO = tuple(_C._ops_tagged("keeps_zero"))
_QUOTIENTS = ("div", "divide", "true_divide")
#: What errors call functions of several names.
_KNOWN_AS = {
    "absolute": "abs", "fix": "trunc", "negative": "neg",
    **{f"arc{name}": f"a{name}" for name in ("sin", "sinh", "tan", "tanh")},
}
#: Those of them that have no in-place form.
_NEW_ONLY = frozenset(name for name in KEEP_ZERO if not hasattr(Tensor, f"{name}_"))


def _put_with_shape(x, other):
    with _C_plain():
        Tensor.data.__set__(x, other.detach())
    _put(x, other)


def replaced(x, other):
    """Gives a tensor the shape, the dtype and the parts, and the history, of another."""
    return write(x, other, _put_with_shape)


def _cast_into(values, dtype):
    """Values in the dtype of an output."""
    if not corten.can_cast(values.dtype, dtype):
        raise RuntimeError(
            f"result type {_kind(values.dtype)} can't be cast to the desired output type {_kind(dtype)}"
        )
    return values.to(dtype)


def written(out, made):
    """Writes a sparse result where the caller wants it.

    Raises:
        RuntimeError: The output is no sparse tensor, or its dtype does not take the result.
    """
    if out is None:
        return made
    if not isinstance(out, SparseTensor):
        raise RuntimeError(
            "Expected self.is_sparse() && result.is_sparse() to be true, but got false.  (Could this "
            "error message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    if corten.is_grad_enabled() and (made.requires_grad or out.requires_grad):
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    indices, values = made._held
    values = _cast_into(values, out.dtype)
    return replaced(out, _shell(indices, values, made.shape, made._coalesced))


def _function(name):
    dense = getattr(corten, name)

    def operator(input, *args, out=None, **kwargs):
        input = _coalesce(input)
        indices, values = input._parts
        return written(out, _made(indices, dense(values, *args, **kwargs), input.shape, True))

    return operator


def _in_place(name):
    dense, known = getattr(corten, name), _KNOWN_AS.get(name, name)

    def operator(input, *args, **kwargs):
        if not input._coalesced:
            raise RuntimeError(f"{known}_ requires coalesced input")
        indices, values = before(input)._parts
        values = _cast_into(dense(values, *args, **kwargs), values.dtype)
        return _become(input, _made(indices, values, input.shape, True))

    return operator


def _power(input, exponent, *, out=None):
    """Powers of the entries: with exponent 0 the others would be 1."""
    if isinstance(exponent, Tensor):
        if isinstance(exponent, SparseTensor) or exponent.dim() or not isinstance(input, SparseTensor):
            raise NotImplementedError("powers of sparse tensors have a number as exponent")
        exponent = exponent.item()
    if exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        )
    input = _coalesce(input)
    indices, values = input._parts
    return written(out, _made(indices, values.pow(exponent), input.shape, True))


def _check_divisor(other, name="division"):
    if isinstance(other, Tensor) and (other.dim() or isinstance(other, SparseTensor)):
        raise RuntimeError(
            f"Sparse {name} requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(other.shape)} for divisor)"
        )


def _divided(input, other, *, rounding_mode=None, out=None):
    _check_divisor(other)
    return written(out, _quotient(input, other, rounding_mode=rounding_mode))


def _floor_divided(input, other, *, out=None):
    _check_divisor(other, "floor division")
    return _divided(input, other, rounding_mode="floor", out=out)


def _with_dtype_of_self(name):
    """An in-place form that refuses a result its tensor's dtype does not take."""

    def operator(input, *args, **kwargs):
        made = OPERATORS[name](before(input), *args, **kwargs)
        if not isinstance(input, SparseTensor):
            _cast_into(made._held[1][:0], input.dtype)
            return input.copy_(made.to_dense())
        if made.shape != input.shape:
            raise RuntimeError(
                f"{name}_: the result has the shape {list(made.shape)}, which is not the shape "
                f"{list(input.shape)} of the sparse tensor"
            )
        _cast_into(made._held[1], input.dtype)
        return _become(input, made.to(input.dtype))

    return operator


def _any(input, *args, **kwargs):
    if args or kwargs:
        raise NotImplementedError("any along a dimension is not implemented for sparse tensors")
    return _coalesce(input)._held[1].any()


def _negated(input, *, out=None):
    return written(out, _keeping_order(input))


_keeping_order = OPERATORS["neg"]
OPERATORS.update({name: _function(name) for name in KEEP_ZERO if name not in ("neg", "negative")})
OPERATORS.update({
    f"{name}_": _in_place(name) for name in KEEP_ZERO if name not in _NEW_ONLY
})
_divided_in_place = _with_dtype_of_self("div")
OPERATORS.update({
    "neg": _negated, "negative": _negated, "neg_": lambda x: _become(x, _negated(before(x))),
    "negative_": lambda x: _become(x, _negated(before(x))), "any": _any,
    "pow": _power, "pow_": _with_dtype_of_self("pow"), "ipow": _with_dtype_of_self("pow"),
    **{name: _divided for name in (*_QUOTIENTS, "truediv")},
    **{f"{name}_": _divided_in_place for name in _QUOTIENTS},
    "itruediv": _divided_in_place, "floor_divide": _floor_divided, "floordiv": _floor_divided,
    "floor_divide_": _with_dtype_of_self("floor_divide"),
    "ifloordiv": _with_dtype_of_self("floor_divide"),
    "mul_": _with_dtype_of_self("mul"), "multiply_": _with_dtype_of_self("mul"),
    "imul": _with_dtype_of_self("mul"), "isnan": _function("isnan"),
    "is_conj": lambda x: False, "is_neg": lambda x: False, "resolve_conj": lambda x: x,
    "resolve_neg": lambda x: x,
})
