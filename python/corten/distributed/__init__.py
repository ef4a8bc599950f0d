"""Processes that compute together: groups, collectives, and how programs of several processes start."""

from __future__ import annotations

import datetime
import importlib
import logging
import sys

from corten._C import (
    _DistBackendError as DistBackendError, _DistError as DistError, _DistNetworkError as DistNetworkError,
    _DistQueueEmptyError as QueueEmptyError, _DistStoreError as DistStoreError,
)
from corten._C._distributed_c10d import (  # noqa: F401
    Backend as _Backend, DebugLevel, FileStore, HashStore, PrefixStore, ProcessGroup, Store, TCPStore,
    Work as _Work, get_debug_level, set_debug_level, set_debug_level_from_env,
)
from corten.distributed import distributed_c10d
from corten.distributed.distributed_c10d import *  # noqa: F403
from corten.distributed.distributed_c10d import (  # noqa: F401
    __all__ as _names, _all_gather_base, _coalescing_manager, _CoalescingManager, _get_process_group_name,
    _rank_not_in_group, _reduce_scatter_base, _time_estimator, barrier, default_pg_timeout, get_rank, set_timeout,
)
from corten.distributed.rendezvous import (  # noqa: F401
    _create_store_from_options, register_rendezvous_handler, rendezvous,
)

log = logging.getLogger(__name__)

__all__ = [
    *_names, "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "HashStore",
    "QueueEmptyError", "TCPStore", "breakpoint", "distributed_c10d", "is_available", "rendezvous",
    "register_rendezvous_handler", "set_debug_level", "set_debug_level_from_env",
]

#: Names of the extension module that distributed data parallelism uses, and of modules.
_OF_NATIVE = (
    "_DEFAULT_FIRST_BUCKET_BYTES", "_broadcast_coalesced", "_compute_bucket_assignment_by_size",
    "_make_nccl_premul_sum", "_register_builtin_comm_hook", "_register_comm_hook", "_test_python_store",
    "_verify_params_across_processes", "BuiltinCommHookType", "GradBucket", "Logger", "Reducer",
)
_OF_DEVICE_MESH = ("DeviceMesh", "init_device_mesh")
_MODULES = frozenset([
    "_composable", "_functional_collectives", "_shard", "_tensor", "algorithms", "autograd", "c10d_logger",
    "checkpoint", "constants", "device_mesh", "elastic", "fsdp", "launch", "launcher", "logging_handlers", "nn",
    "optim", "pipelining", "remote_device", "rpc", "run", "tensor", "utils",
])


def is_available():
    """Whether processes can be joined: always."""
    return True


_breakpoint_cache = {}


def breakpoint(rank=0, skip=0, timeout_s=3600):
    """Stops one rank in the debugger; the others wait for it.

    Args:
        rank: Which one.
        skip: How many calls from this place pass first.
        timeout_s: How long collectives may take from now on, in seconds.
    """
    import pdb
    import traceback

    if skip > 0:
        place = hash(traceback.format_stack(limit=2)[0])
        passed = _breakpoint_cache.get(place, 0) + 1
        _breakpoint_cache[place] = passed
        if passed <= skip:
            log.warning("Skip the breakpoint, counter=%d", passed)
            return
    if timeout_s is not None:
        for group in list(distributed_c10d._world.pg_map):
            set_timeout(datetime.timedelta(seconds=timeout_s), group)

    class _Pdb(pdb.Pdb):
        def interaction(self, *args, **kwargs):
            with open("/dev/stdin") as terminal:
                kept, sys.stdin = sys.stdin, terminal
                try:
                    super().interaction(*args, **kwargs)
                finally:
                    sys.stdin = kept

    if get_rank() == rank:
        debugger = _Pdb()
        debugger.message(f"\nType 'up' to get to the frame that called dist.breakpoint(rank={rank})\n")
        debugger.set_trace()
    barrier()


def __getattr__(name):
    if name in _OF_NATIVE:
        value = getattr(distributed_c10d._native, name)
    elif name in _OF_DEVICE_MESH:
        value = getattr(importlib.import_module("corten.distributed.device_mesh"), name)
    elif name in _MODULES:
        return importlib.import_module(f"corten.distributed.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


set_debug_level_from_env()
