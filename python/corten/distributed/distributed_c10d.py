"""Groups of processes and their collectives. No group can be made, so that whatever needs one says that
there is none."""

from __future__ import annotations

import datetime
import enum
import os

from corten._absent import AbsentError

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "ReduceOp", "destroy_process_group", "group",
    "init_process_group", "is_backend_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available",
    "is_xccl_available",
]

_NO_BACKEND = "processes cannot be joined: this build has no backend for it"
default_pg_timeout = datetime.timedelta(seconds=1800)
default_pg_nccl_timeout = datetime.timedelta(seconds=600)


class RedOpType(enum.Enum):
    """The kinds of :class:`ReduceOp`."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class _ReduceOps(type):
    """The class of :class:`ReduceOp`, whose values are those of its kinds."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, RedOpType)

    def __call__(cls, kind):
        return RedOpType(kind)

    def __iter__(cls):
        return iter(RedOpType)


class ReduceOp(metaclass=_ReduceOps):
    """How tensors of several processes are combined."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX = list(RedOpType)[:5]
    BAND, BOR, BXOR, PREMUL_SUM = list(RedOpType)[5:]


class Backend(str):
    """The name of a way to talk, in lower case."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None):
        """Refused: groups of processes are not made here."""
        raise AbsentError(f"{name}: {_NO_BACKEND}")


class ProcessGroup:
    """Processes that were joined. There are none."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError(_NO_BACKEND)


class group:  # noqa: N801
    """The group of all processes: none, for they were not joined."""

    WORLD = None


class GroupMember(group):
    """As :class:`group`, with what stands for a group that this process is not in."""

    NON_GROUP_MEMBER = -100


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


def is_ucc_available():
    """Whether UCC can be used."""
    return False


def is_xccl_available():
    """Whether XCCL can be used."""
    return False


def is_backend_available(backend):
    """Whether a way to talk can be used."""
    return False


def is_torchelastic_launched():
    """Whether torchelastic started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank=None):
    """The number of this process on its machine, as whoever started it says.

    Raises:
        RuntimeError: Nobody did, and there is no ``fallback_rank``.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
        "want the code to run locally instead."
    )


def init_process_group(backend=None, *args, **kwargs):
    """Refused: there is no backend."""
    raise RuntimeError(_NO_BACKEND)


def destroy_process_group(group=None):
    """Parts the processes that were joined.

    Raises:
        AssertionError: None were.
    """
    raise AssertionError("Invalid process group specified")


def _needs_group(name, doc):
    def function(*args, **kwargs):
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = doc
    return function


_COLLECTIVES = {
    "_all_gather_base": "Collects a tensor of all processes in one tensor.",
    "_get_default_group": "The group of all processes.",
    "_reduce_scatter_base": "Combines a tensor of all processes and gives each a part.",
    "all_gather": "Collects a tensor of all processes.",
    "all_gather_coalesced": "Collects lists of tensors of all processes.",
    "all_gather_into_tensor": "Collects a tensor of all processes in one tensor.",
    "all_gather_object": "Collects an object of all processes.",
    "all_gather_single": "Collects a tensor of all processes in one tensor.",
    "all_reduce": "Combines a tensor of all processes.",
    "all_reduce_coalesced": "Combines lists of tensors of all processes.",
    "all_to_all": "Gives each process one of a list of tensors.",
    "all_to_all_single": "Gives each process a part of a tensor.",
    "barrier": "Waits for all processes.",
    "batch_isend_irecv": "Starts several messages.",
    "broadcast": "Sends a tensor to all processes.",
    "broadcast_object_list": "Sends objects to all processes.",
    "gather": "Collects a tensor of all processes in one.",
    "gather_into_tensor": "Collects a tensor of all processes in a tensor of one.",
    "gather_object": "Collects an object of all processes in one.",
    "gather_single": "Collects a tensor of all processes in a tensor of one.",
    "get_backend": "The name of the backend.",
    "get_backend_config": "The configuration of the backend.",
    "get_global_rank": "The number of a process of a group among all.",
    "get_group_rank": "The number of a process in a group.",
    "get_pg_count": "How many groups there are.",
    "get_process_group_ranks": "The numbers of the processes of a group.",
    "get_rank": "The number of this process.",
    "get_world_size": "How many processes there are.",
    "irecv": "Starts to receive a tensor.",
    "isend": "Starts to send a tensor.",
    "monitored_barrier": "Waits for all processes, and says which one is late.",
    "new_group": "Joins some of the processes.",
    "new_subgroups": "Joins processes in groups of one size.",
    "new_subgroups_by_enumeration": "Joins processes in groups.",
    "recv": "Receives a tensor.",
    "recv_object_list": "Receives objects.",
    "reduce": "Combines a tensor of all processes in one.",
    "reduce_scatter": "Combines lists of tensors and gives each process one.",
    "reduce_scatter_single": "Combines a tensor of all processes and gives each a part.",
    "reduce_scatter_tensor": "Combines a tensor of all processes and gives each a part.",
    "scatter": "Gives each process one of the tensors of one.",
    "scatter_object_list": "Gives each process one of the objects of one.",
    "send": "Sends a tensor.",
    "send_object_list": "Sends objects.",
    "shrink_group": "Joins the processes of a group without some.",
    "split_group": "Joins processes in groups.",
}
globals().update((name, _needs_group(name, doc)) for name, doc in _COLLECTIVES.items())
__all__ += [name for name in _COLLECTIVES if not name.startswith("_")]
