"""The array API standard, version 2024.12.

``x.__array_namespace__()`` is this module for every tensor ``x``. Where PyTorch's functions and the
standard differ, those of this namespace are the standard's; they return arrays of :class:`Array`, a
class of tensors with the standard's operators. See docs/array_api.md.
"""

from __future__ import annotations

from math import e, inf, nan, pi

from corten import (  # noqa: F401
    bool, complex64, complex128, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32,
    uint64,
)

from corten.array_api import (
    _creation, _dtypes, _elementwise, _manipulation, _searching, _statistics, fft, linalg,
)
from corten.array_api._array import Array as Array, attach_operators as _attach_operators
from corten.array_api._creation import *  # noqa: F403
from corten.array_api._dtypes import *  # noqa: F403
from corten.array_api._elementwise import *  # noqa: F403
from corten.array_api._info import __array_namespace_info__
from corten.array_api._manipulation import *  # noqa: F403
from corten.array_api._searching import *  # noqa: F403
from corten.array_api._statistics import *  # noqa: F403
from corten.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot

#: Versions of the standard that the namespace conforms to; later ones only added functions.
_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
__array_api_version__ = "2024.12"
newaxis = None

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "e", "inf", "nan", "newaxis", "pi",
    "bool", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "fft", "linalg", "matmul", "matrix_transpose", "tensordot", "vecdot",
    *_creation.__all__, *_dtypes.__all__, *_elementwise.__all__, *_manipulation.__all__,
    *_searching.__all__, *_statistics.__all__,
]

_attach_operators(globals())
