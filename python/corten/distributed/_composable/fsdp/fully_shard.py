"""The older place of :func:`fully_shard`."""

from corten.distributed.fsdp import (  # noqa: F401
    FSDPModule, fully_shard, register_fsdp_forward_method, UnshardHandle,
)
