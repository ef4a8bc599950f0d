"""Seeds and states of the random number generators."""

from __future__ import annotations

import contextlib

from corten._C import (  # noqa: F401
    default_generator, get_rng_state, initial_seed, manual_seed, set_rng_state,
)
from corten import _C

__all__ = [
    "set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng",
    "thread_safe_generator",
]


def seed():
    """Seeds the default generator from the operating system and returns the seed."""
    return _C.seed()


def thread_safe_generator():
    """The generator for this thread: inside of data loader workers one of their own."""
    from corten.utils.data import get_worker_info

    worker = get_worker_info()
    return getattr(worker, "rng", None) if worker is not None else None


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
    """Random numbers drawn in the ``with`` block leave the generators as they were."""
    if not enabled:
        yield
        return
    import corten

    module = getattr(corten, corten.device(device_type).type)
    if devices is None and device_type == "cuda" and vars(_C).get("_cuda_hasContext", bool)():
        devices = range(module.device_count())
    saved = []
    for device in devices or ():
        if not hasattr(module, "get_rng_state"):
            # Raises what says that there is no such device.
            module.init()
        saved.append((device, module.get_rng_state(device)))
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)
        for device, state in saved:
            module.set_rng_state(state, device)
