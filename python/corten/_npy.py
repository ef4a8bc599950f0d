"""Reading NumPy's files: ``.npy``, an array, and ``.npz``, a zip file of arrays."""

from __future__ import annotations

import ast
import math
import os
import sys

import corten

from . import _utils
from ._archive import Archive, read_into

_MAGIC = b"\x93NUMPY"
_LARGEST_HEADER = 10_000
#: Compressed arrays of up to this many bytes are read, however small they are in the file.
_LARGEST_INFLATED = 1 << 32
_DTYPES = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8",
    "u2": "uint16", "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32",
    "f8": "float64", "c8": "complex64", "c16": "complex128",
}


def load_npy(path):
    """The array of a file, as a tensor.

    Raises:
        ValueError: It is no such file, or holds what no tensor can hold.
    """
    with open(path, "rb") as file, _naming(path):
        return _read_array(file, os.fstat(file.fileno()).st_size)


def load_npz(path):
    """The arrays of a file, by name, as tensors.

    Raises:
        ValueError: It is no such file, or holds what no tensor can hold.
    """
    import io

    found = {}
    with open(path, "rb") as file, _naming(path):
        archive = Archive(file, folder=False, largest_inflated=_LARGEST_INFLATED)
        for name in archive.names():
            data = archive.read(name)
            found[name.removesuffix(".npy")] = _read_array(io.BytesIO(data), len(data))
    return found


class _naming:
    """A block whose errors are ValueErrors that name the file."""

    def __init__(self, path):
        self._path = os.fsdecode(path)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, (ValueError, RuntimeError)):
            raise ValueError(f"{self._path}: {error}") from None


def _read_array(file, total):
    """The array that begins where a file is; ``total`` is the length of the file."""
    dtype, order, fortran, shape = _header(file)
    count = math.prod(shape)
    if count * dtype.itemsize > total - file.tell():
        raise ValueError("the file is shorter than the array that its header describes")
    sizes = shape[::-1] if fortran else shape
    try:
        tensor = corten.empty(sizes, dtype=dtype)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"the shape in the header is impossible: {error}") from None
    storage = tensor.untyped_storage()
    if count:
        read_into(file, _utils.byte_view(storage))
        if order != sys.byteorder:
            storage.byteswap(dtype)
        _utils.only_truths(storage, dtype)
    return tensor.permute(tuple(range(len(shape)))[::-1]) if fortran else tensor


def _header(file):
    """Dtype, byte order, whether the first dimension varies fastest, and shape."""
    start = file.read(8)
    if start[:6] != _MAGIC or len(start) < 8 or start[6] not in (1, 2, 3):
        raise ValueError("the file is not an array file of NumPy")
    width = 2 if start[6] == 1 else 4
    size = int.from_bytes(file.read(width), "little")
    if size > _LARGEST_HEADER:
        raise ValueError(f"the header has {size} bytes: more than {_LARGEST_HEADER} are not read")
    text = file.read(size)
    if len(text) != size:
        raise ValueError("the file ends within its header")
    try:
        # Literals only: nothing in the text is run.
        header = ast.literal_eval(text.decode("utf-8" if start[6] == 3 else "latin1").strip())
    except Exception as error:  # the parser raises half a dozen classes
        raise ValueError(f"cannot parse header ({type(error).__name__})") from None
    if type(header) is not dict or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError("the header does not contain the correct keys")
    descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    if type(fortran) is not bool or type(shape) is not tuple:
        raise ValueError("the header has values of wrong types")
    if any(type(size) is not int or not 0 <= size < 2**63 for size in shape):
        raise ValueError("the shape in the header is not valid")
    return (*_dtype(descr), fortran, shape)


def _dtype(descr):
    """The dtype of a description such as ``<f4``, and its byte order."""
    if type(descr) is not str or descr[1:] not in _DTYPES or descr[0] not in "<>|=":
        if type(descr) is str and descr[1:2] == "O":
            raise ValueError("Object arrays cannot be loaded: they hold programs")
        raise ValueError("arrays of that dtype cannot be tensors")
    order = {"<": "little", ">": "big"}.get(descr[0], sys.byteorder)
    return getattr(corten, _DTYPES[descr[1:]]), order
