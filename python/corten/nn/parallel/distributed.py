"""Modules in several processes."""

from __future__ import annotations

from corten.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Keeps the copies of a module in several processes equal.

    Raises:
        ValueError: The processes were not joined by ``init_process_group``.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, **options):
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
