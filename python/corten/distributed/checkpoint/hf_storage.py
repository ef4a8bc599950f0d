"""Checkpoints as folders of safetensors files, as the Hugging Face hub has them."""

from __future__ import annotations

import dataclasses
import json
import os

import corten
from corten import safetensors
from corten.futures import Future

from ._hf_utils import (
    DEFAULT_EXTRA_METADATA_KEY, DTYPE_KEY, FORMAT_KEY,
    FORMAT_VALUE, SAVED_OFFSETS_KEY, SHAPE_KEY, SHARDED_DIR_NAME, SUFFIX, _gen_file_name,
    _get_dcp_custom_metadata, _get_dtype, _get_safetensors_file_metadata, _HFStorageInfo, _metadata_fn,
)
from ._tensors import narrowed
from .filesystem import (
    FileSystemReader, FileSystemWriter, SerializationFormat, _fill, _queue_of, _temporary,
)
from .metadata import (
    ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties,
    TensorStorageMetadata,
)

__all__ = ["HuggingFaceStorageWriter", "HuggingFaceStorageReader"]


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors as safetensors files.

    Args:
        path: The folder.
        fqn_to_index_mapping: For each key the number of its file, from 1; by default one file.
        thread_count: How many threads write.
        save_distributed: Every process writes its parts; otherwise the first has all tensors whole.
        enable_consolidation: With ``save_distributed`` the parts go to the folder ``sharded`` in ``path``, and
            files of whole tensors, made of them, to ``path``.
        thread_count_consolidation: Taken for compatibility; one thread makes them.
    """

    def __init__(
        self, path, fqn_to_index_mapping=None, thread_count=1, save_distributed=False,
        enable_consolidation=False, thread_count_consolidation=1,
    ):
        super().__init__(
            path=path, serialization_format=SerializationFormat.SAFETENSORS, thread_count=thread_count
        )
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed = save_distributed
        self.enable_consolidation = enable_consolidation
        self.consolidated_output_path = None
        if enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.fs.concat_path(self.path, SHARDED_DIR_NAME)
        self.thread_count_consolidation = thread_count_consolidation

    def prepare_global_plan(self, plans):
        prepared = []
        for shard, plan in enumerate(plans, start=1):
            data = {}
            if self.fqn_to_index_mapping is not None:
                data["fqn_to_index_mapping"] = self.fqn_to_index_mapping
            if self.save_distributed:
                data["shard_index"] = shard
            prepared.append(dataclasses.replace(plan, storage_data=data))
        return prepared

    def write_data(self, plan, planner):
        if not plan.items:
            future = Future()
            future.set_result([])
            return future
        mapping = plan.storage_data.get("fqn_to_index_mapping")
        files: dict = {}
        for item in plan.items:
            files.setdefault(1 if mapping is None else mapping[item.index.fqn], []).append(item)
        last = 1 if mapping is None else max(mapping.values())
        shard = plan.storage_data.get("shard_index")
        return self._write_data(planner, _queue_of(
            (_gen_file_name(number, last, shard), items) for number, items in files.items()
        ))

    def finish(self, metadata, results):
        if self.save_distributed:
            if self.enable_consolidation:
                mapping = self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
                _consolidate(str(self.path), self.consolidated_output_path, mapping)
            # Keys are in several files, which an index of files cannot say.
            return
        written = [result for part in results for result in part]
        _write_index(
            str(self.path), {result.index.fqn: result.storage_data.relative_path for result in written},
            sum(result.storage_data.length for result in written),
        )

    @property
    def metadata_path(self):
        """The name of the index."""
        return _metadata_fn


def _write_index(folder, files, size):
    """Says which file each key is in."""
    path = os.path.join(folder, _metadata_fn)
    temporary = _temporary(path)
    with open(temporary, "w") as file:
        json.dump({"metadata": {"total_size": size}, "weight_map": files}, file, indent=2)
    os.replace(temporary, path)


def _consolidate(folder, target, mapping):
    """Writes files of whole tensors, made of the parts in ``folder``."""
    reader = HuggingFaceStorageReader(folder)
    metadata = reader.read_metadata()
    last, size, files = max(mapping.values()), 0, {}
    for number in sorted(set(mapping.values())):
        name, tensors = _gen_file_name(number, last), {}
        for key in (key for key, place in mapping.items() if place == number):
            saved = metadata.state_dict_metadata[key]
            tensors[key] = whole = corten.empty(saved.size, dtype=saved.properties.dtype)
            for chunk in saved.chunks:
                info = metadata.storage_data[MetadataIndex(key, chunk.offsets)]
                with safetensors.safe_open(os.path.join(folder, info.relative_path), "pt") as file:
                    narrowed(whole, chunk.offsets, chunk.sizes).copy_(file.get_tensor(key))
            files[key] = name
            size += whole.numel() * whole.element_size()
        safetensors.save_file(tensors, os.path.join(target, name), {FORMAT_KEY: FORMAT_VALUE})
    _write_index(target, files, size)


class HuggingFaceStorageReader(FileSystemReader):
    """Reads the safetensors files of a folder, parts of tensors or whole ones.

    ``thread_count`` is taken for compatibility; one thread reads.
    """

    def __init__(self, path, thread_count=1):
        super().__init__(path=path)
        self.thread_count = thread_count

    def read_data(self, plan, planner):
        files: dict = {}
        for item in plan.items:
            name = self.storage_data[item.storage_index].relative_path
            files.setdefault(name, []).append(item)
        for name, items in files.items():
            with safetensors.safe_open(os.path.join(self.path, name), "pt") as file:
                for item in items:
                    tensor = file.get_tensor(item.storage_index.fqn)
                    _fill(planner, item, narrowed(tensor, item.storage_offsets, item.lengths))
        future = Future()
        future.set_result(None)
        return future

    def read_metadata(self):
        """The metadata, from the headers of the files."""
        described, places = {}, {}
        names = (os.path.basename(path) for path in self.fs.ls(self.path))
        for name in sorted(name for name in names if name.endswith(SUFFIX)):
            with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as stream:
                header, _ = _get_safetensors_file_metadata(stream)
            boxes = _get_dcp_custom_metadata(header) or {}
            for key, entry in header.items():
                if key == DEFAULT_EXTRA_METADATA_KEY:
                    continue
                sizes = corten.Size(entry[SHAPE_KEY])
                offsets = corten.Size(boxes.get(key, {}).get(SAVED_OFFSETS_KEY, [0] * len(sizes)))
                dtype = _get_dtype(entry[DTYPE_KEY])
                _add_box(described, key, offsets, sizes, dtype)
                places[MetadataIndex(key, offsets)] = _HFStorageInfo(name, sizes, dtype)
        metadata = Metadata(state_dict_metadata=described, storage_data=places)
        metadata.storage_meta = StorageMeta(load_id=self.load_id)
        return metadata


def _add_box(described, key, offsets, sizes, dtype):
    """Adds a box of a tensor, which is at least as large as its boxes reach."""
    ends = [offset + size for offset, size in zip(offsets, sizes)]
    known = described.get(key)
    if known is None:
        described[key] = known = TensorStorageMetadata(
            TensorProperties(dtype=dtype), corten.Size(ends), []
        )
    known.size = corten.Size(max(pair) for pair in zip(known.size, ends))
    known.chunks.append(ChunkStorageMetadata(offsets, sizes))
