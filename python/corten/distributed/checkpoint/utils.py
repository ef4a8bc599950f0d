"""Agreement between the processes that save or load, and looking values up."""

from __future__ import annotations

import functools
import inspect
import io
import os
import pickle
import warnings

import corten
import corten.distributed as dist

from ._tensors import is_dtensor
from .api import CheckpointException, _is_wrapped_exception, _wrap_exception
from .protocol import _get_checkpointable_tensor_shard, _is_checkpointable_tensor

__all__ = ["find_tensor_shard", "find_state_dict_object"]


def _get_failure_dict(results):
    return {i: result for i, result in enumerate(results) if _is_wrapped_exception(result)}


def _all_gather_keys(local_dict, group=None):
    """The keys of the dictionaries of all processes."""
    gathered = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, list(local_dict), group=group)
    return set().union(*gathered)


def _assert_same_keys(state_dict, process_group=None):
    if dist.get_world_size(process_group) == 1:
        return
    others = _all_gather_keys(state_dict, process_group) - set(state_dict)
    if others:
        raise AssertionError(f"Key(s) present in other ranks but not this one, difference: {others}")


class _DistWrapper:
    """Steps that all processes take together, with exceptions of one raised in all; without a group there
    is one process."""

    def __init__(self, group, use_dist, coordinator_rank):
        self.group = group
        self.use_dist = use_dist
        self.coordinator_rank = coordinator_rank
        self.global_coordinator_rank, self.rank, self.is_coordinator = coordinator_rank, 0, True
        if use_dist:
            if group is not None:
                self.global_coordinator_rank = dist.get_global_rank(group, coordinator_rank)
            self.rank = dist.get_rank(group)
            self.is_coordinator = self.rank == coordinator_rank

    def get_rank(self):
        """The number of this process in the group."""
        return self.rank

    def get_world_size(self):
        """How many processes there are in the group."""
        return dist.get_world_size(self.group) if self.use_dist else 1

    def broadcast_object(self, object):
        """The coordinator's object."""
        held = [object]
        if self.use_dist:
            dist.broadcast_object_list(held, group=self.group, src=self.global_coordinator_rank)
        return held[0]

    def gather_object(self, object):
        """The objects of all processes in the coordinator, elsewhere nothing."""
        if not self.use_dist:
            return [object]
        gathered = [None] * self.get_world_size() if self.is_coordinator else None
        dist.gather_object(object, gathered, self.global_coordinator_rank, group=self.group)
        return gathered

    def all_gather_object(self, object):
        """The objects of all processes."""
        if not self.use_dist:
            return [object]
        gathered = [None] * self.get_world_size()
        dist.all_gather_object(gathered, object, group=self.group)
        return gathered

    def scatter_object(self, object_list):
        """This process's part of the coordinator's list."""
        if not self.use_dist:
            return object_list[0]
        received = [None]
        given = object_list if self.is_coordinator else None
        dist.scatter_object_list(received, given, self.global_coordinator_rank, group=self.group)
        return received[0]

    def _reduced(self, step, results, reduce_fun):
        """What the coordinator makes of the results of all, or the error."""
        failures = _get_failure_dict(results)
        if not failures:
            try:
                return reduce_fun(results)
            except BaseException as error:  # noqa: BLE001
                failures[self.rank] = _wrap_exception(error)
        return CheckpointException(step, failures)

    def reduce_scatter(self, step, map_fun, reduce_fun):
        """The coordinator gets what ``map_fun`` gives in every process, and each process its element of what
        ``reduce_fun`` makes of that."""
        gathered = self.gather_object(_attempted(map_fun))
        results = None
        if self.is_coordinator:
            results = self._reduced(step, gathered, reduce_fun)
            if isinstance(results, CheckpointException):
                results = [results] * self.get_world_size()
        return _raised(self.scatter_object(results))

    def all_reduce(self, step, map_fun, reduce_fun):
        """Every process gets what ``reduce_fun`` makes of what ``map_fun`` gives in each."""
        gathered = self.gather_object(_attempted(map_fun))
        result = self._reduced(step, gathered, reduce_fun) if self.is_coordinator else None
        return _raised(self.broadcast_object(result))

    def all_gather(self, step, map_fun):
        """Every process gets what ``map_fun`` gives in each."""
        results = self.all_gather_object(_attempted(map_fun))
        failures = _get_failure_dict(results)
        if failures:
            raise CheckpointException(step, failures)
        return results

    def broadcast(self, step, map_fun):
        """Every process gets what ``map_fun`` gives in the coordinator."""
        result = _attempted(map_fun) if self.is_coordinator else None
        result = self.broadcast_object(result)
        if _is_wrapped_exception(result):
            raise CheckpointException(step, {self.coordinator_rank: result})
        return result

    def barrier(self):
        """Waits for all processes."""
        if self.use_dist:
            dist.barrier(group=self.group)


