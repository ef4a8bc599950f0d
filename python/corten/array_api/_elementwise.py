"""Functions of the standard that compute every element on its own."""

from __future__ import annotations

import corten
from corten import _C

from corten.array_api._array import wrapped
from corten.array_api._dtypes import (
    KIND_OF, WIDE_UNSIGNED, as_ordered, as_signed, from_ordered, from_signed, promoted, with_scalar,
)

_functions = _C._functions


def tensor_of(value, dtype, device):
    """A number as a tensor without dimensions, infinite where the data type has no number that large."""
    return corten.tensor(value, dtype=dtype, device=device)


def operands(name, x1, x2):
    """Two operands, one of which may be a number, as tensors of the data type of the result."""
    arrays = isinstance(x1, corten.Tensor), isinstance(x2, corten.Tensor)
    if arrays == (True, True):
        if x1.dtype == x2.dtype:
            return x1, x2
        dtype = promoted(x1.dtype, x2.dtype)
        return x1.to(dtype), x2.to(dtype)
    if not any(arrays):
        raise TypeError(f"{name}(): one of the operands must be an array")
    array, number = (x1, x2) if arrays[0] else (x2, x1)
    if not isinstance(number, (bool, int, float, complex)):
        raise TypeError(f"{name}(): operands are arrays and numbers, got {type(number).__name__}")
    dtype = with_scalar(array.dtype, number)
    array, number = array.to(dtype), tensor_of(number, dtype, array.device)
    return (array, number) if arrays[0] else (number, array)


def _named(function, name, doc):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name, doc, torch_name=None):
    compute = getattr(_functions, torch_name or name)

    def function(x, /):
        return wrapped(compute(x))

    return _named(function, name, doc)


def _integers_stay(name, doc):
    """A function that integers are left as they are by."""
    compute = getattr(_functions, name)

    def function(x, /):
        if not (x.is_floating_point() or x.is_complex()):
            return wrapped(x.clone())
        return wrapped(compute(x))

    return _named(function, name, doc)


def _binary(name, doc, compute, wide=None):
    """A function of two operands. ``wide`` computes unsigned integers from signed ones."""

    def function(x1, x2, /):
        one, other = operands(name, x1, x2)
        dtype = one.dtype
        if dtype in WIDE_UNSIGNED and wide is not None:
            return wrapped(wide(one, other))
        return wrapped(compute(one, other))

    return _named(function, name, doc)


def _modular(compute):
    """The result modulo two to the number of bits, which signed integers have the digits of."""
    return lambda one, other: from_signed(compute(as_signed(one), as_signed(other)), one.dtype)


def _compared(compute):
    return lambda one, other: compute(as_ordered(one), as_ordered(other))


def _extreme(compute):
    return lambda one, other: from_ordered(compute(as_ordered(one), as_ordered(other)), one.dtype)


for _name, _doc in {
    "acos": "The inverse cosine.", "acosh": "The inverse hyperbolic cosine.",
    "asin": "The inverse sine.", "asinh": "The inverse hyperbolic sine.",
    "atan": "The inverse tangent.", "atanh": "The inverse hyperbolic tangent.",
    "cos": "The cosine.", "cosh": "The hyperbolic cosine.", "exp": "The exponential.",
    "expm1": "The exponential less one.", "isfinite": "Whether elements are finite.",
    "isinf": "Whether elements are infinite.", "isnan": "Whether elements are NaN.",
    "log": "The natural logarithm.", "log1p": "The natural logarithm of one more.",
    "log2": "The logarithm to base 2.", "log10": "The logarithm to base 10.",
    "reciprocal": "One divided by the element.", "sin": "The sine.",
    "sinh": "The hyperbolic sine.", "sqrt": "The square root.", "tan": "The tangent.",
    "tanh": "The hyperbolic tangent.",
}.items():
    globals()[_name] = _unary(_name, _doc)

ceil = _integers_stay("ceil", "The least integer that is not less.")
floor = _integers_stay("floor", "The greatest integer that is not greater.")
trunc = _integers_stay("trunc", "The nearest integer towards zero.")


def conj(x, /):
    """The complex conjugate."""
    return wrapped(_functions.conj(x))


def real(x, /):
    """The real part."""
    return wrapped(_functions.real(x)) if x.is_complex() else wrapped(x.clone())


def imag(x, /):
    """The imaginary part, of real numbers zero."""
    if not x.is_complex():
        return wrapped(_functions.zeros_like(x))
    return wrapped(_functions.imag(x))


def round(x, /):
    """The nearest integer, the even one of two; of complex numbers that of both parts."""
    if x.is_complex():
        parts = _functions.round(_functions.view_as_real(x.resolve_conj()))
        return wrapped(_functions.view_as_complex(parts))
    return wrapped(_functions.round(x) if x.is_floating_point() else x.clone())


