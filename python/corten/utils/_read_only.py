"""A tensor that other libraries must not write to."""

from __future__ import annotations

import ctypes

import corten
from corten._C import Tensor
from corten._parts_tensor import PartsTensor

_READ_ONLY = 1


class _Managed(ctypes.Structure):
    """The first fields of DLPack's ``DLManagedTensorVersioned``."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64),
    ]


class ReadOnlyTensorWrapper(PartsTensor):
    """A tensor's memory for libraries that read it by DLPack, marked as read only. Everything else
    is refused: the tensor itself is there for it."""

    def __new__(cls, tensor):
        made = Tensor._make_shell(
            cls, tuple(tensor.shape), dtype=tensor.dtype, layout=corten.strided,
            device=tensor.device,
        )
        made._tensor = tensor._tensor if isinstance(tensor, cls) else tensor
        return made

    def __init__(self, tensor):
        pass

    @property
    def _recorded(self):
        return self._tensor

    @classmethod
    def _call(cls, name, func, args, kwargs):
        raise RuntimeError(
            f"ReadOnlyTensorWrapper only supports DLPack export; '{name}' is not allowed. Unwrap the "
            "tensor to operate on its data."
        )

    def __repr__(self, *, tensor_contents=None):
        return self._call("__repr__", None, (self,), {})

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        options = {name: value for name, value in (
            ("stream", stream), ("dl_device", dl_device), ("copy", copy)) if value is not None}
        capsule = self._tensor.__dlpack__(max_version=(1, 0), **options)
        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        managed = _Managed.from_address(address(capsule, b"dltensor_versioned"))
        managed.flags |= _READ_ONLY
        return capsule

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()
