"""Data types of the array API standard: their kinds, their promotion and their limits."""

from __future__ import annotations

import corten
from corten import _C

from corten.array_api._array import wrapped

_TYPES = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS = {
    **{kind: (kind,) for kind in _TYPES},
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}

#: The kind of every data type of the standard, and of PyTorch's other floating-point types.
KIND_OF = {getattr(corten, name): kind for kind, names in _TYPES.items() for name in names}
KIND_OF.update({corten.float16: "real floating", corten.bfloat16: "real floating"})

_SIGNED = {1: corten.int8, 2: corten.int16, 4: corten.int32, 8: corten.int64}


def types_of_kind(kind):
    """The data types of a kind, of several, or of all for ``None``, by their names."""
    if kind is None:
        kinds = tuple(_TYPES)
    elif isinstance(kind, tuple):
        kinds = [one for part in kind for one in _kinds_of(part)]
    else:
        kinds = _kinds_of(kind)
    return {name: getattr(corten, name) for one in kinds for name in _TYPES[one]}


def _kinds_of(kind):
    if kind not in _KINDS:
        raise ValueError(f"unrecognized data type kind: {kind!r}")
    return _KINDS[kind]


def isdtype(dtype, kind):
    """Whether a data type is another one, or of a kind, or either of several.

    The kinds are ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
    ``"real floating"``, ``"complex floating"`` and ``"numeric"``.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        return KIND_OF.get(dtype) in _kinds_of(kind)
    if not isinstance(kind, _C.dtype):
        raise TypeError(f"isdtype(): 'kind' must be a dtype, a str or a tuple, not {type(kind).__name__}")
    return dtype == kind


def promoted(one, other):
    """The data type that two promote to.

    PyTorch does not promote the unsigned types of more than eight bits; the standard promotes
    them as others.
    """
    if one == other:
        return one
    kinds = KIND_OF.get(one), KIND_OF.get(other)
    if "unsigned integer" not in kinds:
        return corten.promote_types(one, other)
    if kinds[0] == kinds[1]:
        return one if one.itemsize > other.itemsize else other
    if kinds[0] != "unsigned integer":
        one, other, kinds = other, one, kinds[::-1]
    if kinds[1] == "signed integer":
        if one.itemsize < other.itemsize:
            return other
        if one.itemsize < 8:
            return _SIGNED[2 * one.itemsize]
        raise TypeError(f"{one} and {other} cannot be promoted together")
    return one if kinds[1] == "bool" else other


def with_scalar(dtype, scalar):
    """The data type of an operation on an array of ``dtype`` and a Python number."""
    kind = KIND_OF.get(dtype)
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, int):
        return corten.int64 if kind == "bool" else dtype
    if isinstance(scalar, float):
        return dtype if kind in ("real floating", "complex floating") else corten.get_default_dtype()
    if kind == "complex floating":
        return dtype
    return promoted(dtype if kind == "real floating" else corten.get_default_dtype(), corten.complex64)


def result_type(*arrays_and_dtypes):
    """The data type that an operation on arrays, data types and Python numbers gives.

    Raises:
        ValueError: There is no array and no data type among the arguments.
        TypeError: The data types cannot be promoted together.
    """
    dtypes, scalars = [], []
    for one in arrays_and_dtypes:
        if isinstance(one, _C.dtype):
            dtypes.append(one)
        elif isinstance(one, corten.Tensor):
            dtypes.append(one.dtype)
        elif isinstance(one, (bool, int, float, complex)):
            scalars.append(one)
        else:
            raise TypeError(f"result_type(): expected arrays, dtypes or numbers, got {type(one).__name__}")
    if not dtypes:
        raise ValueError("result_type(): at least one array or dtype is required")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promoted(result, dtype)
    for scalar in scalars:
        result = with_scalar(result, scalar)
    return result


def can_cast(from_, to, /):
    """Whether a data type, or that of an array, is promoted to another one without loss."""
    dtype = from_.dtype if isinstance(from_, corten.Tensor) else from_
    try:
        return promoted(dtype, to) == to
    except TypeError:
        return False


def astype(x, dtype, /, *, copy=True, device=None):
    """The array with elements of another data type.

    With ``copy=False`` it is the array itself where nothing changes.

    Raises:
        TypeError: The elements are complex and ``dtype`` is not.
    """
    if x.is_complex() and KIND_OF.get(dtype) not in ("complex floating", "bool"):
        raise TypeError(f"astype(): complex elements cannot be cast to {dtype}")
    if not copy and dtype == x.dtype and device in (None, x.device):
        return wrapped(x)
    return wrapped(x.to(device=x.device if device is None else device, dtype=dtype, copy=True))


class _Limits:
    """Limits of a data type."""

    __slots__ = ("bits", "max", "min", "dtype")

    def __init__(self, limits, dtype, number):
        self.bits, self.dtype = limits.bits, dtype
        self.max, self.min = number(limits.max), number(limits.min)

    def __repr__(self):
        given = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__}({given})"


class finfo(_Limits):
    """Limits of a floating-point data type, or of that of an array.

    Those of a complex type are the limits of its parts.
    """

    __slots__ = ("eps", "smallest_normal")
    _shown = ("bits", "eps", "max", "min", "smallest_normal", "dtype")

    def __init__(self, type, /):
        dtype = type.dtype if isinstance(type, corten.Tensor) else type
        if KIND_OF.get(dtype) not in ("real floating", "complex floating"):
            raise TypeError(f"finfo(): {dtype} is not a floating-point data type")
        limits = corten.finfo(dtype)
        super().__init__(limits, dtype.to_real() if dtype.is_complex else dtype, float)
        self.eps, self.smallest_normal = float(limits.eps), float(limits.smallest_normal)


class iinfo(_Limits):
    """Limits of an integer data type, or of that of an array."""

    __slots__ = ()
    _shown = ("bits", "max", "min", "dtype")

    def __init__(self, type, /):
        dtype = type.dtype if isinstance(type, corten.Tensor) else type
        if KIND_OF.get(dtype) not in ("signed integer", "unsigned integer"):
            raise TypeError(f"iinfo(): {dtype} is not an integer data type")
        super().__init__(corten.iinfo(dtype), dtype, int)


#: Unsigned types that most operators are not defined for; see :func:`as_signed`.
WIDE_UNSIGNED = frozenset((corten.uint16, corten.uint32, corten.uint64))


def as_signed(tensor):
    """Signed integers that equal the unsigned ones, those of 64 bits modulo two to the 64th.

    Sums, products and bitwise operations of these have the digits of the unsigned result.
    """
    return tensor.view(corten.int64) if tensor.dtype == corten.uint64 else tensor.to(corten.int64)


def from_signed(tensor, dtype):
    """Unsigned integers of ``dtype`` that equal signed ones modulo two to their bits."""
    return tensor.view(dtype) if dtype == corten.uint64 else tensor.to(dtype)


def as_ordered(tensor):
    """Signed integers in the order of the unsigned ones."""
    signed = as_signed(tensor)
    return signed ^ _LEAST if tensor.dtype == corten.uint64 else signed


def from_ordered(tensor, dtype):
    """The inverse of :func:`as_ordered`."""
    return from_signed(tensor ^ _LEAST if dtype == corten.uint64 else tensor, dtype)


_LEAST = -(1 << 63)

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]
