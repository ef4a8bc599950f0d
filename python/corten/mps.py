"""Apple GPUs. This build drives none."""

from __future__ import annotations

__all__ = [
    "Event", "compile_shader", "current_allocated_memory", "device_count", "driver_allocated_memory",
    "empty_cache", "get_rng_state", "is_available", "manual_seed", "recommended_max_memory", "seed",
    "set_per_process_memory_fraction", "set_rng_state", "synchronize",
]


def is_available():
    """Whether such a GPU can be used."""
    return False


def device_count():
    """How many can be used."""
    return 0


def manual_seed(seed):
    """Seeds the GPU's generator, if there is one."""


def _refuses(name, inner, doc):
    def function(*args, **kwargs):
        raise RuntimeError(f"Cannot execute {inner}() without MPS backend.")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


synchronize = _refuses("synchronize", "deviceSynchronize", "Waits for the GPU.")
empty_cache = _refuses("empty_cache", "emptyCache", "Gives unused memory back.")
seed = _refuses("seed", "getDefaultGenerator", "Seeds the generator from the system.")
get_rng_state = _refuses("get_rng_state", "getDefaultGenerator", "The state of the generator.")
set_rng_state = _refuses("set_rng_state", "getDefaultGenerator", "Sets the generator's state.")
current_allocated_memory = _refuses(
    "current_allocated_memory", "getCurrentAllocatedMemory", "Bytes that tensors use."
)
driver_allocated_memory = _refuses(
    "driver_allocated_memory", "getDriverAllocatedMemory", "Bytes that the driver gave."
)
recommended_max_memory = _refuses(
    "recommended_max_memory", "getRecommendedMaxMemory", "The bytes that should not be exceeded."
)
set_per_process_memory_fraction = _refuses(
    "set_per_process_memory_fraction", "setMemoryFraction", "Limits the memory of this process."
)
compile_shader = _refuses("compile_shader", "compileShader", "Compiles a Metal shader.")


class Event:
    """A mark in the work of the GPU."""

    def __init__(self, enable_timing=False):
        raise RuntimeError("Cannot execute acquireEvent() without MPS backend.")
