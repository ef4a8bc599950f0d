"""The older place of :func:`fully_shard`."""

from corten.distributed.fsdp import (  # noqa: F401
    CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy,
)

from .fully_shard import fully_shard  # noqa: F401
