"""Checkpoints in folders.

Note [Checkpoints that replace others]: a checkpoint is what ``.metadata`` says that it is. Data are
written under temporary names and get names that no file of the folder has; then ``.metadata`` is replaced
in one step; then files are removed that no metadata name. Whenever the process ends in between, the folder
holds the former checkpoint, or the new one, whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import pickle
import queue
import re
import threading
import uuid
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Optional

import corten
from corten._atomic import sync_folder
from corten._loading import _full_unpickler
from corten._saving import pickled
from corten.futures import Future

from ._extension import ExtensionRegistry
from ._file_systems import FileSystem, FileSystemBase
from ._hf_utils import (
    CUSTOM_METADATA_KEY, DCP_VERSION_KEY, FORMAT_KEY, FORMAT_VALUE, HF_DCP_VERSION,
)
from ._tensors import narrowed
from .metadata import StorageMeta
from .planner import LoadItemType, WriteItemType
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult
from .utils import _create_file_view

__all__ = [
    "FileSystemWriter", "FileSystemReader", "FileSystem", "FileSystemBase", "SerializationFormat",
]

_metadata_fn = ".metadata"
CURRENT_DCP_VERSION = "1.0.0"
DEFAULT_SUFFIX = ".distcp"
_TEMPORARY = r"\.[0-9a-f]{12}\.tmp"


@dataclass
class _StorageInfo:
    """Where the bytes of an item are."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Optional[Sequence[str]] = None

    def __getstate__(self):
        return {key: value for key, value in self.__dict__.items() if value is not None}


@dataclass
class _StoragePrefix:
    """How the names of a process's files begin."""

    prefix: str


class SerializationFormat(Enum):
    """How tensors are written into files."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


def _generate_uuid():
    return str(uuid.uuid4())


def _temporary(name):
    return f"{name}.{os.urandom(6).hex()}.tmp"


def _item_size(item):
    """The bytes of an item's tensor."""
    return item.tensor_storage_size()


def _split_by_size_and_type(bins, items):
    """The items in ``bins`` lists of about the same size."""
    if bins == 1:
        return [items]
    buckets = [[] for _ in range(bins)]
    sizes = [0] * bins
    tensors = []
    for item in items:
        if item.type == WriteItemType.BYTE_IO:
            place = sizes.index(min(sizes))
            buckets[place].append(item)
            sizes[place] += 1
        else:
            tensors.append(item)
    for item in sorted(tensors, key=_item_size, reverse=True):
        place = sizes.index(min(sizes))
        buckets[place].append(item)
        sizes[place] += _item_size(item)
    return buckets


class _Uncloseable(io.IOBase):
    """Writes into a stream that stays open when this one is closed, as transformations do it."""

    def __init__(self, raw):
        self.raw = raw

    def writable(self):
        return True

    def write(self, data):
        return self.raw.write(data)

    def close(self):
        self.raw.flush()


def _on_cpu(tensor):
    """A tensor in memory of its own size."""
    tensor = tensor.detach().cpu()
    if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
        tensor = tensor.clone()
    return tensor


def _sync(stream):
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except (AttributeError, io.UnsupportedOperation) as error:
        warnings.warn(f"fsync not supported for this stream, relying on flush(): {error}")


