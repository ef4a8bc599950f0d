"""The array object of the standard: a tensor whose operators have the standard's semantics."""

from __future__ import annotations

import importlib
import operator

from corten import _C
from corten._C import Tensor


class _Size(int):
    """A number of elements that can also be called, as ``Tensor.size`` can."""

    def __new__(cls, tensor):
        size = super().__new__(cls, tensor.numel())
        size._shape = tensor.shape
        return size

    def __call__(self, dim=None):
        return self._shape if dim is None else self._shape[dim]

    def __reduce__(self):
        return int, (int(self),)


class Array(Tensor):
    """A tensor whose operators follow the array API standard where PyTorch's differ.

    Arrays without dimensions take part in type promotion as all others, all unsigned integers are
    supported, slices may have negative steps, and ``size`` is a number. Functions of
    ``corten.array_api`` return such arrays; all else that takes tensors takes them, and its
    results are plain tensors.
    """

    __torch_function__ = _C._disabled_torch_function_impl
    __hash__ = Tensor.__hash__

    @property
    def size(self):
        """The number of elements; ``size()`` and ``size(dim)`` are those of ``Tensor``."""
        return _Size(self)

    @property
    def T(self):
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ValueError(f"x.T requires x to have 2 dimensions, got {self.ndim}")
        return wrapped(self.mT)

    @property
    def mT(self):
        """The transposes of the matrices in the last two dimensions."""
        return wrapped(_matrix_transpose(self))

    def to_device(self, device, /, *, stream=None):
        """The array on another device, or itself where it is there already."""
        return wrapped(Tensor.to_device(self, device, stream=stream))

    def __getitem__(self, key, /):
        if isinstance(key, Tensor) and key.dtype == _C.bool and 0 in key.shape:
            key = _empty_mask(self, key)
        flipped, key, _ = _with_positive_steps(self, key)
        tensor = self.flip(flipped) if flipped else self
        return wrapped(Tensor.__getitem__(tensor, _indices(key)))

    def __setitem__(self, key, value, /):
        flipped, key, dims = _with_positive_steps(self, key, in_place=True)
        if flipped and isinstance(value, Tensor):
            within = [dim - len(dims) for dim, other in enumerate(dims) if other in flipped]
            within = [dim for dim in within if -dim <= value.ndim]
            value = value.flip(within) if within else value
        if isinstance(value, int) and value > _GREATEST:
            value = _C._functions.full((), value, dtype=self.dtype, device=self.device)
        Tensor.__setitem__(self, _indices(key), value)

    def __index__(self):
        if self.ndim or self.is_floating_point() or self.is_complex() or self.dtype == _C.bool:
            raise TypeError("only integer arrays without dimensions can be converted to an index")
        return int(self.item())

    def __complex__(self, /):
        return complex(self.item())

    def __dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None):
        return Tensor.__dlpack__(
            self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self, /):
        return Tensor.__dlpack_device__(self)

    def __array_namespace__(self, /, *, api_version=None):
        return namespace(api_version)

_GREATEST = (1 << 63) - 1


def namespace(api_version=None):
    """The module ``corten.array_api``, for a version of the standard that it conforms to.

    Raises:
        ValueError: It does not conform to that version.
    """
    module = importlib.import_module("corten.array_api")
    known = module._API_VERSIONS
    if api_version is not None and api_version not in known:
        raise ValueError(f"__array_namespace__(): api_version is one of {known}, got {api_version!r}")
    return module


def wrapped(value):
    """A tensor as an array of the standard, whose memory holds what its elements are."""
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    return value if type(value) is Array else value.as_subclass(Array)


def _matrix_transpose(tensor):
    if tensor.ndim < 2:
        raise ValueError(f"x.mT requires x to have at least 2 dimensions, got {tensor.ndim}")
    return tensor.transpose(-2, -1)


def _indices(key):
    """An index with integers in the type that positions have. Bytes are no masks, as they are in PyTorch."""
    if type(key) is tuple:
        return tuple([_indices(one) for one in key])
    if isinstance(key, Tensor) and key.dtype not in (_C.int64, _C.bool) and not key.is_floating_point():
        return key.to(_C.int64)
    return key


