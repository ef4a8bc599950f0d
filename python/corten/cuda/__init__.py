"""NVIDIA GPUs.

The driver is looked for at the first use, not at import; :func:`is_available` says whether there is a GPU that
can be used. Kernels are compiled for the GPU at hand when they are used first.
"""

from __future__ import annotations

import os

from corten import _C
from corten.cuda import _lazy
from corten.cuda._lazy import (
    DeferredCudaCallError, _is_compiled, _is_in_bad_fork, _lazy_call, _lazy_init, init,
    is_initialized,
)
from corten.cuda._measures import (
    clock_rate, device_memory_used, memory_usage, power_draw, temperature, utilization,
)
from corten.cuda._properties import _CudaDeviceProperties
from corten.cuda._utils import _get_device_index

has_half = True
has_magma = False

#: The architectures that the run-time compiler has kernels for.
_ARCHITECTURES = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
_initialization_lock, _queued_calls = _lazy._lock, _lazy._queued_calls


def is_available():
    """Whether a GPU can be used. Never raises, and makes no context."""
    return device_count() > 0


def device_count():
    """How many GPUs can be used; ``CUDA_VISIBLE_DEVICES`` limits them. Makes no context, and where NVIDIA's
    management library is, the variable may still be changed until a GPU is used."""
    if not _is_compiled():
        return 0
    if not _C._cuda_isStarted():
        from corten.cuda import _visible

        found = _visible.count()
        if found is not None:
            return found
    return _C._cuda_getDeviceCount()


def is_bf16_supported(including_emulation=True):
    """Whether the current GPU computes in bfloat16, by itself or by way of float32."""
    if not is_available():
        return False
    return including_emulation or get_device_capability()[0] >= 8


def is_tf32_supported():
    """Whether the current GPU computes products in TF32."""
    return is_bf16_supported(including_emulation=False)


def get_arch_list():
    """The architectures that kernels can be compiled for."""
    return [f"sm_{number}" for number in _ARCHITECTURES] if _is_compiled() else []


def get_gencode_flags():
    """The architectures as options of NVIDIA's compiler."""
    names = (name.partition("_")[2] for name in get_arch_list())
    return " ".join(f"-gencode compute=compute_{name},code=sm_{name}" for name in names)


def current_device():
    """The index of the current GPU."""
    _lazy_init()
    return _C._cuda_getDevice()


def set_device(device):
    """Makes a GPU the current one of this thread; a negative index changes nothing. The context manager
    :class:`device` is usually better."""
    index = _get_device_index(device, optional=True)
    if index is None or index >= 0:
        _lazy_init()
        _C._cuda_setDevice(_get_device_index(device, optional=True))


def _exchange_device(device):
    if device < 0:
        return -1
    _lazy_init()
    return _C._cuda_exchangeDevice(device)


def _maybe_exchange_device(device):
    if device < 0:
        return -1
    _lazy_init()
    return _C._cuda_maybeExchangeDevice(device)


class device:
    """Makes a GPU the current one for a ``with`` block; -1 and ``None`` change nothing.

    Args:
        device: A device, its text or its index.
    """

    def __init__(self, device):
        if device is None:
            self.idx = -1
        elif isinstance(device, (str, _C.device)) and _C.device(device).index is None:
            found = _C.device(device)
            if found.type != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {found}")
            # The current one stays it.
            self.idx = _C._cuda_getDevice() if _is_compiled() else 0
        else:
            self.idx = _get_device_index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, kind, value, traceback):
        self.idx = _maybe_exchange_device(self.prev_idx)
        return False


class _DeviceGuard(device):
    """:class:`device` of an index."""


class device_of(device):
    """Makes the GPU of a tensor or a storage the current one; others change nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def _known_device(device, what="device"):
    index = _get_device_index(device, optional=True)
    if index < 0 or index >= device_count():
        raise AssertionError(f"Invalid {what} id")
    return index


def get_device_properties(device=None):
    """What is known about a GPU."""
    _lazy_init()
    return _CudaDeviceProperties(_C._cuda_getDeviceProperties(_known_device(device)))


def get_device_name(device=None):
    """The name of a GPU."""
    return get_device_properties(device).name


def get_device_capability(device=None):
    """Major and minor number of a GPU's architecture."""
    found = get_device_properties(device)
    return found.major, found.minor


def can_device_access_peer(device, peer_device):
    """Whether a GPU reads the memory of another one directly."""
    _lazy_init()
    index, peer = _known_device(device), _known_device(peer_device, "peer device")
    return _C._cuda_canDeviceAccessPeer(index, peer)


def synchronize(device=None):
    """Waits for everything a GPU was asked to do."""
    _lazy_init()
    _C._cuda_synchronize(_get_device_index(device, optional=True))


def ipc_collect():
    """Frees memory whose receivers in other processes have given it back."""
    _lazy_init()
    from corten.multiprocessing import _cuda_ipc

    _cuda_ipc.collect()


