"""Which places of a sequence go to which process."""

from __future__ import annotations

from abc import ABC, abstractmethod

import corten

__all__: list = []


class _LoadBalancer(ABC):
    """Gives the order in which a sequence is cut into as many pieces as there are processes."""

    @abstractmethod
    def _generate_indices(self, restore=False):
        """The order of places, ``[1, length]`` or ``[length]`` of whole numbers, or, with ``restore``, its inverse."""


class _HeadTailLoadBalancer(_LoadBalancer):
    """Cuts a sequence into twice as many chunks as there are processes; each gets one from the beginning and one as
    far from the end, so that causal attention costs all the same.

    Raises:
        ValueError: The length is not a multiple of twice the number of processes.
    """

    def __init__(self, seq_length, world_size, device="cpu"):
        if seq_length % (2 * world_size):
            raise ValueError(
                f"context_parallel: the length {seq_length} of the sequence must be a multiple of twice the number of "
                f"processes, {2 * world_size}"
            )
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore=False):
        chunks = corten.arange(self.seq_length, device=self.device).chunk(2 * self.world_size)
        order = corten.cat([
            part for i in range(self.world_size) for part in (chunks[i], chunks[2 * self.world_size - 1 - i])
        ])
        return (order.argsort() if restore else order).unsqueeze(0)