def abs(x, /):
    """The absolute value."""
    if KIND_OF.get(x.dtype) in ("unsigned integer", "bool"):
        return wrapped(x.clone())
    return wrapped(_functions.abs(x))


def negative(x, /):
    """The element with its sign changed; of unsigned integers modulo two to their bits."""
    if x.dtype in WIDE_UNSIGNED:
        return wrapped(from_signed(_functions.neg(as_signed(x)), x.dtype))
    return wrapped(_functions.neg(x))


def positive(x, /):
    """The element itself."""
    return wrapped(x.clone())


def square(x, /):
    """The element times itself."""
    return wrapped(_functions.mul(x, x))


def sign(x, /):
    """-1, 0 or 1, NaN where the element is; of complex numbers that of length one."""
    if x.is_complex():
        return wrapped(_functions.sgn(x))
    if x.dtype in WIDE_UNSIGNED:
        return wrapped((x != 0).to(x.dtype))
    if x.is_floating_point():
        return wrapped(_functions.where(_functions.isnan(x), x, _functions.sign(x)))
    return wrapped(_functions.sign(x))


def signbit(x, /):
    """Whether the sign bit is set, that of negative zeros and NaNs, too."""
    return wrapped(_functions.signbit(x))


def bitwise_invert(x, /):
    """The elements with all bits inverted, booleans negated."""
    if x.dtype in WIDE_UNSIGNED:
        return wrapped(from_signed(_functions.bitwise_not(as_signed(x)), x.dtype))
    return wrapped(_functions.bitwise_not(x))


def logical_not(x, /):
    """Whether elements are false."""
    return wrapped(_functions.logical_not(x.to(corten.bool)))


add = _binary("add", "Sums.", _functions.add, _modular(_functions.add))
subtract = _binary("subtract", "Differences.", _functions.sub, _modular(_functions.sub))
multiply = _binary("multiply", "Products.", _functions.mul)
atan2 = _binary("atan2", "The angles of points ``(x2, x1)``.", _functions.atan2)
copysign = _binary("copysign", "Magnitudes of ``x1`` with signs of ``x2``.", _functions.copysign)
hypot = _binary("hypot", "The square roots of sums of squares.", _functions.hypot)
logaddexp = _binary(
    "logaddexp", "The logarithms of sums of exponentials.", _functions.logaddexp
)
nextafter = _binary(
    "nextafter", "The next floating-point numbers towards ``x2``.", _functions.nextafter
)
equal = _binary("equal", "Whether elements are equal.", _functions.eq)
not_equal = _binary("not_equal", "Whether elements differ.", _functions.ne)
for _name, _torch_name, _doc in (
    ("less", "lt", "Whether ``x1`` is less."), ("less_equal", "le", "Whether ``x1`` is not greater."),
    ("greater", "gt", "Whether ``x1`` is greater."),
    ("greater_equal", "ge", "Whether ``x1`` is not less."),
):
    _compute = getattr(_functions, _torch_name)
    globals()[_name] = _binary(_name, _doc, _compute, _compared(_compute))
maximum = _binary(
    "maximum", "The greater elements, NaN where one is.", _functions.maximum, _extreme(_functions.maximum)
)
minimum = _binary(
    "minimum", "The lesser elements, NaN where one is.", _functions.minimum, _extreme(_functions.minimum)
)
for _name in ("and", "or", "xor"):
    _bits, _logic = getattr(_functions, f"bitwise_{_name}"), getattr(_functions, f"logical_{_name}")
    globals()[f"bitwise_{_name}"] = _binary(
        f"bitwise_{_name}", f"The bits of ``x1`` {_name} ``x2``.", _bits
    )
    globals()[f"logical_{_name}"] = _binary(
        f"logical_{_name}", f"Whether ``x1`` {_name} ``x2``.",
        lambda one, other, compute=_logic: compute(one.to(corten.bool), other.to(corten.bool)),
    )


def divide(x1, x2, /):
    """Quotients; those of integers are floating-point numbers."""
    one, other = operands("divide", x1, x2)
    if one.dtype in WIDE_UNSIGNED:
        dtype = corten.get_default_dtype()
        one, other = one.to(dtype), other.to(dtype)
    return wrapped(_functions.div(one, other))


def floor_divide(x1, x2, /):
    """Quotients rounded down. An infinite operand gives what division does."""
    one, other = operands("floor_divide", x1, x2)
    if one.dtype in WIDE_UNSIGNED:
        return wrapped(_unsigned_division(one, other)[0])
    result = _functions.floor_divide(one, other)
    if one.is_floating_point():
        infinite = _functions.isinf(one) | _functions.isinf(other)
        result = _functions.where(infinite, _functions.div(one, other), result)
    return wrapped(result)


