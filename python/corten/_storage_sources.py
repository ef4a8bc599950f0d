"""Storages made of buffers and of files."""

from __future__ import annotations

import os
import sys

from corten import _C

_ORDERS = {"native": sys.byteorder, "little": "little", "big": "big"}


def bytes_of_buffer(buffer, byte_order, count, offset, dtype):
    """The bytes of ``count`` elements of a buffer, all of them if that is negative, in the byte order
    of this machine.

    Raises:
        ValueError: The buffer has not so many elements from byte ``offset`` on.
        RuntimeError: There is no dtype, or it needs a byte order and there is none.
    """
    if dtype is None:
        raise RuntimeError("argument 'dtype' cannot be None")
    if byte_order is None and not _is_byte(dtype):
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    if byte_order is not None and byte_order not in _ORDERS:
        raise ValueError(
            f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
        )
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    length, itemsize = view.nbytes, dtype.itemsize
    if not 0 <= offset <= length:
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({length}) , but got "
            f"{offset}"
        )
    if count < 0:
        if (length - offset) % itemsize:
            raise ValueError(
                f"buffer size ({length}) must be a multiple of element size ({itemsize})"
            )
        count = (length - offset) // itemsize
    if count * itemsize > length - offset:
        raise ValueError(
            f"buffer has only {length - offset} elements after offset {offset}, but specified a "
            f"size of {count}"
        )
    taken = bytes(view)[offset:offset + count * itemsize]
    if dtype == _C.bool:
        return bytes(byte != 0 for byte in taken)
    swapped = byte_order is not None and _ORDERS[byte_order] != sys.byteorder
    return byteswapped(taken, dtype) if swapped else taken


def _is_byte(dtype):
    return dtype.itemsize == 1 and dtype != _C.bool


def byteswapped(data, dtype):
    """Bytes with those of every element of a dtype reversed; what is left over stays."""
    size = dtype.itemsize // (2 if dtype.is_complex else 1)
    swapped = bytearray(data)
    whole = len(data) // size * size
    for place in range(size):
        swapped[place:whole:size] = data[size - 1 - place:whole:size]
    return bytes(swapped)


def storage_of_file(filename, shared, nbytes):
    """A storage over the first bytes of a file. With ``shared`` writes reach the file, which is made,
    and made larger with zeros, where that is needed.

    Raises:
        RuntimeError: The file cannot be opened or mapped, or is too small.
    """
    for name, value in (("filename", filename), ("nbytes", nbytes)):
        kinds = (str, bytes, os.PathLike) if name == "filename" else int
        if not isinstance(value, kinds):
            expected = "str" if name == "filename" else "int"
            raise TypeError(
                f"from_file(): argument '{name}' must be {expected}, not {type(value).__name__}"
            )
    return _C._storage_from_file(os.fsencode(filename), bool(shared), nbytes)
