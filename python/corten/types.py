"""Types for annotations."""

from __future__ import annotations

from typing import Any, Sequence, Union

from corten._C import Generator, Size, Tensor, device, dtype, layout, qscheme  # noqa: F401
from corten.storage import TypedStorage, UntypedStorage

__all__ = ["Number", "Device", "FileLike", "Storage"]

_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_dtype, _device, _size, _layout = dtype, device, Union[Size, list, tuple], layout
_int, _float, _bool, _complex = int, float, bool, complex
Number = Union[int, float, bool]
Device = Union[device, str, int, None]
FileLike = Union[str, Any]
Storage = Union[UntypedStorage, TypedStorage]
