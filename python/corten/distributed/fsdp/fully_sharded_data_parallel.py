"""The names of the older wrapper, for programs that ask whether a module is one. It cannot be made:
:func:`fully_shard` does what it did."""

from __future__ import annotations

from enum import Enum, auto

from corten import nn

from .api import (  # noqa: F401
    BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig,
    LocalOptimStateDictConfig, LocalStateDictConfig, MixedPrecision, OptimStateDictConfig,
    ShardedOptimStateDictConfig, ShardedStateDictConfig, ShardingStrategy, StateDictConfig,
    StateDictSettings, StateDictType,
)

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

FLAT_PARAM = "_flat_param"


class OptimStateKeyType(Enum):
    """What the keys of an optimizer's state are."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


class FullyShardedDataParallel(nn.Module):
    """Raises an error that names :func:`fully_shard`; no module is an instance of it.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, module, *args, **kwargs):
        raise NotImplementedError(
            "FullyShardedDataParallel: only its successor is here, "
            "torch.distributed.fsdp.fully_shard(module), which shards a module in place; "
            "call it on the blocks of the model first, then on the model"
        )

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The modules inside that are instances: none."""
        return []
