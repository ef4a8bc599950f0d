"""``FloatTensor``, ``FloatStorage`` and their like: classes from before tensors had a dtype."""

from __future__ import annotations

from corten import _C
from corten._C import Tensor
from corten.storage import TypedStorage, UntypedStorage, _LegacyStorage

_KINDS = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16",
    "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8",
    "Bool": "bool", "ComplexDouble": "complex128", "ComplexFloat": "complex64",
}


class _TensorType(type):
    """The class of a legacy tensor class: it makes tensors and recognises them by dtype."""

    def __call__(cls, *args, **kwargs):
        return _C._legacy_new(cls.dtype, *args, **kwargs)

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, Tensor)
            and instance.dtype == cls.dtype
            and instance.device.type == "cpu"
            and instance.layout is _C.strided
        )

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"

    def __str__(cls):
        return f"torch.{cls.__name__}"


def _make():
    made = {}
    for kind, name in _KINDS.items():
        dtype = getattr(_C, name)
        members = {"dtype": dtype, "layout": _C.strided, "is_cuda": False, "is_xpu": False, "is_sparse": False, "__module__": "corten"}
        if not kind.startswith("Complex"):
            made[f"{kind}Tensor"] = _TensorType(f"{kind}Tensor", (), members)
        storage = {"_dtype": dtype, "__module__": "corten", "__doc__": f"A storage of {name}."}
        made[f"{kind}Storage"] = type(_LegacyStorage)(f"{kind}Storage", (_LegacyStorage,), storage)
    return made


_MADE = _make()
globals().update(_MADE)
__all__ = list(_MADE)
_tensor_classes = {made for name, made in _MADE.items() if name.endswith("Tensor")}
_storage_classes = {UntypedStorage, TypedStorage, *_MADE.values()} - _tensor_classes