def _attempted(function):
    """What a function gives, or the exception that it raises in a form that can be sent."""
    try:
        return function()
    except BaseException as error:  # noqa: BLE001
        return _wrap_exception(error)


def _raised(result):
    if isinstance(result, CheckpointException):
        raise result
    return result


def find_tensor_shard(tensor, index):
    """The part of a tensor that this process holds and ``index`` names."""
    if is_dtensor(tensor):
        return tensor.to_local()
    if _is_checkpointable_tensor(tensor):
        return _get_checkpointable_tensor_shard(tensor, index)
    if index.offset is not None and any(index.offset):
        raise ValueError(
            f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'"
        )
    return tensor


def find_state_dict_object(state_dict, index):
    """The value that an index names; of tensors the part that is here.

    Raises:
        ValueError: The dictionary has no such key, or the value no such part.
    """
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    value = state_dict[index.fqn]
    if isinstance(value, corten.Tensor):
        return find_tensor_shard(value, index)
    if index.offset is not None:
        raise ValueError(
            f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'"
        )
    return value


def load_object(file):
    """What an open file of :func:`corten.save` holds, on the CPU.

    Objects that need more than weights do are loaded by running what the file names, as PyTorch does.
    """
    try:
        return corten.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        file.seek(0)
        return corten.load(file, map_location="cpu", weights_only=False)


def _element_wise_add(a, b):
    return [x + y for x, y in zip(a, b)]


def _element_wise_sub(a, b):
    return [x - y for x, y in zip(a, b)]


class _ReaderView(io.IOBase):
    """A part of a file, read as a file of its own."""

    def __init__(self, base_stream, offset, len):
        super().__init__()
        self.base_stream, self.offset, self.len = base_stream, offset, len
        self.seek(0)

    def seek(self, offset, whence=os.SEEK_SET, /):
        start = {os.SEEK_SET: 0, os.SEEK_END: self.len}.get(whence)
        if start is None:
            start = self.tell()
        self.base_stream.seek(self.offset + max(start + offset, 0))
        return self.tell()

    def tell(self):
        return self.base_stream.tell() - self.offset

    def readable(self):
        return self.base_stream.readable()

    def seekable(self):
        return self.base_stream.seekable()

    def readinto(self, b):
        left = max(self.len - self.tell(), 0)
        view = memoryview(b).cast("B")
        return self.base_stream.readinto(view[:left])

    def read(self, size=-1):
        left = max(self.len - self.tell(), 0)
        return self.base_stream.read(left if size is None or size < 0 else min(size, left))


def _create_file_view(file, offset, length):
    return _ReaderView(file, offset, length)


def _normalize_device_info(device_type, device_id):
    return "cpu" if device_type == "cpu" else f"{device_type}:{device_id}"


def _api_bc_check(func):
    """Lets older calls pass the storage by place."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        if len(args) != 2:
            return func(*args, **kwargs)
        warnings.warn(
            f"The argument order of {func.__name__} has been changed. "
            "Please check the document to avoid future breakages.", stacklevel=2,
        )
        names = inspect.signature(func).parameters
        storage = "storage_writer" if "storage_writer" in names else "storage_reader"
        if storage in kwargs:
            raise AssertionError(f"{storage} in kwargs: {(args, kwargs)}")
        return func(args[0], **{storage: args[1]}, **kwargs)

    return wrapper