class _FileSystemWriter(StorageWriter):
    """See :class:`FileSystemWriter`."""

    def __init__(
        self, path, single_file_per_rank=True, sync_files=True, thread_count=1,
        per_thread_copy_ahead=10_000_000, overwrite=True, _extensions=None,
        serialization_format=SerializationFormat.TORCH_SAVE, *args, **kwargs,
    ):
        super().__init__()
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank = single_file_per_rank
        self.sync_files = sync_files
        self.thread_count = thread_count
        self.per_thread_copy_ahead = per_thread_copy_ahead
        self.save_id = _generate_uuid()
        self.overwrite = overwrite
        self.extensions = () if _extensions is None else tuple(_extensions)
        self.serialization_format = serialization_format
        self.rank = None
        self.use_collectives = True

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = _generate_uuid()

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)

    def _alone(self):
        """Whether every process writes metadata of its own."""
        return not self.use_collectives and self.rank is not None

    def _metadata_exists(self):
        return self.fs.exists(self._get_metadata_path(None if self.use_collectives else 0))

    def prepare_local_plan(self, plan):
        self.fs.mkdir(self.path)
        if self._metadata_exists():
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}.")
            warnings.warn(
                f"Detected an existing checkpoint in {self.path}, overwriting since "
                f"{self.overwrite=}. Set it to False to raise when an existing checkpoint is found.",
                stacklevel=2,
            )
        if self._alone():
            plan = dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{self.rank}_"))
        return plan

    def prepare_global_plan(self, plans):
        return [
            dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{i}_"))
            if plan.storage_data is None else plan
            for i, plan in enumerate(plans)
        ]

    def _new_names(self, prefix):
        """Names of data files that the folder does not have; see Note [Checkpoints that replace others]."""
        number = 0
        while True:
            name = f"{prefix}{number}{DEFAULT_SUFFIX}"
            if not self.fs.exists(self.fs.concat_path(self.path, name)):
                yield name
            number += 1

    def write_data(self, plan, planner):
        names = self._new_names(plan.storage_data.prefix)
        if self.single_file_per_rank:
            parts = _split_by_size_and_type(self.thread_count, plan.items)
        else:
            parts = [[item] for item in plan.items]
        return self._write_data(planner, _queue_of(zip(names, parts)))

    def _write_data(self, planner, file_queue):
        """Writes the files of a queue of (name, items), by ``thread_count`` threads."""
        results, errors = [], []

        def work():
            while not errors:
                try:
                    name, items = file_queue.get_nowait()
                except queue.Empty:
                    return
                try:
                    results.extend(self._write_file(name, items, planner))
                except BaseException as error:  # noqa: BLE001
                    errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(1, self.thread_count)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        future = Future()
        future.set_result(results)
        return future

    def _write_file(self, name, items, planner):
        """Writes one file, which appears under its name when it is complete."""
        temporary = self.fs.concat_path(self.path, _temporary(name))
        with self.fs.create_stream(temporary, "wb") as stream:
            if self.serialization_format == SerializationFormat.SAFETENSORS:
                results = _write_safetensors(stream, name, items, planner)
            else:
                results = [self._write_item(stream, name, item, planner) for item in items]
            if self.sync_files:
                _sync(stream)
        self.fs.rename(temporary, self.fs.concat_path(self.path, name))
        return results

    def _write_item(self, stream, name, item, planner):
        data = planner.resolve_data(item)
        if item.type != WriteItemType.BYTE_IO:
            tensor, data = _on_cpu(data), io.BytesIO()
            corten.save(tensor, data)
        offset = stream.tell()
        target = _Uncloseable(stream)
        for extension in self.extensions:
            target = extension.transform_to(target)
        target.write(data.getbuffer())
        target.close()
        described = [extension.get_descriptor() for extension in reversed(self.extensions)]
        length = stream.tell() - offset
        return WriteResult(item.index, length, _StorageInfo(name, offset, length, described or None))

    def finish(self, metadata, results):
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {
            result.index: result.storage_data for part in results for result in part
        }
        metadata.storage_meta = self.storage_meta()
        path = self._get_metadata_path(self.rank if self._alone() else None)
        temporary = self.fs.concat_path(self.path, _temporary(os.path.basename(os.fspath(path))))
        data, _ = pickled(metadata, pickle.DEFAULT_PROTOCOL, lambda storage: "cpu")
        with self.fs.create_stream(temporary, "wb") as stream:
            stream.write(data)
            if self.sync_files:
                _sync(stream)
        if self.sync_files and isinstance(self.fs, FileSystem):
            sync_folder(self.path)
        if not isinstance(self.fs, FileSystem) and self.fs.exists(path):
            # Other file systems may refuse a name that is taken.
            self.fs.rm_file(path)
        self.fs.rename(temporary, path)
        if self.sync_files and isinstance(self.fs, FileSystem):
            sync_folder(self.path)
        whole = self._get_metadata_path()
        if self._alone() and self.fs.exists(whole):
            # It would be read before what each process wrote.
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(whole)
        self._remove_leftovers({
            info.relative_path for info in metadata.storage_data.values()
            if isinstance(info, _StorageInfo)
        })

    def _remove_leftovers(self, wanted):
        """Removes data of former saves, complete or not. What cannot be removed stays."""
        if not hasattr(self.fs, "ls"):
            return
        ranks = re.escape(str(self.rank)) if self._alone() else r"\d+"
        data = re.compile(rf"__{ranks}_\d+{re.escape(DEFAULT_SUFFIX)}({_TEMPORARY})?")
        prefix = rf"__{ranks}" if self._alone() else ""
        unfinished = re.compile(rf"{prefix}{re.escape(_metadata_fn)}{_TEMPORARY}")
        try:
            names = [os.path.basename(path) for path in self.fs.ls(self.path)]
            if not self._alone() and any(re.fullmatch(r"__\d+\.metadata", name) for name in names):
                return
            for name in names:
                if name not in wanted and (data.fullmatch(name) or unfinished.fullmatch(name)):
                    self.fs.rm_file(self.fs.concat_path(self.path, name))
        except OSError:
            return

    def storage_meta(self):
        return StorageMeta(checkpoint_id=os.fspath(self.checkpoint_id), save_id=self.save_id)

    def _get_metadata_path(self, rank=None):
        name = _metadata_fn if rank is None else f"__{rank}{_metadata_fn}"
        return self.fs.concat_path(self.path, name)

    @property
    def checkpoint_id(self):
        """Where the checkpoint is."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)


def _queue_of(values):
    made = queue.Queue()
    for value in values:
        made.put(value)
    return made


def _write_safetensors(stream, name, items, planner):
    """Writes the tensors of a file in the format of safetensors, with where each belongs."""
    from corten import safetensors

    tensors, boxes, results = {}, {}, []
    for item in items:
        if item.type == WriteItemType.BYTE_IO:
            raise ValueError(f"{item.index.fqn} is no tensor, which a safetensors file cannot hold")
        tensor = _on_cpu(planner.resolve_data(item)).contiguous()
        tensors[item.index.fqn] = tensor
        boxes[item.index.fqn] = {"saved_offsets": list(item.tensor_data.chunk.offsets)}
        length = tensor.numel() * tensor.element_size()
        results.append(WriteResult(item.index, length, _StorageInfo(name, 0, length)))
    stream.write(safetensors.save(tensors, metadata={
        CUSTOM_METADATA_KEY: json.dumps(boxes), DCP_VERSION_KEY: str(HF_DCP_VERSION),
        FORMAT_KEY: FORMAT_VALUE,
    }))
    return results


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a folder. The bytes are those of pickles: read only what you trust."""

    def __init__(self, path, _extension_registry=None):
        super().__init__()
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.storage_data = {}
        self.load_id = _generate_uuid()
        self.registry = ExtensionRegistry() if _extension_registry is None else _extension_registry
        self.rank = None
        self.use_collectives = True

    def _slice_file(self, file, sinfo):
        return _create_file_view(file, sinfo.offset, sinfo.length)

    def reset(self, checkpoint_id=None):
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = _generate_uuid()

    def read_data(self, plan, planner):
        files: dict = {}
        for item in plan.items:
            info = self.storage_data[item.storage_index]
            files.setdefault(info.relative_path, []).append((info, item))
        for name, requests in files.items():
            requests.sort(key=lambda request: request[0].offset)
            with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as stream:
                self._read_file(stream, requests, planner)
        future = Future()
        future.set_result(None)
        return future

    def _read_file(self, stream, requests, planner):
        offset, tensor = None, None
        for info, item in requests:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self._content(stream, info).read(-1)))
                continue
            if offset != info.offset:
                # Several boxes may be parts of one that was saved.
                content = self._content(stream, info)
                if not content.seekable():
                    content = io.BytesIO(content.read(-1))
                tensor = corten.load(content, map_location="cpu", weights_only=True)
                offset = info.offset
            _fill(planner, item, narrowed(tensor, item.storage_offsets, item.lengths))

    def _content(self, stream, info):
        """The bytes of an item, with what was done to them undone."""
        content = self._slice_file(stream, info)
        descriptors = getattr(info, "transform_descriptors", None) or ()
        for extension in self.registry.from_descriptor_list(descriptors):
            content = extension.transform_from(content)
        return content

    def _get_metadata_path(self, rank=None):
        name = _metadata_fn if rank is None else f"__{rank}{_metadata_fn}"
        return self.fs.concat_path(self.path, name)

    def read_metadata(self, *args, **kwargs):
        with self.fs.create_stream(self._get_metadata_path(kwargs.get("rank")), "rb") as stream:
            metadata = _full_unpickler(pickle)(stream).load()
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self.storage_data = metadata.storage_data
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)
        if self.storage_data is None:
            raise AssertionError("storage_data must not be None in metadata")

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    @property
    def checkpoint_id(self):
        """Where the checkpoint is."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)


def _fill(planner, item, tensor):
    """Copies what was read of an item to where the planner wants it."""
    target = planner.resolve_tensor(item).detach()
    if target.size() != tensor.size():
        raise AssertionError(
            f"req {item.storage_index} mismatch sizes {target.size()} vs {tensor.size()}"
        )
    target.copy_(tensor)
    planner.commit_tensor(item, target)


class FileSystemWriter(_FileSystemWriter, BlockingAsyncStager):
    """Writes a checkpoint into a folder, in place of the one that is there.

    Args:
        path: The folder; it is made if it is not there.
        single_file_per_rank: One file of each process and thread, instead of one of each tensor.
        sync_files: Bytes and names reach the disk before the checkpoint counts.
        thread_count: How many threads write.
        per_thread_copy_ahead: Bytes that may be copied from a device before they are written.
        cache_staged_state_dict: Keeps the copies of :func:`async_save` for the next one.
        overwrite: Whether there may be a checkpoint.
        serialization_format: How tensors are written.
    """

    def __init__(
        self, path, single_file_per_rank=True, sync_files=True, thread_count=1,
        per_thread_copy_ahead=10_000_000, cache_staged_state_dict=False, overwrite=True,
        _extensions=None, serialization_format=SerializationFormat.TORCH_SAVE,
    ):
        _FileSystemWriter.__init__(
            self, path=path, single_file_per_rank=single_file_per_rank, sync_files=sync_files,
            thread_count=thread_count, per_thread_copy_ahead=per_thread_copy_ahead,
            overwrite=overwrite, _extensions=_extensions, serialization_format=serialization_format,
        )
        BlockingAsyncStager.__init__(self, cache_staged_state_dict=cache_staged_state_dict)

    def stage(self, state_dict):
        """A copy of the dictionary on the CPU; see :class:`AsyncStager`."""
        # What is written then is on the CPU already.
        self.per_thread_copy_ahead = 0
        return super().stage(state_dict)
