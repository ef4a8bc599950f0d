"""What pickles of tensors refer to: functions that rebuild them."""

from __future__ import annotations

from collections import OrderedDict

import corten

#: Names that files use for the classes of storages, by dtype.
STORAGE_NAMES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
}
NAME_OF_DTYPE = {dtype: name for name, dtype in STORAGE_NAMES.items()}


class StorageRef:
    """A storage in a pickle: its bytes, and the dtype of its elements if the file says so."""

    __slots__ = ("untyped", "dtype")

    def __init__(self, untyped, dtype=None):
        self.untyped, self.dtype = untyped, dtype

    @property
    def device(self):
        """Where the bytes are."""
        return self.untyped.device

    def __reduce__(self):
        return _storage_from_bytes, (storage_bytes(self.untyped), self.dtype)


def byte_view(storage):
    """The bytes of a storage on the CPU, writable; valid while the storage lives."""
    import ctypes

    size = storage.nbytes()
    if size == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * size).from_address(storage.data_ptr())).cast("B")


def storage_bytes(storage):
    """A copy of a storage's bytes, from any device."""
    if storage.device.type != "cpu":
        storage = storage.cpu()
    return bytes(byte_view(storage))


def _storage_from_bytes(data, dtype=None):
    storage = corten.UntypedStorage(len(data))
    if data:
        byte_view(storage)[:] = data
    return StorageRef(storage, dtype)


def short_dtype(dtype):
    """``float32`` for ``torch.float32``."""
    return str(dtype).split(".")[-1]


def reduce_tensor(tensor):
    """The function and arguments by which a pickle rebuilds a plain tensor."""
    if tensor.layout != corten.strided:
        parts = (tensor._indices(), tensor._values(), tensor.size(), tensor.is_coalesced())
        return _rebuild_sparse_tensor, (tensor.layout, parts)
    if tensor.device.type == "meta":
        arguments = (tensor.dtype, tuple(tensor.size()), tensor.stride(), tensor.requires_grad)
        return _rebuild_meta_tensor_no_storage, arguments
    name = short_dtype(tensor.dtype)
    storage = StorageRef(tensor.untyped_storage(), name)
    shape = (tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride()))
    flags = {
        flag: True for flag, is_set in (("conj", tensor.is_conj()), ("neg", tensor.is_neg()))
        if is_set
    }
    tail = (tensor.requires_grad, OrderedDict())
    if name in NAME_OF_DTYPE:
        arguments = (storage, *shape, *tail)
        return _rebuild_tensor_v2, (*arguments, flags) if flags else arguments
    storage.dtype = None
    arguments = (storage, *shape, *tail, tensor.dtype)
    return _rebuild_tensor_v3, (*arguments, flags) if flags else arguments


def _over(storage, dtype, offset, size, stride):
    tensor = corten.empty((0,), dtype=dtype, device=storage.device)
    return tensor.set_(storage.untyped, offset, size, stride)


def _finished(tensor, requires_grad, hooks, metadata):
    for flag, method in (("conj", "_conj"), ("neg", "_neg_view")):
        if metadata and metadata.get(flag):
            tensor = getattr(tensor, method)()
    if requires_grad:
        tensor.requires_grad_(True)
    if hooks:
        tensor._backward_hooks = hooks
    return tensor


def _rebuild_tensor(storage, storage_offset, size, stride):
    """A tensor over a storage of known dtype."""
    dtype = getattr(corten, storage.dtype)
    return _over(storage, dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    """A tensor over a storage of known dtype, with flags."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    return _finished(tensor, requires_grad, backward_hooks, metadata)


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    """A tensor over bytes."""
    tensor = _over(storage, dtype, storage_offset, size, stride)
    return _finished(tensor, requires_grad, backward_hooks, metadata)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """A parameter over ``data``."""
    from corten.nn import Parameter

    return _finished(Parameter(data, requires_grad), False, backward_hooks, None)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """A parameter with further attributes."""
    param = _rebuild_parameter(data, requires_grad, backward_hooks)
    for name, value in (state or {}).items():
        setattr(param, name, value)
    return param


def _rebuild_sparse_tensor(layout, data):
    """A sparse tensor of its parts."""
    if layout != corten.sparse_coo:
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
    indices, values, size, *coalesced = data
    tensor = corten.sparse_coo_tensor(indices, values, size)
    return tensor._coalesced_(bool(coalesced and coalesced[0]))


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    """A tensor without data."""
    return corten.empty_strided(
        size, stride, dtype=dtype, device="meta", requires_grad=requires_grad
    )


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    """A tensor of another device that was saved as a CPU tensor."""
    tensor = data.to(device=device, dtype=dtype)
    tensor.requires_grad = requires_grad
    return tensor
