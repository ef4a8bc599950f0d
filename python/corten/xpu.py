"""Intel GPUs. This build drives none: it says so when asked, and refuses what would need one."""

from __future__ import annotations

import collections
import contextlib

from corten import _C

default_generators = ()


def is_available():
    """Whether such a GPU can be used."""
    return False


def device_count():
    """How many can be used."""
    return 0


def is_initialized():
    """Whether the driver has been started."""
    return False


def is_bf16_supported(including_emulation=True):
    """Whether the current GPU computes in bfloat16."""
    return False


def is_tf32_supported():
    """Whether the current GPU computes in TF32."""
    return False


def init():
    """Starts the driver."""
    raise _C._DeviceError("Torch not compiled with XPU enabled")


def get_arch_list():
    """The architectures that kernels were compiled for."""
    return []


def get_gencode_flags():
    """The flags that kernels were compiled with."""
    return ""


def manual_seed(seed):
    """Seeds the current GPU's generator, if there is one."""


def manual_seed_all(seed):
    """Seeds all GPUs' generators."""


def seed():
    """Seeds the current GPU's generator from the operating system."""


def seed_all():
    """Seeds all GPUs' generators from the operating system."""


def get_rng_state_all():
    """The states of all GPUs' generators."""
    return []


def set_rng_state_all(new_states):
    """Sets the states of all GPUs' generators."""


def empty_cache():
    """Gives unused memory back to the driver."""


def memory_allocated(device=None):
    """Bytes that tensors on a GPU use."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device=None):
    """What is known about the memory of a GPU."""
    return collections.OrderedDict()


def memory_stats_as_nested_dict(device=None):
    """What is known about the memory of a GPU."""
    return {}


def memory_snapshot(mempool_id=None):
    """The blocks of memory that were taken."""
    return []


class device:
    """Makes a GPU the current one for a ``with`` block; -1 and ``None`` change nothing."""

    def __init__(self, device):
        self.idx = -1 if device is None else device
        if not isinstance(self.idx, int):
            found = _C.device(device)
            if found.type != "xpu":
                raise ValueError(f"Expected a xpu device, but got: {found}")
            self.idx = 0 if found.index is None else found.index

    def __enter__(self):
        if self.idx >= 0:
            init()

    def __exit__(self, kind, value, traceback):
        return False


class device_of(device):
    """Makes the GPU of a tensor the current one; other tensors change nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_xpu else -1)


def stream(stream):
    """Makes a queue of work the current one for a ``with`` block; ``None`` changes nothing."""
    if stream is not None:
        init()
    return contextlib.nullcontext()


def _needs_gpu(name, doc):
    def function(*args, **kwargs):
        init()

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = doc
    return function


_REFUSED = {
    "can_device_access_peer": "Whether a GPU reads the memory of another one.",
    "current_device": "The index of the current GPU.",
    "current_stream": "The queue of work that is current.",
    "get_device_capability": "What a GPU can do.",
    "get_device_name": "The name of a GPU.",
    "get_device_properties": "What is known about a GPU.",
    "get_per_process_memory_fraction": "How much of a GPU's memory this process takes.",
    "get_rng_state": "The state of a GPU's generator.",
    "get_stream_from_external": "The queue of work of another library.",
    "graph_pool_handle": "A place for the memory of recorded work.",
    "initial_seed": "The seed of a GPU's generator.",
    "is_current_stream_capturing": "Whether work is being recorded.",
    "mem_get_info": "Free and all bytes of a GPU.",
    "reset_accumulated_memory_stats": "Forgets what was counted.",
    "reset_peak_memory_stats": "Forgets the most bytes in use.",
    "set_device": "Makes a GPU the current one.",
    "set_per_process_memory_fraction": "Limits the memory that this process takes.",
    "set_rng_state": "Sets the state of a GPU's generator.",
    "set_stream": "Makes a queue of work the current one.",
    "synchronize": "Waits for everything a GPU was asked to do.",
}
globals().update((name, _needs_gpu(name, doc)) for name, doc in _REFUSED.items())
__all__ = [
    "default_generators", "device", "device_count", "device_of", "empty_cache", "get_arch_list",
    "get_gencode_flags", "get_rng_state_all", "init", "is_available", "is_bf16_supported",
    "is_initialized", "is_tf32_supported", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict", "seed", "seed_all",
    "set_rng_state_all", "stream", *_REFUSED,
]
