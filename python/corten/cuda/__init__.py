"""NVIDIA GPUs. This build drives none: it says so when asked, and refuses what would need one."""

from __future__ import annotations

from corten import _C

default_generators = ()
has_half = True
has_magma = False

def is_available():
    """Whether a GPU can be used."""
    return False


def device_count():
    """How many GPUs can be used."""
    return 0


def is_initialized():
    """Whether the driver has been started."""
    return False


def is_bf16_supported(including_emulation=True):
    """Whether the current GPU computes in bfloat16."""
    return False


def get_arch_list():
    """The architectures that kernels were compiled for."""
    return []


def init():
    """Starts the driver."""
    raise _C._DeviceError("Torch not compiled with CUDA enabled")


def _needs_gpu(name, doc):
    def function(*args, **kwargs):
        init()

    function.__name__ = name
    function.__doc__ = doc
    return function


current_device = _needs_gpu("current_device", "The index of the current GPU.")
get_device_capability = _needs_gpu("get_device_capability", "Major and minor number of a GPU.")
get_device_name = _needs_gpu("get_device_name", "The name of a GPU.")
get_device_properties = _needs_gpu("get_device_properties", "What is known about a GPU.")
get_rng_state = _needs_gpu("get_rng_state", "The state of a GPU's generator.")
set_device = _needs_gpu("set_device", "Makes a GPU the current one.")
set_rng_state = _needs_gpu("set_rng_state", "Sets the state of a GPU's generator.")
synchronize = _needs_gpu("synchronize", "Waits for everything a GPU was asked to do.")


def get_rng_state_all():
    """The states of all GPUs' generators."""
    return []


def set_rng_state_all(new_states):
    """Sets the states of all GPUs' generators."""


def manual_seed(seed):
    """Seeds the current GPU's generator, if there is one."""


def manual_seed_all(seed):
    """Seeds all GPUs' generators."""


def seed():
    """Seeds the current GPU's generator from the operating system."""


def seed_all():
    """Seeds all GPUs' generators from the operating system."""


class device:
    """Makes a GPU the current one for a ``with`` block; -1 and ``None`` change nothing."""

    def __init__(self, device):
        if device is None or isinstance(device, int):
            self.idx = -1 if device is None else device
            return
        found = _C.device(device)
        if found.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {found}")
        self.idx = 0 if found.index is None else found.index

    def __enter__(self):
        if self.idx >= 0:
            init()

    def __exit__(self, kind, value, traceback):
        return False


class device_of(device):
    """Makes the GPU of a tensor the current one; other tensors change nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class CudaError(RuntimeError):
    """An error that the driver reported."""

    def __init__(self, code):
        super().__init__(f"CUDA error ({code})")


class DeferredCudaCallError(Exception):
    """An error of something that was put off until the driver's start."""


class cudaStatus:
    """What the driver's functions return."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def check_error(res):
    """Raises unless the driver succeeded."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def is_tf32_supported():
    """Whether the current GPU computes products in TF32."""
    return False


def get_gencode_flags():
    """The architectures as the compiler's options."""
    return ""


initial_seed = _needs_gpu("initial_seed", "The seed of a GPU's generator.")
can_device_access_peer = _needs_gpu("can_device_access_peer", "Whether GPUs reach each other.")
cudart = _needs_gpu("cudart", "The runtime library.")
current_blas_handle = _needs_gpu("current_blas_handle", "The handle of cuBLAS.")
current_solver_handle = _needs_gpu("current_solver_handle", "The handle of cuSOLVER.")
ipc_collect = _needs_gpu("ipc_collect", "Frees memory that other processes gave back.")
get_sync_debug_mode = _needs_gpu("get_sync_debug_mode", "What synchronising calls do.")
set_sync_debug_mode = _needs_gpu("set_sync_debug_mode", "Sets what synchronising calls do.")


def _no_measures(*args, **kwargs):
    raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.")


clock_rate = device_memory_used = memory_usage = power_draw = _no_measures
temperature = utilization = _no_measures

from corten.cuda import amp, nvtx, random, tunable  # noqa: E402, F401
from corten.cuda.graphs import (  # noqa: E402, F401
    CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables,
)
from corten.cuda.memory import *  # noqa: E402, F403
from corten.cuda.streams import (  # noqa: E402, F401
    Event, ExternalStream, Stream, StreamContext, current_stream, default_stream,
    get_stream_from_external, set_stream, stream,
)


def __getattr__(name):
    # Classes of tensors and storages on GPUs: they exist, and say what is missing when called.
    if name.endswith(("Tensor", "Storage")):
        from corten import _legacy

        if name in _legacy.__all__:
            return _legacy_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _legacy_class(name):
    def new(cls, *args, **kwargs):
        init()

    made = type(name, (), {"__new__": new, "__module__": "torch.cuda", "__doc__": "On a GPU."})
    globals()[name] = made
    return made
