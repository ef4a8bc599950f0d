"""Checkpoints of several processes as files of one, and back: ``python -m corten.distributed.checkpoint.format_utils
torch_to_dcp SOURCE TARGET`` or ``dcp_to_torch``."""

from __future__ import annotations

import argparse
import os
import sys

import corten
import corten.distributed as dist
from corten.futures import Future

from ._nested_dict import flatten_state_dict
from ._tensors import narrowed
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter, _fill
from .metadata import Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType
from .planner_helpers import _create_chunk_list
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save_state_dict
from .storage import StorageReader
from .utils import load_object

__all__ = [
    "dcp_to_torch_save", "torch_save_to_dcp", "BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner",
]


class BroadcastingTorchSaveReader(StorageReader):
    """Reads tensors of a file of :func:`corten.save` in one process and sends them to the others; for
    :class:`DynamicMetaLoadPlanner`."""

    def __init__(self, checkpoint_id=None, coordinator_rank=0):
        self.checkpoint_id = checkpoint_id
        self.coordinator_rank = coordinator_rank

    def read_metadata(self):
        """Empty metadata: the planner makes them of the dictionary."""
        return Metadata(state_dict_metadata={})

    def read_data(self, plan, planner):
        """Reads and sends the tensors, one after another."""
        whole = None
        if self.is_coordinator:
            whole = _whole_file(self.checkpoint_id)
            if planner.flatten_state_dict:
                whole, _ = flatten_state_dict(whole)
        for item in plan.items:
            key = item.storage_index.fqn
            if item.type == LoadItemType.BYTE_IO:
                raise RuntimeError(
                    f"Non-tensor value identified at {key}. "
                    f"At this time {type(self).__name__} only supports loading Tensors."
                )
            device = dist.distributed_c10d._get_pg_default_device()
            if self.is_coordinator:
                tensor = whole[key].to(device).contiguous()
            else:
                size, dtype = planner.state_dict[key].size(), planner.state_dict[key].dtype
                tensor = corten.empty(size, dtype=dtype, device=device)
            dist.broadcast(tensor, src=self.coordinator_rank, async_op=False)
            _fill(planner, item, narrowed(tensor, item.storage_offsets, item.lengths))
        future = Future()
        future.set_result(None)
        return future

    def set_up_storage_reader(self, metadata, is_coordinator):
        self.is_coordinator = is_coordinator
        if is_coordinator and dist.get_rank() != self.coordinator_rank:
            raise AssertionError(
                f"Coordinator rank mismatch: expected {self.coordinator_rank}, got {dist.get_rank()}"
            )
        if self.checkpoint_id is None:
            raise AssertionError("checkpoint_id must be set before setting up storage reader")

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, global_plan):
        return global_plan

    def reset(self, checkpoint_id=None):
        self.checkpoint_id = checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Takes the metadata from the dictionary that is loaded into, for files that have none."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        super().set_up_planner(state_dict, metadata, is_coordinator)
        described = {}
        for key, value in self.state_dict.items():
            if not isinstance(value, corten.Tensor):
                raise RuntimeError(
                    f"Non-tensor value identified at {key}. "
                    f"At this time {type(self).__name__} only supports loading Tensors."
                )
            # The file has the whole tensor, as one box.
            chunk = _create_chunk_list(corten.empty(value.size(), device="meta"))
            described[key] = TensorStorageMetadata(
                TensorProperties(dtype=value.dtype), value.size(), chunk
            )
        self.metadata = Metadata(state_dict_metadata=described)


def _whole_file(path):
    with open(path, "rb") as file:
        return load_object(file)


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """Writes the checkpoint of a folder as one file of :func:`corten.save`, in one process."""
    state_dict: dict = {}
    _load_state_dict(
        state_dict, FileSystemReader(dcp_checkpoint_dir), no_dist=True,
        planner=_EmptyStateDictLoadPlanner(),
    )
    corten.save(state_dict, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """Writes a file of :func:`corten.save` as a checkpoint in a folder, in one process."""
    _save_state_dict(_whole_file(torch_save_path), FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


def _main(arguments):
    parser = argparse.ArgumentParser(description="Converts checkpoints.")
    parser.add_argument("mode", choices=["torch_to_dcp", "dcp_to_torch"], help="Conversion mode")
    parser.add_argument("src", help="Path to the source model")
    parser.add_argument("dst", help="Path to the destination model")
    options = parser.parse_args(arguments)
    to_dcp = options.mode == "torch_to_dcp"
    if not (os.path.isfile if to_dcp else os.path.isdir)(options.src):
        parser.error(f"No checkpoint found at {options.src}.")
    (torch_save_to_dcp if to_dcp else dcp_to_torch_save)(options.src, options.dst)


if __name__ == "__main__":
    _main(sys.argv[1:])
