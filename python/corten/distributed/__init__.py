"""Processes that compute together. This build has no way for them to talk: it says so when asked,
and refuses what would need one."""

from __future__ import annotations

import enum
import os

__all__ = [
    "ProcessGroup", "ReduceOp", "destroy_process_group", "get_rank", "group", "get_world_size", "init_process_group", "is_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched",
]


class ReduceOp(enum.Enum):
    """How tensors of several processes are combined."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class ProcessGroup:
    """Processes that were joined. There are none."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError("processes cannot be joined: this build has no backend for it")


class group:  # noqa: N801
    """The group of all processes: none, for they were not joined."""

    WORLD = None


def is_available():
    """Whether processes can be joined."""
    return False


def is_initialized():
    """Whether processes were joined."""
    return False


def is_nccl_available():
    """Whether NCCL can be used."""
    return False


def is_gloo_available():
    """Whether Gloo can be used."""
    return False


def is_mpi_available():
    """Whether MPI can be used."""
    return False


def is_torchelastic_launched():
    """Whether torchelastic started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def init_process_group(backend=None, *args, **kwargs):
    """Refused: there is no backend."""
    raise RuntimeError("processes cannot be joined: this build has no backend for it")


def _needs_group(name, doc):
    def function(*args, **kwargs):
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


get_rank = _needs_group("get_rank", "The number of this process.")
get_world_size = _needs_group("get_world_size", "How many processes there are.")
get_backend = _needs_group("get_backend", "The name of the backend.")
barrier = _needs_group("barrier", "Waits for all processes.")
all_reduce = _needs_group("all_reduce", "Combines a tensor of all processes.")
all_gather = _needs_group("all_gather", "Collects a tensor of all processes.")
broadcast = _needs_group("broadcast", "Sends a tensor to all processes.")
reduce = _needs_group("reduce", "Combines a tensor of all processes in one.")


def destroy_process_group(group=None):
    """Parts the processes that were joined.

    Raises:
        AssertionError: None were.
    """
    raise AssertionError("Invalid process group specified")
