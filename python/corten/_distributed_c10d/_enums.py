"""Enumerations and constants."""

from __future__ import annotations

import enum
import os
from datetime import timedelta

#: The time of calls that say nothing, and of those of NCCL.
_DEFAULT_PG_TIMEOUT = timedelta(minutes=30)
_DEFAULT_PG_NCCL_TIMEOUT = timedelta(minutes=10)
_DEFAULT_NO_TIMEOUT = timedelta(0)
_DEFAULT_FIRST_BUCKET_BYTES = 1024 * 1024
#: What options hold that leave the time to the group.
_UNSET_TIMEOUT = timedelta(milliseconds=-1)


class _Number(enum.Enum):
    """Members are numbers when somebody asks."""

    def __int__(self):
        return self.value

    __index__ = __int__

    def __repr__(self):
        return f"<{type(self).__name__}.{self.name}: {self.value}>"


class DebugLevel(_Number):
    """How much is checked and told: the variable ``TORCH_DISTRIBUTED_DEBUG``."""

    OFF = 0
    INFO = 1
    DETAIL = 2


class ErrorType(_Number):
    """What happened to a back end."""

    SUCCESS = 0
    TIMEOUT = 1
    COMM_ERROR = 2
    REMOTE_ERROR = 3


class WorkResult(_Number):
    """How a work ended."""

    SUCCESS = 0
    TIMEOUT = 1
    COMM_ERROR = 2
    UNKNOWN = 100


class OpType(_Number):
    """Which call a work is of."""

    BROADCAST = 0
    ALLREDUCE = 1
    ALLREDUCE_COALESCED = 2
    REDUCE = 3
    ALLGATHER = 4
    _ALLGATHER_BASE = 5
    ALLGATHER_COALESCED = 6
    GATHER = 7
    SCATTER = 8
    REDUCE_SCATTER = 9
    ALLTOALL_BASE = 10
    ALLTOALL = 11
    SEND = 12
    RECV = 13
    RECVANYSOURCE = 14
    BARRIER = 15
    _REDUCE_SCATTER_BASE = 16
    COALESCED = 17
    _ALLREDUCE_SPARSE = 18
    REDUCE_SCATTER_TENSOR_COALESCED = 19
    ALLGATHER_INTO_TENSOR_COALESCED = 20
    UNKNOWN = 100


class HookOpName(_Number):
    """Which call a hook of a process group sees."""

    SEND = 0
    RECV = 1
    BROADCAST = 2
    ALLREDUCE = 3
    REDUCE = 4
    ALLGATHER = 5
    REDUCE_SCATTER = 6
    ALLTOALL = 7
    BARRIER = 8
    SCATTER = 9
    GATHER = 10
    SPLIT = 11
    NEW_WINDOW = 12
    ALLREDUCE_COALESCED = 13
    ALLGATHER_BASE = 14
    ALLGATHER_COALESCED = 15
    ALLGATHER_INTO_TENSOR_COALESCED = 16
    REDUCE_SCATTER_BASE = 17
    REDUCE_SCATTER_TENSOR_COALESCED = 18
    ALLTOALL_BASE = 19
    UNKNOWN = 100


class BackendType(_Number):
    """Which back end a process group has."""

    UNDEFINED = 0
    GLOO = 1
    NCCL = 2
    UCC = 3
    MPI = 4
    XCCL = 5
    CUSTOM = 6


_debug_level = [None]


def get_debug_level():
    """The debug level of this process."""
    if _debug_level[0] is None:
        set_debug_level_from_env()
    return _debug_level[0]


def set_debug_level(level):
    """Sets the debug level of this process."""
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level expects a DebugLevel, not {type(level).__name__}")
    _debug_level[0] = level


def set_debug_level_from_env():
    """Takes the debug level from ``TORCH_DISTRIBUTED_DEBUG``."""
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper() or "OFF"
    if text not in DebugLevel.__members__:
        raise RuntimeError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be one of OFF, INFO, or DETAIL, not {text!r}."
        )
    _debug_level[0] = DebugLevel[text]
