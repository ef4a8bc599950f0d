"""Gradient scaling where every process has a part of the gradients."""

from __future__ import annotations

import corten
import corten.distributed as dist
from corten.amp import GradScaler
from corten.distributed.checkpoint._tensors import is_dtensor

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A :class:`GradScaler` that skips a step in every process if a gradient of one is not finite.

    Args:
        process_group: The processes; by default all.
    """

    def __init__(
        self, device="cuda", init_scale=2.0**16, backoff_factor=0.5, growth_factor=2.0,
        growth_interval=2000, enabled=True, process_group=None,
    ):
        super().__init__(
            device, init_scale=init_scale, backoff_factor=backoff_factor, growth_factor=growth_factor,
            growth_interval=growth_interval, enabled=enabled,
        )
        self.process_group = process_group

    def unscale_(self, optimizer):
        """Divides the gradients by the scale; what is not finite anywhere counts everywhere."""
        super().unscale_(optimizer)
        if not self._enabled:
            return
        found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        with corten.no_grad():
            for device, value in found.items():
                # Of sharded gradients it is that of this process's parts.
                found[device] = value = value._local_tensor if is_dtensor(value) else value
                dist.all_reduce(value, op=dist.ReduceOp.MAX, group=self.process_group)
