"""The generators of GPUs: the state of one is a seed and how many numbers were drawn."""

from __future__ import annotations

from corten import _C
from corten.cuda._lazy import _is_compiled, _lazy_init

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]


def _generator(device):
    from corten import cuda

    return cuda._get_generator(cuda._get_device(device))


def _has_gpus():
    return _is_compiled() and not _C._cuda_isInBadFork() and _C._cuda_getDeviceCount() > 0


def get_rng_state(device="cuda"):
    """The state of a GPU's generator: 16 bytes on the host."""
    _lazy_init()
    return _generator(device).get_state()


def get_rng_state_all():
    """The states of all GPUs' generators."""
    from corten import cuda

    return [get_rng_state(index) for index in range(cuda.device_count())]


def set_rng_state(new_state, device="cuda"):
    """Sets the state of a GPU's generator; without GPUs nothing happens."""
    if _has_gpus():
        from corten import cuda

        device = cuda._get_device(device)
        index = _C._cuda_getDevice() if device.index is None else device.index
        _C._cuda_getDefaultGenerator(index).set_state(new_state)


def set_rng_state_all(new_states):
    """Sets the states of all GPUs' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed):
    """Seeds the current GPU's generator; without GPUs nothing happens."""
    if _has_gpus():
        _C._cuda_getDefaultGenerator(_C._cuda_getDevice()).manual_seed(int(seed))


def manual_seed_all(seed):
    """Seeds all GPUs' generators; without GPUs nothing happens."""
    if _is_compiled():
        _C._cuda_manualSeedAll(int(seed))


def seed():
    """Seeds the current GPU's generator from the operating system; without GPUs nothing happens."""
    if _has_gpus():
        _C._cuda_getDefaultGenerator(_C._cuda_getDevice()).seed()


def seed_all():
    """Seeds all GPUs' generators alike from the operating system; without GPUs nothing happens."""
    if _has_gpus():
        _C._cuda_manualSeedAll(_C._cuda_getDefaultGenerator(0).seed())


def initial_seed():
    """The seed of the current GPU's generator."""
    _lazy_init()
    return _C._cuda_getDefaultGenerator(_C._cuda_getDevice()).initial_seed()