def _empty_mask(tensor, mask):
    """A mask that chooses nothing, of the shape of what it is for.

    One without elements may have no element along any axis, as in NumPy.
    """
    shape = tensor.shape[:mask.ndim]
    if len(shape) == mask.ndim and all(size in (0, whole) for size, whole in zip(mask.shape, shape)):
        return _C._functions.zeros(shape, dtype=_C.bool, device=mask.device)
    return mask


def _with_positive_steps(tensor, key, in_place=False):
    """The dimensions to flip so that an index needs no negative steps, that index, and which
    dimension of the tensor each one of the result comes from.

    Where the result is assigned to, slices select the same elements from below, as a flipped
    tensor is a copy; it is the value that is to be flipped then.
    """
    keys = key if type(key) is tuple else (key,)
    if not any(type(one) is slice and one.step is not None and operator.index(one.step) < 0 for one in keys):
        return (), key, ()
    used = sum(_dimensions_of(one) for one in keys)
    made, flipped, dims, dim = [], [], [], 0
    for one in keys:
        if one is Ellipsis:
            dims.extend(range(dim, dim + tensor.ndim - used))
            dim += tensor.ndim - used
        elif type(one) is slice:
            dims.append(dim)
            if one.step is not None and operator.index(one.step) < 0:
                one = _from_below(one, tensor.shape[dim], in_place)
                flipped.append(dim)
            dim += 1
        else:
            if isinstance(one, Tensor) and one.ndim and in_place:
                raise IndexError("slices with negative steps beside arrays cannot be assigned to")
            dims.extend((None,) if one is None else ())
            dim += _dimensions_of(one)
        made.append(one)
    dims.extend(range(dim, tensor.ndim))
    return flipped, tuple(made), dims


def _dimensions_of(index):
    """How many dimensions of a tensor an index uses."""
    if index is None or index is Ellipsis or isinstance(index, bool):
        return 0
    if isinstance(index, Tensor) and index.dtype == _C.bool:
        return index.ndim
    return 1


def _from_below(part, size, in_place):
    """A slice with a positive step: of the flipped dimension, or of the dimension itself."""
    chosen = range(*part.indices(size))
    if not chosen:
        return slice(0, 0)
    if in_place:
        return slice(chosen[-1], chosen[0] + 1, -chosen.step)
    return slice(size - 1 - chosen[0], size - chosen[-1], -chosen.step)


_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}
_COMPARED = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"abs": "abs", "neg": "negative", "pos": "positive", "invert": "bitwise_invert"}


def attach_operators(functions):
    """Gives arrays the operators, which compute by the functions of the standard."""
    for name, function in _BINARY.items():
        _attach(f"__{name}__", _operator(f"__{name}__", functions[function]))
        _attach(f"__r{name}__", _reflected(f"__r{name}__", functions[function]))
        _attach(f"__i{name}__", _in_place(f"__i{name}__", functions[function]))
    for name, function in _COMPARED.items():
        _attach(f"__{name}__", _operator(f"__{name}__", functions[function]))
    for name, function in _UNARY.items():
        _attach(f"__{name}__", _unary_operator(functions[function]))


def _attach(name, method):
    method.__name__ = name
    method.__qualname__ = f"Array.{name}"
    setattr(Array, name, method)


def _takes(other):
    return isinstance(other, (Tensor, int, float, complex))


def _operator(name, function):
    of_tensors = getattr(Tensor, name)

    def method(self, other, /):
        return function(self, other) if _takes(other) else of_tensors(self, other)

    return method


def _reflected(name, function):
    of_tensors = getattr(Tensor, name, None)

    def method(self, other, /):
        if _takes(other):
            return function(other, self)
        return NotImplemented if of_tensors is None else of_tensors(self, other)

    return method


def _in_place(name, function):
    of_tensors = getattr(Tensor, name, None)

    def method(self, other, /):
        if not _takes(other):
            return NotImplemented if of_tensors is None else of_tensors(self, other)
        result = function(self, other)
        if result.shape != self.shape:
            raise ValueError(
                f"{name}: the result has shape {tuple(result.shape)}, the array {tuple(self.shape)}"
            )
        if result.dtype != self.dtype:
            raise TypeError(f"{name}: the result has data type {result.dtype}, the array {self.dtype}")
        return self.copy_(result)

    return method


def _unary_operator(function):
    def method(self, /):
        return function(self)

    return method
