"""NVIDIA GPUs. This build drives none: it says so when asked, and refuses what would need one."""

from __future__ import annotations

from corten import _C

__all__ = [
    "current_device", "current_stream", "device", "device_count", "empty_cache", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state",
    "get_rng_state_all", "init", "is_available", "is_bf16_supported", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "memory_allocated",
    "memory_reserved", "memory_summary", "reset_peak_memory_stats", "seed", "seed_all",
    "set_device", "set_rng_state", "set_rng_state_all", "synchronize",
]

default_generators = ()
has_half = True


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
    raise AssertionError("Torch not compiled with CUDA enabled")


def _needs_gpu(name, doc):
    def function(*args, **kwargs):
        init()

    function.__name__ = name
    function.__doc__ = doc
    return function


current_device = _needs_gpu("current_device", "The index of the current GPU.")
current_stream = _needs_gpu("current_stream", "The stream that operators run on.")
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


def empty_cache():
    """Gives unused memory back to the driver."""


def memory_allocated(device=None):
    """Bytes that tensors on a GPU use."""
    return 0


def max_memory_allocated(device=None):
    """The most bytes that tensors on a GPU have used."""
    return 0


def memory_reserved(device=None):
    """Bytes that the allocator holds."""
    return 0


def memory_summary(device=None, abbreviated=False):
    """A table of the memory in use."""
    return ""


def reset_peak_memory_stats(device=None):
    """Forgets the most bytes that were used."""


class device:
    """Makes a GPU the current one for a ``with`` block."""

    def __init__(self, device):
        self.device = device

    def __enter__(self):
        if self.device is not None and _C.device(self.device).type == "cuda":
            init()

    def __exit__(self, kind, value, traceback):
        return False
