"""Groups of processes and their collectives."""

from __future__ import annotations

import typing

from corten._C import _DistBackendError as DistBackendError
from corten._C import _DistError as DistError
from corten._C import _DistNetworkError as DistNetworkError
from corten._C import _DistStoreError as DistStoreError
from corten._C import _distributed_c10d as _native
from corten._C._distributed_c10d import *  # noqa: F403
from corten._C._distributed_c10d import (  # noqa: F401
    AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions, BarrierOptions, BroadcastOptions, DebugLevel,
    GatherOptions, PrefixStore, ProcessGroup, ReduceOp, ReduceOptions, ReduceScatterOptions, ScatterOptions,
    Store, Work, _register_process_group, _unregister_process_group, get_debug_level,
)
from corten.distributed._c10d import (
    backends as _backends, checks as _checks, coalescing as _coalescing, collectives as _collectives,
    groups as _groups, messages as _messages, objects as _objects, subgroups as _subgroups, world as _world_module,
)
from corten.distributed._c10d.world import _world
from corten.distributed.c10d_logger import _exception_logger, _time_logger  # noqa: F401
from corten.distributed.constants import default_pg_nccl_timeout, default_pg_timeout  # noqa: F401
from corten.distributed.rendezvous import register_rendezvous_handler, rendezvous  # noqa: F401

__all__ = [
    "Backend", "BackendConfig", "GroupMember", "P2POp", "all_gather", "all_gather_coalesced",
    "all_gather_object", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "send_object_list", "recv_object_list", "broadcast_object_list",
    "destroy_process_group", "gather", "gather_single", "gather_into_tensor", "gather_object",
    "get_backend_config", "get_backend", "get_backend_impl", "get_default_backend_for_device", "get_rank",
    "get_world_size", "get_pg_count", "group", "init_process_group", "irecv", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_backend_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier",
    "new_group", "new_subgroups", "new_subgroups_by_enumeration", "recv", "reduce", "reduce_scatter", "scatter",
    "scatter_object_list", "send", "supports_complex", "AllreduceCoalescedOptions", "AllreduceOptions",
    "AllToAllOptions", "BarrierOptions", "BroadcastOptions", "GatherOptions", "GroupName", "PrefixStore",
    "ProcessGroup", "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "Store",
    "DebugLevel", "get_debug_level", "Work", "default_pg_timeout", "get_group_rank", "get_global_rank",
    "get_process_group_ranks", "reduce_op", "all_gather_single", "all_gather_into_tensor",
    "reduce_scatter_single", "reduce_scatter_tensor", "get_node_local_rank", "set_timeout", "split_group",
    "shrink_group", "record_comm",
]

GroupName = typing.NewType("GroupName", str)
logger = _groups.logger


def _gather_names():
    """Gives this module what its parts define, and what they define this module as its home."""
    for part in (
        _world_module, _backends, _checks, _coalescing, _groups, _collectives, _messages, _objects, _subgroups,
    ):
        for name, value in vars(part).items():
            if getattr(value, "__module__", None) == part.__name__:
                value.__module__ = __name__
                globals()[name] = value


_gather_names()
STORE_BASED_BARRIER_PREFIX = _groups.STORE_BASED_BARRIER_PREFIX
SHRINK_DEFAULT, SHRINK_ABORT = _subgroups.SHRINK_DEFAULT, _subgroups.SHRINK_ABORT
_pickler, _unpickler = _objects._pickler, _objects._unpickler

# The tables of the process, under the names that programs know.
_pg_map = _world._process.pg_map
_pg_names = _world._process.pg_names
_pg_group_ranks = _world._process.pg_group_ranks
_pg_backend_config = _world._process.pg_backend_config
_tags_to_pg = _world._process.tags_to_pg
_pg_to_tag = _world._process.pg_to_tag

_DEPRECATED = "`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead"


class _reduce_op:  # noqa: N801
    """The old name of :class:`ReduceOp`, whose members it has."""

    def __getattr__(self, name):
        import warnings

        members = ReduceOp.RedOpType.__members__
        if name != "__members__" and name not in members:
            raise AttributeError(f"reduce_op has no attribute {name!r}")
        warnings.warn(_DEPRECATED, FutureWarning, stacklevel=2)
        return members if name == "__members__" else members[name]


reduce_op = _reduce_op()


def __getattr__(name):
    if name == "_backend":
        return _world.state.backend
    if name == "_default_pg_init_method":
        return _world.state.init_method
    if name == "_group_count":
        return _world.group_count
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
