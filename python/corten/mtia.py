"""Accelerators of the kind MTIA. This build drives none: it says so when asked, and refuses what would need
one."""

from __future__ import annotations

from corten import _C

default_generators = ()


class DeferredMtiaCallError(Exception):
    """A call that waited for the driver failed."""


def is_available():
    """Whether such a device can be used."""
    return False


def device_count():
    """How many can be used."""
    return 0


def is_initialized():
    """Whether the driver has been started."""
    return False


def is_bf16_supported(including_emulation=True):
    """Whether the current device computes in bfloat16."""
    return False


def is_current_stream_capturing():
    """Whether work is being recorded."""
    return False


def init():
    """Starts the driver."""
    raise _C._DeviceError("Torch not compiled with MTIA enabled")


def manual_seed(seed):
    """Seeds the current device's generator, if there is one."""


def manual_seed_all(seed):
    """Seeds all devices' generators."""


def seed():
    """Seeds the current device's generator from the operating system."""


def seed_all():
    """Seeds all devices' generators from the operating system."""


def get_rng_state_all():
    """The states of all devices' generators."""
    return []


def set_rng_state_all(new_states):
    """Sets the states of all devices' generators."""


def memory_allocated(device=None):
    """Bytes that tensors on a device use."""
    return 0


def max_memory_allocated(device=None):
    """The most bytes that tensors on a device have used."""
    return 0


def memory_stats(device=None):
    """What is known about the memory of a device."""
    return {}


def reset_peak_memory_stats(device=None):
    """Forgets the most bytes in use."""


def _refuses(name, inner, doc):
    def function(*args, **kwargs):
        raise RuntimeError(f"Cannot execute {inner}() without MTIA backend.")

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = doc
    return function


_REFUSED = {
    "current_device": ("getCurrentDevice", "The index of the current device."),
    "current_stream": ("getCurrentDevice", "The queue of work that is current."),
    "default_stream": ("getCurrentDevice", "The queue of work at the beginning."),
    "empty_cache": ("emptyCache", "Gives unused memory back."),
    "get_device_capability": ("getCurrentDevice", "What a device can do."),
    "get_device_properties": ("getCurrentDevice", "What is known about a device."),
    "get_rng_state": ("getDefaultGenerator", "The state of a device's generator."),
    "initial_seed": ("getDefaultGenerator", "The seed of a device's generator."),
    "set_device": ("setCurrentDevice", "Makes a device the current one."),
    "set_rng_state": ("getDefaultGenerator", "Sets the state of a device's generator."),
    "set_stream": ("setCurrentStream", "Makes a queue of work the current one."),
    "snapshot": ("memorySnapshot", "The blocks of memory that were taken."),
    "stream": ("getCurrentDevice", "Makes a queue of work the current one for a block."),
    "synchronize": ("getCurrentDevice", "Waits for everything a device was asked to do."),
}
globals().update((name, _refuses(name, *words)) for name, words in _REFUSED.items())
__all__ = [
    "DeferredMtiaCallError", "default_generators", "device_count", "get_rng_state_all", "init",
    "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "memory_allocated", "memory_stats",
    "reset_peak_memory_stats", "seed", "seed_all", "set_rng_state_all", *_REFUSED,
]
