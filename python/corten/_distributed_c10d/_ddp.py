"""What data-parallel modules are made of."""

from __future__ import annotations

import enum

from corten import _C

Reducer = _C._DistReducer
GradBucket = _C._DistGradBucket
Logger = _C._DistLogger
DDPLoggingData = _C._DistLoggingData
_DEFAULT_FIRST_BUCKET_BYTES = _C._DIST_FIRST_BUCKET_BYTES
_compute_bucket_assignment_by_size = _C._dist_assign_buckets
_verify_params_across_processes = _C._dist_verify_params
_broadcast_coalesced = _C._dist_broadcast_coalesced
_register_comm_hook = _C._dist_register_comm_hook
_register_builtin_comm_hook = _C._dist_register_builtin_comm_hook


class BuiltinCommHookType(enum.Enum):
    """Communication hooks that need no Python: the average as it is, and in half precision."""

    ALLREDUCE = 1
    FP16_COMPRESS = 2
