"""Methods of ``Tensor`` that are written in Python, attached when the package is imported."""

from __future__ import annotations

import functools
import weakref

from corten import _C
from corten._C import Tensor
from corten._overriding import hand_over, overridden
from corten._removed import _removed


def _lazy(name):
    """A method whose function is loaded when it is first called."""

    def method(self, *args, **kwargs):
        from corten import _module_functions

        if overridden(self):
            return hand_over(method, (self,), self, *args, **kwargs)
        return getattr(_module_functions, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    return method


for _name in ("apply_", "map_", "map2_"):
    setattr(Tensor, _name, _lazy(_name))


class _WeakTensorRef:
    """A weak reference to a tensor, which tells whether that is gone."""

    def __init__(self, tensor):
        self._reference = weakref.ref(tensor)

    def expired(self):
        """Whether the tensor is gone."""
        return self._reference() is None


_C._WeakTensorRef = _WeakTensorRef


def polygamma(self, n):
    """The derivative of order ``n`` of ``digamma`` of each element."""
    return _C._functions.polygamma(n, self)


def polygamma_(self, n):
    """As :meth:`polygamma`, in place."""
    # Of a copy: what is written to would be needed again by the derivative.
    return self.copy_(_C._functions.polygamma(n, self.clone()))


def pin_memory(self, device=None):
    """A copy in pinned memory, from which a GPU copies by itself, or the tensor if it is there already.

    Raises:
        RuntimeError: There is no GPU, or the tensor is not on the host.
    """
    if "_cuda_init" not in vars(_C):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    from corten import cuda

    cuda.init()
    pin = vars(_C).get("_cuda_pinTensor")
    if pin is None:
        raise NotImplementedError("pin_memory: this build has no pinned memory")
    if self.layout is not _C.strided:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    # Elements that share their memory cannot be copied to one by one.
    return pin(self.contiguous() if 0 in self.stride() else self)


def const_data_ptr(self):
    """The address of the first element, to read from."""
    return self.data_ptr()


def is_distributed(self):
    """Whether parts are in several processes."""
    return False


def record_stream(self, stream):
    """Says that a GPU's stream uses the tensor, whose memory then is not given to others before the stream
    has got that far. The CPU has no streams."""
    if not self.is_cuda:
        raise RuntimeError("record_stream is for tensors on accelerators")
    record = vars(_C).get("_cuda_recordStream")
    # Without a cache the driver itself waits for all streams when the memory is freed.
    if record is not None:
        record(self, stream.device_index, stream.stream_id)


def dense_dim(self):
    """How many dimensions are dense: all."""
    return self.dim()


def sparse_dim(self):
    """How many dimensions are sparse: none."""
    return 0


def sparse_mask(self, mask):
    """The entries of this tensor at the places of a sparse one."""
    from corten.sparse import _coordinate

    return _coordinate._sparse_mask(self, mask)


def to_sparse(self, *args, **kwargs):
    """The entries that are not zero, in coordinate format."""
    from corten import sparse

    return sparse.to_sparse(self, *args, **kwargs)


def _to_compressed(layout):
    def method(self, *args, **kwargs):
        from corten.sparse import _layouts

        return _layouts.METHODS[method.__name__](self, *args, **kwargs)

    method.__name__ = f"to_sparse_{layout}"
    method.__doc__ = f"The entries that are not zero, in the layout ``sparse_{layout}``."
    return method


def _sparse_method(name):
    def method(self, *args, **kwargs):
        from corten.sparse import _resize

        return _resize.METHODS[name](self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = "For sparse tensors."
    return method


def to_sparse_coo(self):
    """The entries that are not zero, in coordinate format."""
    return self.to_sparse()


def smm(self, mat):
    """The product of this matrix, which is sparse, and another one."""
    return _C._functions.mm(self, mat)


def to_padded_tensor(self, padding, output_size=None):
    """For nested tensors; see :func:`corten.nested.to_padded_tensor`."""
    raise NotImplementedError("to_padded_tensor is for nested tensors")


def dequantize(self):
    """Floating-point numbers; unquantised tensors become ``float32``."""
    return self.to(_C.float32)


def xpu(self, device=None, non_blocking=False, memory_format=None):
    """A copy on an Intel GPU."""
    raise _C._DeviceError("Torch not compiled with XPU enabled")


def mtia(self, device=None, non_blocking=False, memory_format=None):
    """A copy on an MTIA device."""
    raise _C._DeviceError("Torch not compiled with MTIA enabled")


def ipu(self, device=None, non_blocking=False, memory_format=None):
    """A copy on an IPU."""
    raise RuntimeError("PyTorch is not linked with support for ipu devices")


def reinforce(self, reward):
    """Removed: ``-dist.log_prob(action) * reward`` is the loss."""
    raise RuntimeError(
        "reinforce() was removed. Use torch.distributions instead, and the loss "
        "-m.log_prob(action) * reward."
    )


def __array_namespace__(self, /, *, api_version=None):
    """The namespace of the array API standard; see :mod:`corten.array_api`."""
    from corten.array_api._array import namespace

    return namespace(api_version)


def to_device(self, device, /, *, stream=None):
    """The tensor on another device, or itself where it is there already."""
    if stream is None:
        return self.to(device)
    from corten import cuda

    if not cuda.is_available():
        raise ValueError("to_device(): stream is for devices that have them, and must be None")
    with cuda.stream(cuda.get_stream_from_external(stream, device) if isinstance(stream, int) else stream):
        return self.to(device)


_CUDA_TYPES = {
    "complex64": "<c8", "complex128": "<c16", "bfloat16": "<V2", "float16": "<f2", "float32": "<f4",
    "float64": "<f8", "uint8": "|u1", "int8": "|i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4",
    "int32": "<i4", "uint64": "<u8", "int64": "<i8", "bool": "|b1",
}


def _cuda_interface(self):
    if overridden(self):
        return hand_over(Tensor.__cuda_array_interface__.__get__, (self,), self)
    if self.is_cuda:
        if self.layout is not _C.strided:
            raise AttributeError(
                f"Can't get __cuda_array_interface__ on sparse type: {self.type()} Use Tensor.to_dense() to "
                "convert to a dense tensor first."
            )
        if self.requires_grad:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't "
                "required, use var.detach() to get Variable that doesn't require grad."
            )
        size = self.element_size()
        contiguous = self.is_contiguous()
        return {
            "typestr": _CUDA_TYPES[str(self.dtype).partition(".")[2]], "shape": tuple(self.shape),
            "strides": None if contiguous else tuple(step * size for step in self.stride()),
            "data": (self.data_ptr() if self.numel() else 0, False), "version": 2,
        }
    raise AttributeError(
        "Can't get __cuda_array_interface__ on non-CUDA tensor type: "
        f"{self.type()} If CUDA data is required use tensor.cuda() to copy tensor to device memory."
    )


def _sparse_only(name, expected):
    def method(self, *args, **kwargs):
        found = "Strided" if self.layout == _C.strided else "Sparse"
        raise RuntimeError(f"{name} expected {expected} tensor layout but got {found}")

    method.__doc__ = f"For {expected} tensors; this one is dense."
    return method


#: Methods whose results are of the classes of this package, whatever operators there are.
_OF_SPARSE = (
    dense_dim, sparse_dim, to_sparse, to_sparse_coo, sparse_mask, smm,
    *map(_to_compressed, ("csr", "csc", "bsr", "bsc")),
    *map(_sparse_method, (
        "sspaddmm", "sparse_resize_", "sparse_resize_and_clear_", "resize_as_sparse_",
    )),
)
_FUNCTIONS = (
    polygamma, polygamma_, pin_memory, const_data_ptr, is_distributed, record_stream, dequantize, xpu,
    mtia, ipu, reinforce, to_padded_tensor, to_device, __array_namespace__,
)
_SPARSE = {
    "is_coalesced": "sparse coordinate", "coalesce": "sparse coordinate",
    "indices": "sparse coordinate", "values": "sparse",
    "crow_indices": "sparse row compressed", "col_indices": "sparse row compressed",
    "ccol_indices": "sparse column compressed", "row_indices": "sparse column compressed",
}
_REMOVED = ("cholesky", "eig", "lstsq", "qr", "solve", "symeig")


def _of_layout(name, method):
    """The method of dense tensors; for one of another layout, that of its class, which a call as
    ``Tensor.values(x)`` would miss."""

    @functools.wraps(method)
    def chosen(self, *args, **kwargs):
        if overridden(self):
            return hand_over(chosen, (self,), self, *args, **kwargs)
        if self.layout is not _C.strided:
            own = getattr(type(self), name, chosen)
            if own is not chosen:
                return own(self, *args, **kwargs)
        return method(self, *args, **kwargs)

    return chosen


def _attach():
    sparse = {function.__name__: function for function in _OF_SPARSE}
    sparse.update((name, _sparse_only(name, kind)) for name, kind in _SPARSE.items())
    methods = {function.__name__: function for function in _FUNCTIONS} | sparse
    methods.update((name, _removed(name)) for name in _REMOVED)
    for name, method in methods.items():
        if name in sparse or not hasattr(Tensor, name):
            method = _of_layout(name, method)
            method.__name__ = name
            method.__qualname__ = f"Tensor.{name}"
            setattr(Tensor, name, method)
    Tensor.__cuda_array_interface__ = property(_cuda_interface)


_attach()
del _name
