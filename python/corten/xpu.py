"""Intel GPUs. This build drives none."""

from __future__ import annotations

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "get_device_properties",
    "init", "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "memory_allocated", "set_device", "synchronize",
]


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


def init():
    """Starts the driver."""
    raise _C._DeviceError("Torch not compiled with XPU enabled")


def manual_seed(seed):
    """Seeds the current GPU's generator, if there is one."""


def manual_seed_all(seed):
    """Seeds all GPUs' generators."""


def empty_cache():
    """Gives unused memory back to the driver."""


def memory_allocated(device=None):
    """Bytes that tensors on a GPU use."""
    return 0


def max_memory_allocated(device=None):
    """The most bytes that tensors on a GPU have used."""
    return 0


def _needs_gpu(name, doc):
    def function(*args, **kwargs):
        init()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


current_device = _needs_gpu("current_device", "The index of the current GPU.")
get_device_name = _needs_gpu("get_device_name", "The name of a GPU.")
get_device_properties = _needs_gpu("get_device_properties", "What is known about a GPU.")
set_device = _needs_gpu("set_device", "Makes a GPU the current one.")
synchronize = _needs_gpu("synchronize", "Waits for everything a GPU was asked to do.")