def remainder(x1, x2, /):
    """Remainders of floor division, with the sign of ``x2``, zeros, too."""
    one, other = operands("remainder", x1, x2)
    if one.dtype in WIDE_UNSIGNED:
        return wrapped(_unsigned_division(one, other)[1])
    result = _functions.remainder(one, other)
    if one.is_floating_point():
        result = _functions.where(result == 0, _functions.copysign(result, other), result)
    return wrapped(result)


def _unsigned_division(one, other):
    """Quotients and remainders of unsigned integers.

    Those of 64 bits are divided by halves: the quotient of half the dividend, doubled, is off by one
    at most, and divisors with the highest bit go once or not at all.
    """
    dtype = one.dtype
    if dtype != corten.uint64:
        one, other = as_signed(one), as_signed(other)
        quotient, rest = _functions.floor_divide(one, other), _functions.remainder(one, other)
        return from_signed(quotient, dtype), from_signed(rest, dtype)
    dividend, divisor = as_signed(one), as_signed(other)
    large = divisor < 0
    small = _functions.where(large, 1, divisor)
    half = (dividend >> 1) & ((1 << 63) - 1)
    quotient = _functions.floor_divide(half, small) << 1
    least = -(1 << 63)
    rest = dividend - quotient * small
    more = (rest ^ least) >= (small ^ least)
    quotient = quotient + more.to(corten.int64)
    once = ((dividend ^ least) >= (divisor ^ least)).to(corten.int64)
    quotient = _functions.where(large, once, quotient)
    return from_signed(quotient, dtype), from_signed(dividend - quotient * divisor, dtype)


def pow(x1, x2, /):
    """Powers; of integers modulo two to their bits."""
    one, other = operands("pow", x1, x2)
    if one.dtype in WIDE_UNSIGNED:
        return wrapped(from_signed(_functions.pow(as_signed(one), as_signed(other)), one.dtype))
    return wrapped(_functions.pow(one, other))


def bitwise_left_shift(x1, x2, /):
    """Bits moved up by as many places as ``x2`` says; places beyond the bits give zero."""
    one, other = operands("bitwise_left_shift", x1, x2)
    bits = 8 * one.dtype.itemsize
    dtype = one.dtype
    if dtype in WIDE_UNSIGNED:
        one, other = as_signed(one), as_signed(other)
    beyond = (other >= bits) | (other < 0)
    moved = _functions.bitwise_left_shift(one, _functions.where(beyond, 0, other))
    result = _functions.where(beyond, 0, moved)
    return wrapped(from_signed(result, dtype) if dtype in WIDE_UNSIGNED else result)


def bitwise_right_shift(x1, x2, /):
    """Bits moved down by as many places as ``x2`` says, with copies of the sign bit."""
    one, other = operands("bitwise_right_shift", x1, x2)
    bits = 8 * one.dtype.itemsize
    dtype = one.dtype
    unsigned = KIND_OF.get(dtype) == "unsigned integer"
    if dtype in WIDE_UNSIGNED:
        one, other = as_signed(one), as_signed(other)
    beyond = (other >= bits) | (other < 0)
    if not unsigned:
        return wrapped(_functions.bitwise_right_shift(one, _functions.where(beyond, bits - 1, other)))
    places = _functions.where(beyond, 0, other)
    moved = _functions.bitwise_right_shift(one, places)
    if dtype == corten.uint64:
        # The copies of what is the sign bit here are taken away.
        kept = _functions.bitwise_right_shift(_functions.full_like(places, (1 << 63) - 1), places - 1)
        moved = _functions.where(places == 0, one, moved & kept)
    result = _functions.where(beyond, 0, moved)
    return wrapped(from_signed(result, dtype) if dtype in WIDE_UNSIGNED else result)


def clip(x, /, min=None, max=None):
    """The elements, those less than ``min`` or greater than ``max`` replaced by these."""
    result = x
    if min is not None:
        result = maximum(result, _bound(min, x))
    if max is not None:
        result = minimum(result, _bound(max, x))
    return wrapped(x.clone()) if result is x else wrapped(result)


def _bound(value, x):
    """A bound in the data type of what it bounds."""
    if isinstance(value, corten.Tensor):
        return value.to(x.dtype)
    if not (x.is_floating_point() or x.is_complex()):
        limits = _C.iinfo(x.dtype)
        if isinstance(value, int):
            return limits.min if value < limits.min else limits.max if value > limits.max else value
        if value in (float("inf"), -float("inf")):
            return limits.max if value > 0 else limits.min
    return value


__all__ = sorted(
    name for name, value in globals().items()
    if callable(value) and getattr(value, "__module__", "") == __name__ and not name.startswith("_")
    and name not in ("tensor_of", "operands")
)