class cudaStatus:
    """What the driver's functions return."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


class CudaError(RuntimeError):
    """An error that a function of the runtime library returned."""

    def __init__(self, code):
        from corten.cuda import _runtime

        super().__init__(f"{_runtime.cudaGetErrorString(code)} ({int(code)})")


def check_error(res):
    """Raises unless the result is success."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def cudart():
    """Functions of the runtime library, under their names."""
    _lazy_init()
    from corten.cuda import _runtime

    return _runtime


def _no_handle(library):
    def handle():
        _lazy_init()
        raise NotImplementedError(f"this build has no handle of {library}")

    return handle


def current_blas_handle():
    """The handle of cuBLAS (``cublasHandle_t``) of this thread, for the current GPU and stream."""
    _lazy_init()
    return _C._cuda_blasHandle()


current_solver_handle = _no_handle("cuSOLVER")
current_solver_handle.__doc__ = "The handle of cuSOLVER, which this build does not use."

_SYNC_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode):
    """What calls that wait for a stream do: ``"default"``, ``"warn"`` or ``"error"``, or 0 to 2."""
    _lazy_init()
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
            )
        debug_mode = _SYNC_MODES[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected 0, 1 or 2")
    _C._cuda_setSyncDebugMode(debug_mode)


def get_sync_debug_mode():
    """What calls that wait for a stream do."""
    _lazy_init()
    return _C._cuda_getSyncDebugMode()


def _sleep(cycles):
    """Keeps the current stream busy for a number of the GPU's clock cycles."""
    _lazy_init()
    _C._cuda_sleep(cycles)


def mapped(tensor, device=None):
    """A tensor of a GPU over the memory of a pinned tensor of the host: nothing is copied, and what one of them
    writes the other one reads once the stream has been waited for. PyTorch has no such function.

    Each access of a kernel goes over the bus, so that this pays for data that is read once.

    Args:
        tensor: A tensor in pinned memory, or in memory that ``cudart().cudaHostRegister`` has pinned.
        device: The GPU; the current one if it is ``None``.
    """
    _lazy_init()
    return _C._cuda_mapped(tensor, _get_device_index(device, optional=True))


def mapped_empty(*size, dtype=None, device=None):
    """A new tensor in pinned memory and the :func:`mapped` tensor of a GPU over the same memory.

    Args:
        size: The sizes, one by one or as a sequence.
        dtype: The dtype; the default one if it is ``None``.
        device: The GPU; the current one if it is ``None``.
    """
    import corten

    _lazy_init()
    host = corten.empty(*size, dtype=dtype, device="cpu", pin_memory=True)
    return host, mapped(host, device)


def _get_device(device):
    if isinstance(device, int):
        return _C.device("cuda", device)
    return _C.device(device) if isinstance(device, str) else device


def _get_generator(device):
    index = device.index
    return _generators()[current_device() if index is None else index]


def _set_rng_state_offset(offset, device="cuda"):
    """Sets how many numbers the generator of a GPU has given."""
    _lazy_call(lambda: _get_generator(_get_device(device)).set_offset(offset))


def _get_rng_state_offset(device="cuda"):
    """How many numbers the generator of a GPU has given."""
    _lazy_init()
    return _get_generator(_get_device(device)).get_offset()


def _primary_context_devices():
    return [index for index in range(device_count()) if _C._cuda_hasPrimaryContext(index)]


def _parse_visible_devices():
    """What ``CUDA_VISIBLE_DEVICES`` names, indices or identities, up to the first that is neither."""
    from corten.cuda import _visible

    return _visible.parse(os.environ.get("CUDA_VISIBLE_DEVICES"))


_made_generators = ()


def _generators():
    """The generators of all GPUs, one each."""
    global _made_generators
    if len(_made_generators) != device_count():
        _made_generators = tuple(map(_C._cuda_getDefaultGenerator, range(device_count())))
    return _made_generators


from corten.cuda import amp, nvtx, profiler, random, tunable  # noqa: E402, F401
from corten.cuda.graphs import (  # noqa: E402, F401
    CUDAGraph, export_dot, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables,
)
from corten.cuda.memory import *  # noqa: E402, F403
from corten.cuda.random import *  # noqa: E402, F403
from corten.cuda.streams import (  # noqa: E402, F401
    Event, ExternalStream, Stream, StreamContext, _set_stream_by_id, current_stream, default_stream,
    get_stream_from_external, set_stream, stream,
)


def __getattr__(name):
    if name == "default_generators":
        return _generators() if is_initialized() else ()
    if name == "_initialized":
        return is_initialized()
    if name in ("AcceleratorError", "OutOfMemoryError"):
        return getattr(_C, name)
    # Classes of tensors and storages on GPUs.
    if name.endswith(("Tensor", "Storage")):
        from corten import _legacy

        made = _legacy.cuda_class(name)
        if made is not None:
            globals()[name] = made
            return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


#: Names that are made when they are asked for.
_LAZY = ("default_generators", "AcceleratorError", "OutOfMemoryError")


def __dir__():
    kinds = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
    classes = [kind + end for kind in kinds for end in ("Storage", "Tensor")]
    return sorted({*globals(), *_LAZY, *classes, "ComplexDoubleStorage", "ComplexFloatStorage"})
