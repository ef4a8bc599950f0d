"""Modules on several devices or in several processes. :class:`DataParallel` splits a batch over the GPUs of one
process, and is the module itself without any; :class:`DistributedDataParallel` needs processes that are joined
together."""

from __future__ import annotations

from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]
