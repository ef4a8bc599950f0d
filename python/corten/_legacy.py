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

    _kind, _module = "cpu", "torch"

    def __call__(cls, *args, **kwargs):
        return _C._legacy_new(cls.dtype, *args, **kwargs)

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, Tensor)
            and instance.dtype == cls.dtype
            and instance.device.type == cls._kind
            and instance.layout is _C.strided
        )

    def __repr__(cls):
        return f"<class '{cls._module}.{cls.__name__}'>"

    def __str__(cls):
        return f"{cls._module}.{cls.__name__}"


class _CudaTensorType(_TensorType):
    """The class of a legacy tensor class for GPUs."""

    _kind, _module = "cuda", "torch.cuda"

    def __call__(cls, *args, device=None, **kwargs):
        from corten import cuda

        cuda.init()
        device = _C.device("cuda" if device is None else device)
        if device.type != "cuda":
            raise RuntimeError(
                f"legacy constructor expects device type: cuda but device type: {device.type} was passed"
            )
        # A tensor on a GPU becomes another handle of itself, which the host's constructor does as well.
        if len(args) == 1 and isinstance(args[0], Tensor) and args[0].device.type == "cuda":
            return _C._legacy_new(cls.dtype, *args, **kwargs)
        return _C._legacy_new(cls.dtype, *args, **kwargs).to(device)


def _make():
    made = {}
    for kind, name in _KINDS.items():
        dtype = getattr(_C, name)
        members = {"dtype": dtype, "layout": _C.strided, "is_cuda": False, "is_xpu": False, "is_sparse": False, "__module__": "corten"}
        if not kind.startswith("Complex"):
            made[f"{kind}Tensor"] = _TensorType(f"{kind}Tensor", (), members)
        storage = {"_dtype": dtype, "__module__": "corten", "__doc__": f"A storage of {name}."}
        made[f"{kind}Storage"] = type(_LegacyStorage)(f"{kind}Storage", (_LegacyStorage,), storage)
    for kind in ("QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4"):
        dtype = getattr(_C, kind.lower())
        storage = {"_dtype": dtype, "__module__": "corten", "__doc__": f"A storage of {kind.lower()}."}
        made[f"{kind}Storage"] = type(_LegacyStorage)(f"{kind}Storage", (_LegacyStorage,), storage)
    return made


def cuda_class(name):
    """``torch.cuda.FloatTensor``, ``torch.cuda.FloatStorage`` and their like; ``None`` for other names."""
    host = _MADE.get(name)
    if host is None or name in _CUDA:
        return _CUDA.get(name)
    if name.endswith("Tensor"):
        members = {"dtype": host.dtype, "layout": _C.strided, "is_cuda": True, "is_xpu": False, "is_sparse": False, "__module__": "torch.cuda"}
        _CUDA[name] = _CudaTensorType(name, (), members)
    else:
        _CUDA[name] = _cuda_storage(name, host)
    return _CUDA[name]


def _cuda_storage(name, host):
    def new(cls, *args, **kwargs):
        from corten import cuda

        cuda.init()
        kwargs.setdefault("device", "cuda")
        return TypedStorage(*args, dtype=host._dtype, _internal=True, **kwargs)

    members = {"__new__": new, "_dtype": host._dtype, "__module__": "torch.cuda", "__doc__": f"{host.__doc__[:-1]} on a GPU."}
    return type(name, (), members)


_CUDA = {}
_MADE = _make()
globals().update(_MADE)
__all__ = list(_MADE)
_tensor_classes = {made for name, made in _MADE.items() if name.endswith("Tensor")}
_storage_classes = {UntypedStorage, TypedStorage, *_MADE.values()} - _tensor_classes
