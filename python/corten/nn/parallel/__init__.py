"""Modules on several devices or in several processes. There is one device: :class:`DataParallel` is
the module itself, and :class:`DistributedDataParallel` needs processes that are joined together."""

from __future__ import annotations

from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
