"""``corten._C._distributed_c10d``: stores, process groups and works in the classes of PyTorch's
``torch._C._distributed_c10d``, over what the extension module has of ``corten-dist``."""

from __future__ import annotations

import atexit

from corten import _C

from ._ddp import (
    BuiltinCommHookType, DDPLoggingData, GradBucket, Logger, Reducer, _broadcast_coalesced,
    _compute_bucket_assignment_by_size, _register_builtin_comm_hook, _register_comm_hook,
    _verify_params_across_processes,
)
from ._enums import (
    _DEFAULT_FIRST_BUCKET_BYTES, _DEFAULT_NO_TIMEOUT, _DEFAULT_PG_NCCL_TIMEOUT, _DEFAULT_PG_TIMEOUT, DebugLevel,
    ErrorType, HookOpName, OpType, WorkResult, get_debug_level, set_debug_level, set_debug_level_from_env,
)
from ._fake import FakeProcessGroup
from ._groups import Backend, ProcessGroup, ProcessGroupThreads
from ._mpi import ProcessGroupMPI, _is_mpi_available
from ._options import (
    AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions, BarrierOptions, BroadcastOptions,
    GatherOptions, PostHookArgs, PreHookArgs, ReduceOptions, ReduceScatterOptions, ScatterOptions,
    _DistributedBackendOptions,
)
from ._reduce_op import ReduceOp, _make_nccl_premul_sum
from ._registry import (
    _allow_inflight_collective_as_graph_input, _current_process_group, _get_comm_profiling_name,
    _get_work_registry_size, _is_process_group_registered, _register_process_group, _register_work,
    _resolve_process_group, _set_allow_inflight_collective_as_graph_input, _set_comm_profiling_name, _set_global_rank,
    _set_process_group, _set_thread_isolation_mode, _take_works, _unregister_all_process_groups,
    _unregister_process_group,
)
from ._stores import FakeStore, FileStore, HashStore, PrefixStore, Store, TCPStore, _test_python_store
from ._works import FakeWork, PythonCallbackWork, Work, _create_work_from_future
from ._wrapper import _ProcessGroupWrapper

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend", "BarrierOptions",
    "BroadcastOptions", "BuiltinCommHookType", "DDPLoggingData", "DebugLevel", "ErrorType", "FakeProcessGroup",
    "FakeStore", "FakeWork", "FileStore", "GatherOptions", "GradBucket", "HashStore", "HookOpName", "Logger", "OpType",
    "PostHookArgs", "PreHookArgs", "PrefixStore", "ProcessGroup", "ProcessGroupMPI", "ProcessGroupThreads",
    "PythonCallbackWork", "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "Reducer", "ScatterOptions", "Store",
    "TCPStore", "Work", "WorkResult", "_DEFAULT_FIRST_BUCKET_BYTES", "_DEFAULT_NO_TIMEOUT", "_DEFAULT_PG_NCCL_TIMEOUT",
    "_DEFAULT_PG_TIMEOUT", "_DistributedBackendOptions", "_ProcessGroupWrapper",
    "_allow_inflight_collective_as_graph_input", "_broadcast_coalesced", "_compute_bucket_assignment_by_size",
    "_create_work_from_future", "_current_process_group", "_get_comm_profiling_name", "_get_work_registry_size",
    "_is_mpi_available", "_is_process_group_registered", "_make_nccl_premul_sum", "_register_builtin_comm_hook",
    "_register_comm_hook", "_register_process_group", "_register_work", "_resolve_process_group",
    "_set_allow_inflight_collective_as_graph_input", "_set_comm_profiling_name", "_set_global_rank",
    "_set_process_group", "_set_thread_isolation_mode", "_take_works", "_test_python_store",
    "_unregister_all_process_groups", "_unregister_process_group", "_verify_params_across_processes", "get_debug_level",
    "set_debug_level", "set_debug_level_from_env",
]

# Systems without gloo's transports do not have it.
if hasattr(_C, "_dist_gloo_backend"):
    from ._gloo import ProcessGroupGloo, _is_gloo_available

    __all__ += ["ProcessGroupGloo", "_is_gloo_available"]

# Builds without CUDA do not have it.
if hasattr(_C, "_dist_nccl_backend"):
    from ._nccl import ProcessGroupNCCL, _is_nccl_available

    __all__ += ["ProcessGroupNCCL", "_is_nccl_available"]

_HOME = __name__.rpartition(".")[0] + "._C._distributed_c10d"
for _name in __all__:
    if isinstance(globals()[_name], type) and globals()[_name].__module__ != _HOME:
        globals()[_name].__module__ = _HOME

# Threads of engines must not call functions of a program that ends.
atexit.register(_C._dist_at_exit)
