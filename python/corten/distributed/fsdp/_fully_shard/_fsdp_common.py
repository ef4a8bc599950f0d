"""Meshes, states of training, and tensors in nested values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Optional

import corten
from corten.distributed.tensor import DTensor, Shard
from corten.utils import _pytree as pytree


@dataclass
class DataParallelMeshInfo:
    """A mesh, and which of its dimensions parameters are sharded and replicated over."""

    mesh: Any
    shard_mesh_dim: Optional[int] = None
    replicate_mesh_dim: Optional[int] = None

    def __post_init__(self):
        if self.shard_mesh_dim is None and self.replicate_mesh_dim is None:
            raise AssertionError(
                "At least one of shard_mesh_dim and replicate_mesh_dim must not be None"
            )


@dataclass
class FSDPMeshInfo(DataParallelMeshInfo):
    """Parameters are sharded."""

    def __post_init__(self):
        super().__post_init__()
        if self.shard_mesh_dim is None:
            raise AssertionError("Expects non-None shard_mesh_dim")
        self.shard_mesh_size = self.mesh.size(self.shard_mesh_dim)
        self.shard_process_group = self.mesh.get_group(self.shard_mesh_dim)
        self.shard_mesh_rank = self.mesh.get_local_rank(self.shard_mesh_dim)


@dataclass
class DDPMeshInfo(DataParallelMeshInfo):
    """Parameters are replicated."""

    def __post_init__(self):
        super().__post_init__()
        if self.replicate_mesh_dim is None:
            raise AssertionError("Expects non-None replicate_mesh_dim")
        self.replicate_mesh_size = self.mesh.size(self.replicate_mesh_dim)
        self.replicate_process_group = self.mesh.get_group(self.replicate_mesh_dim)
        self.replicate_mesh_rank = self.mesh.get_local_rank(self.replicate_mesh_dim)


@dataclass
class HSDPMeshInfo(FSDPMeshInfo, DDPMeshInfo):
    """Parameters are sharded over one dimension and replicated over the other."""


class TrainingState(Enum):
    """What a module is doing."""

    FORWARD = auto()
    PRE_BACKWARD = auto()
    POST_BACKWARD = auto()
    IDLE = auto()


@dataclass
class ShardPlacementResult:
    """Where a parameter is cut, and over which mesh."""

    placement: Optional[Shard]
    mesh_info: FSDPMeshInfo


def resolve_shard_placement(result, default_mesh_info):
    """What ``shard_placement_fn`` gave, with the mesh where it names none."""
    if isinstance(result, ShardPlacementResult):
        return result
    if result is None or isinstance(result, Shard):
        return ShardPlacementResult(result, default_mesh_info)
    raise ValueError(f"Invalid shard_placement_fn result: {result}")


@dataclass
class SharedContext:
    """What the modules under one root share."""

    all_states: list = field(default_factory=list)
    forward_root: Any = None
    callback_queued: bool = False
    is_last_backward: bool = True
    post_forward_order: list = field(default_factory=list)
    reducing: list = field(default_factory=list)
    post_optim_event: Any = None
    is_finalized_by_hand: bool = False
    is_reduction_pending: bool = False
    max_reductions: int = 2


def _from_local_no_grad(local_tensor, sharding_spec):
    """A ``DTensor`` of a local tensor, which autograd does not see."""
    return DTensor(local_tensor, sharding_spec, requires_grad=local_tensor.requires_grad)


def _to_dtype_if_needed(tensor, dtype):
    return tensor if dtype is None or tensor.dtype == dtype else tensor.to(dtype)


def _cast_fp_tensor(dtype, x):
    if isinstance(x, corten.Tensor) and x.is_floating_point() and x.dtype != dtype:
        return x.to(dtype)
    return x


def map_tensors(function, value):
    """A copy of a nested value with ``function`` applied to its tensors."""
    return pytree.tree_map_only(corten.Tensor, function, value)
