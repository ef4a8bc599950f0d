"""Functions of the standard that make arrays."""

from __future__ import annotations

import math

import corten
from corten import _C

from corten.array_api._array import wrapped
from corten.array_api._dtypes import KIND_OF, WIDE_UNSIGNED, from_signed, result_type
from corten.array_api._elementwise import tensor_of

_functions = _C._functions


def _dtype_of(value):
    """The default data type of a Python number."""
    if isinstance(value, bool):
        return corten.bool
    if isinstance(value, int):
        return corten.int64
    if isinstance(value, complex):
        return corten.get_default_dtype().to_complex()
    return corten.get_default_dtype()


def _shape_of(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of numbers, nested sequences of numbers, or another object's memory.

    Raises:
        ValueError: ``copy`` is ``False`` and a copy is needed.
    """
    if copy is False and isinstance(obj, (bool, int, float, complex, list, tuple)):
        raise ValueError("asarray(): numbers and sequences cannot be made an array without a copy")
    if isinstance(obj, corten.Tensor):
        return _of_tensor(obj, dtype, device, copy)
    if type(obj) in (bool, int, float, complex):
        return wrapped(tensor_of(obj, _dtype_of(obj) if dtype is None else dtype, device))
    if isinstance(obj, (list, tuple)):
        return wrapped(_of_sequence(obj, dtype, device))
    if copy is not False and any(stride < 0 for stride in getattr(obj, "strides", None) or ()):
        # Tensors have no negative strides; those of a copy are positive.
        obj = obj.copy()
    return wrapped(corten.asarray(obj, dtype=dtype, device=device, copy=copy))


def _of_tensor(tensor, dtype, device, copy):
    """An array over the memory of a tensor, with its history, or a copy."""
    dtype = tensor.dtype if dtype is None else dtype
    device = tensor.device if device is None else corten.device(device)
    if copy is False:
        if (dtype, device) != (tensor.dtype, tensor.device):
            raise ValueError("asarray(): another data type or device needs a copy")
        if tensor.is_conj() or tensor.is_neg():
            raise ValueError("asarray(): what conj() gives needs a copy")
    return wrapped(tensor.to(device=device, dtype=dtype, copy=bool(copy)))


def _of_sequence(sequence, dtype, device):
    """A tensor of nested sequences of numbers and arrays."""
    try:
        return corten.tensor(sequence, dtype=dtype, device=device)
    except ValueError:
        if any(isinstance(one, (corten.Tensor, list, tuple)) for one in sequence):
            parts = [asarray(one, dtype=dtype, device=device) for one in sequence]
            if len({part.shape for part in parts}) > 1:
                raise
            dtype = result_type(*parts)
            return _functions.stack([part.to(dtype) for part in parts])
        if dtype is not None or not any(isinstance(one, int) and one >= 1 << 63 for one in sequence):
            raise
        return corten.tensor(sequence, dtype=corten.uint64, device=device)


def from_dlpack(x, /, *, device=None, copy=None):
    """An array over the memory of another object, on the device asked for.

    Raises:
        BufferError: The memory is not laid out as a tensor's can be.
        ValueError: ``copy`` is ``False`` and a copy is needed.
    """
    if isinstance(x, corten.Tensor):
        return asarray(x, device=device, copy=copy)
    try:
        tensor = corten.from_dlpack(x)
    except RuntimeError as error:
        raise BufferError(str(error)) from error
    if device is not None and corten.device(device) != tensor.device:
        if copy is False:
            raise ValueError("from_dlpack(): another device needs a copy")
        return wrapped(tensor.to(device))
    return wrapped(tensor.clone() if copy else tensor)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Numbers from ``start`` on, at distances of ``step``, before ``stop``."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange(): step must not be zero")
    exact = all(isinstance(one, int) for one in (start, stop, step))
    if dtype is None:
        dtype = corten.int64 if exact else corten.get_default_dtype()
    count = len(range(start, stop, step)) if exact else max(0, math.ceil((stop - start) / step))
    kind = KIND_OF.get(dtype)
    if not exact or kind not in ("signed integer", "unsigned integer"):
        steps = _functions.arange(count, dtype=corten.float64, device=device)
        return wrapped((steps * step + start).to(dtype))
    if count == 0:
        return empty(0, dtype=dtype, device=device)
    # Modulo two to the 64th every number is right, those between, too.
    start, step = _as_int64(start), _as_int64(step)
    numbers = _functions.arange(count, dtype=corten.int64, device=device) * step + start
    return wrapped(from_signed(numbers, dtype) if dtype in WIDE_UNSIGNED else numbers.to(dtype))


def _as_int64(number):
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """``num`` numbers at equal distances from ``start`` to ``stop``, which ``endpoint`` includes."""
    if num < 0:
        raise ValueError(f"linspace(): num must not be negative, got {num}")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    if dtype is None:
        dtype = corten.get_default_dtype()
        dtype = dtype.to_complex() if is_complex else dtype
    exact = corten.complex128 if dtype.is_complex else corten.float64
    parts = num - 1 if endpoint else num
    if num <= 1:
        return wrapped(_functions.full((num,), start, dtype=exact, device=device).to(dtype))
    steps = _functions.arange(num, dtype=corten.float64, device=device)
    # Halves are added: the distance of two finite numbers may be infinite.
    made = start * ((parts - steps) / parts) + stop * (steps / parts)
    if not dtype.is_complex and math.isfinite(stop - start):
        made = steps * ((stop - start) / parts) + start
    made = made.to(exact)
    if endpoint:
        made[-1] = stop
    return wrapped(made.to(dtype))


def empty(shape, *, dtype=None, device=None):
    """An array whose elements are not set."""
    return wrapped(_functions.empty(_shape_of(shape), dtype=dtype, device=device))


def empty_like(x, /, *, dtype=None, device=None):
    """An array of the shape of another, whose elements are not set."""
    return wrapped(_functions.empty_like(x, dtype=dtype, device=device))


def full(shape, fill_value, *, dtype=None, device=None):
    """An array whose elements are all one number."""
    if isinstance(fill_value, corten.Tensor):
        dtype, fill_value = dtype or fill_value.dtype, fill_value.item()
    dtype = _dtype_of(fill_value) if dtype is None else dtype
    if isinstance(fill_value, (float, complex)):
        fill_value = tensor_of(fill_value, dtype, "cpu").item()
    return wrapped(_functions.full(_shape_of(shape), fill_value, dtype=dtype, device=device))


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """An array of the shape of another, whose elements are all one number."""
    dtype = x.dtype if dtype is None else dtype
    return full(x.shape, fill_value, dtype=dtype, device=x.device if device is None else device)


def ones(shape, *, dtype=None, device=None):
    """An array of ones."""
    return wrapped(_functions.ones(_shape_of(shape), dtype=dtype, device=device))


def ones_like(x, /, *, dtype=None, device=None):
    """An array of ones of the shape of another."""
    return wrapped(_functions.ones_like(x, dtype=dtype, device=device))


def zeros(shape, *, dtype=None, device=None):
    """An array of zeros."""
    return wrapped(_functions.zeros(_shape_of(shape), dtype=dtype, device=device))


def zeros_like(x, /, *, dtype=None, device=None):
    """An array of zeros of the shape of another."""
    return wrapped(_functions.zeros_like(x, dtype=dtype, device=device))


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """A matrix with ones on its ``k``-th diagonal."""
    n_cols = n_rows if n_cols is None else n_cols
    made = zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        made.diagonal(k).fill_(1)
    return made


def tril(x, /, *, k=0):
    """The elements below the ``k``-th diagonal, and on it; others are zero."""
    return wrapped(_functions.tril(_matrices(x, "tril"), _diagonal(x, k)))


def triu(x, /, *, k=0):
    """The elements above the ``k``-th diagonal, and on it; others are zero."""
    return wrapped(_functions.triu(_matrices(x, "triu"), _diagonal(x, k)))


def _matrices(x, name):
    if x.ndim < 2:
        raise ValueError(f"{name}(): x must have at least 2 dimensions, got {x.ndim}")
    return x


def _diagonal(x, k):
    """The number of a diagonal, of one beyond the matrix the nearest."""
    return max(-x.shape[-2], min(x.shape[-1], k))


def meshgrid(*arrays, indexing="xy"):
    """Grids of coordinates, one for every one-dimensional array."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid(): indexing is 'xy' or 'ij', got {indexing!r}")
    if not arrays:
        return []
    return [wrapped(grid) for grid in _functions.meshgrid(list(arrays), indexing=indexing)]


__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]
