"""The interface of what keeps checkpoints."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

from .metadata import MetadataIndex

__all__ = ["WriteResult", "StorageWriter", "StorageReader"]


@dataclass(frozen=True)
class WriteResult:
    """What was written of one item, and where."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes checkpoints. The methods are called in the order in which they stand here;
    :meth:`prepare_global_plan` and :meth:`finish` in the coordinator alone."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None) -> None:
        """A new save begins, to ``checkpoint_id`` if it is given."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs) -> None:
        """Tells the writer its part; ``rank`` and ``use_collectives`` are passed to writers that take them."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """The plan of this process, with what the storage adds."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """The plans of all processes, with what the storage adds."""

    @abc.abstractmethod
    def write_data(self, plan, planner):
        """Writes the items of ``plan``: a future of a list of :class:`WriteResult`."""

    @abc.abstractmethod
    def finish(self, metadata, results) -> None:
        """Makes the checkpoint one; ``results`` has the list of each process."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        """Whether this kind of storage can keep a checkpoint of that name."""

    def storage_meta(self):
        """What the storage says of the checkpoint, or nothing."""
        return None


class StorageReader(abc.ABC):
    """Reads checkpoints. The methods are called in the order in which they stand here;
    :meth:`prepare_global_plan` in the coordinator alone."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None) -> None:
        """A new load begins, from ``checkpoint_id`` if it is given."""

    @abc.abstractmethod
    def read_metadata(self, *args, **kwargs):
        """The :class:`Metadata` of the checkpoint."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs) -> None:
        """Tells the reader what was read, and its part."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """The plan of this process, with what the storage adds."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """The plans of all processes, with what the storage adds."""

    @abc.abstractmethod
    def read_data(self, plan, planner):
        """Reads the items of ``plan`` into what ``planner`` gives: a future of nothing."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        """Whether this kind of storage can have a checkpoint of that name."""
