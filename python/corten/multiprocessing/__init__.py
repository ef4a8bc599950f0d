"""Processes that share tensors: the standard library's module, whose queues and pipes hand over
the memory of tensors instead of copies of it."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from corten.multiprocessing.reductions import (
    _share_storage as _share_storage, get_all_sharing_strategies, get_sharing_strategy, init_reductions,
    set_sharing_strategy,
)
from corten.multiprocessing.spawn import (  # noqa: F401
    ProcessContext, ProcessExitedException, ProcessRaisedException,
    SpawnContext, spawn, start_processes,
)

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]
__all__ += multiprocessing.__all__

init_reductions()
