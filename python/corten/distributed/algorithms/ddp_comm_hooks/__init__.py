"""Communication hooks of :class:`corten.nn.parallel.DistributedDataParallel`."""

from __future__ import annotations

from enum import Enum
from functools import partial

try:
    from enum import member
except ImportError:  # Python 3.10 and older take functions of this kind as members as they are.
    def member(value):
        return value

from . import (
    debugging_hooks as debugging, default_hooks as default, optimizer_overlap_hooks as optimizer_overlap,
    powerSGD_hook as powerSGD, quantization_hooks as quantization,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _ddp_comm_hook_wrapper(comm_hook, model, state):
    model.register_comm_hook(state, comm_hook)


def _powerSGD_comm_hook_wrapper(
    comm_hook, model, state, matrix_approximation_rank, start_powerSGD_iter=1_000
):
    """Registers PowerSGD over the group ``state``."""
    own = powerSGD.PowerSGDState(
        process_group=state,
        matrix_approximation_rank=matrix_approximation_rank,
        start_powerSGD_iter=start_powerSGD_iter,
    )
    model.register_comm_hook(own, comm_hook)


def _plain(hook):
    return member(partial(_ddp_comm_hook_wrapper, comm_hook=hook))


def _power(hook, rank):
    return member(partial(_powerSGD_comm_hook_wrapper, comm_hook=hook, matrix_approximation_rank=rank))


class DDPCommHookType(Enum):
    """The hooks by name: ``DDPCommHookType.ALLREDUCE.value(model=model, state=group)`` registers one."""

    ALLREDUCE = _plain(default.allreduce_hook)
    FP16_COMPRESS = _plain(default.fp16_compress_hook)
    BF16_COMPRESS = _plain(default.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = _plain(quantization.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = _plain(quantization.quantization_perchannel_hook)
    POWER_SGD = _power(powerSGD.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _power(powerSGD.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _power(powerSGD.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _power(powerSGD.batched_powerSGD_hook, 2)
    NOOP = _plain(debugging.noop_hook)


def register_ddp_comm_hook(comm_hook_type, model, state=None):
    """Registers a hook by its :class:`DDPCommHookType`; ``state`` is the group, None the default one."""
    comm_hook_type.value(model=model, state=state)
