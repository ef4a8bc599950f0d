"""Planners decide what each process writes or reads; the interface, and what plans consist of."""

from __future__ import annotations

import abc
import io
import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Optional

import corten

from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties

__all__ = [
    "WriteItemType", "LoadItemType", "BytesIOWriteData", "TensorWriteData", "WriteItem", "ReadItem",
    "SavePlan", "LoadPlan", "SavePlanner", "LoadPlanner",
]


class WriteItemType(Enum):
    """What is written: a whole tensor, a part of one, or another object."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """The size of an object that is no tensor, in bytes."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """The box that is written, and the tensor that it is of."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: corten.Size


@dataclass(frozen=True)
class WriteItem:
    """One thing to write."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: Optional[BytesIOWriteData] = None
    tensor_data: Optional[TensorWriteData] = None

    def tensor_storage_size(self) -> Optional[int]:
        """The bytes of the whole tensor; nothing for other objects."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """One box to read: where it is in the checkpoint, and where it goes."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: corten.Size
    storage_index: MetadataIndex
    storage_offsets: corten.Size
    lengths: corten.Size


@dataclass(frozen=True)
class SavePlan:
    """What one process writes. ``usable`` is false where the plan of the last save holds."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what each process saves. The methods are called in the order in which they stand here;
    :meth:`create_global_plan` in the coordinator alone."""

    _cached_save_plan: dict[str, SavePlan] = {}
    _cached_final_save_plan: dict[str, SavePlan] = {}
    _cached_all_plans: dict[str, list[SavePlan]] = {}
    _cached_global_plan: dict[str, list[SavePlan]] = {}
    _cached_metadata: dict[str, Any] = {}

    @abc.abstractmethod
    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False) -> None:
        """A save of ``state_dict`` begins."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this process would save."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans):
        """The plans of all processes, in the order of their ranks, and the :class:`Metadata` for them."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """The plan of this process after :meth:`create_global_plan`."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem):
        """The tensor or ``io.BytesIO`` to write; called from any thread, and more than once."""


class LoadPlanner:
    """Decides what each process loads. The methods are called in the order in which they stand here;
    :meth:`create_global_plan` in the coordinator alone."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False) -> None:
        """A load into ``state_dict`` begins."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this process would read."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan):
        """The plans of all processes."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The plan of this process after :meth:`create_global_plan`."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Takes an object that is no tensor."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where the bytes of an object are to be put, for storage that asks."""
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem):
        """The tensor, or view of one, that the box is copied to."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor) -> None:
        """The box was copied to what :meth:`resolve_tensor` gave."""
