"""Memory of GPUs that objects describe by ``__cuda_array_interface__``, in its versions 0 to 3."""

from __future__ import annotations

import corten
from corten import _C

__all__ = []

_DTYPES = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
    "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c4": "complex32",
    "c8": "complex64", "c16": "complex128",
}


def import_tensor(source):
    """A tensor over the memory of an object, which it keeps alive.

    Work of the current stream waits for the stream that the interface names.
    """
    described = source.__cuda_array_interface__
    if not isinstance(described, dict):
        raise TypeError("`__cuda_array_interface__` must be a dict")
    for name in ("shape", "typestr", "data"):
        if name not in described:
            raise TypeError(f"attribute `{name}` must exist")
    if described.get("mask") is not None:
        raise TypeError("`__cuda_array_interface__` with a mask is not supported")
    address, _ = described["data"]
    sizes = tuple(described["shape"])
    index = _device(address, sizes)
    return _C._cuda_tensorFromAddress(
        source, address or 0, sizes, described.get("strides"), _dtype(described["typestr"]), index,
        described.get("stream"))


def _dtype(text):
    order, kind = text[:1], text[1:]
    if order not in "<|=":
        raise ValueError(
            "given array with byte order that differs from native one. Conversion between byte orders is "
            "currently not supported.")
    if kind not in _DTYPES:
        raise TypeError(f"can't convert memory of type {text!r} of a GPU to a tensor")
    return getattr(corten, _DTYPES[kind])


def _device(address, sizes):
    """The GPU that an address is on; the current one where there are no elements."""
    from corten.cuda._lazy import _lazy_init

    _lazy_init()
    index = _C._cuda_deviceOfAddress(address) if address else None
    if index is None and 0 not in sizes:
        raise ValueError(
            "The specified pointer resides on host memory and is not registered with any CUDA device.")
    return _C._cuda_getDevice() if index is None else index
