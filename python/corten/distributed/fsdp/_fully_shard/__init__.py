"""``fully_shard``, its policies and its modules' methods."""

from ._fsdp_api import (  # noqa: F401
    CPUOffloadPolicy, DataParallelMeshDims, MixedPrecisionPolicy, OffloadPolicy,
)
from ._fully_shard import (  # noqa: F401
    FSDPModule, GradientReductionHandle, UnshardHandle, fully_shard, register_fsdp_forward_method, share_comm_ctx,
)

__all__ = [
    "CPUOffloadPolicy", "DataParallelMeshDims", "FSDPModule", "GradientReductionHandle", "fully_shard",
    "MixedPrecisionPolicy", "OffloadPolicy", "register_fsdp_forward_method", "UnshardHandle", "share_comm_ctx",
]
