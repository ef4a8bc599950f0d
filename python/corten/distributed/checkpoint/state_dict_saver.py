"""Saving what several processes hold together."""

from __future__ import annotations

import inspect
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum

import corten
import corten.distributed as dist

from ._async_thread_executor import _ThreadBasedAsyncCheckpointExecutor
from ._storage_utils import _storage_setup
from .default_planner import DefaultSavePlanner
from .staging import AsyncStager, DefaultStager, StagingOptions
from .stateful import Stateful
from .utils import _api_bc_check, _DistWrapper

__all__ = [
    "save_state_dict", "save", "async_save", "AsyncCheckpointerType", "AsyncSaveResponse",
]


class AsyncCheckpointerType(Enum):
    """Where :func:`async_save` saves."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Futures of :func:`async_save`: of the copy, and of the checkpoint."""

    staging_completion: Future
    upload_completion: Future


def save_state_dict(
    state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None
):
    """The older name of :func:`save`."""
    warnings.warn(
        "'save_state_dict' is deprecated and will be removed in future versions."
        "Please use 'save' instead.", FutureWarning, stacklevel=2,
    )
    storage_writer.reset()
    return _save_state_dict(
        state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner
    )


def _alone(no_dist, purpose):
    """Whether this process acts for itself; where nobody said so there is a warning."""
    if no_dist or (dist.is_available() and dist.is_initialized()):
        return no_dist
    warnings.warn(
        "torch.distributed is disabled, unavailable or uninitialized, "
        f"assuming the intent is to {purpose} in a single process.", stacklevel=3,
    )
    return True


@_api_bc_check
def save(
    state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
    no_dist=False, use_collectives=True,
):
    """Saves a dictionary, each process the parts that it holds; all processes of the group call this.

    Values may be tensors, ``DTensor``, nested dictionaries and lists of them, objects with ``state_dict``
    and ``load_state_dict`` (whose state is saved), and whatever can be pickled.

    Args:
        state_dict: The dictionary, with the same keys in every process.
        checkpoint_id: Where, as the storage understands it: a folder, or a URL of ``fsspec``.
        storage_writer: Who writes; by default who understands ``checkpoint_id``.
        planner: Who decides what is written by whom; by default :class:`DefaultSavePlanner`.
        process_group: The processes; by default all.
        no_dist: This process saves alone.
        use_collectives: If false, processes do not talk, and each writes metadata of its own.

    Returns:
        The :class:`Metadata` of the checkpoint.

    Raises:
        CheckpointException: It failed in a process, which the exception names.
        RuntimeError: No storage is given, nor a name for which there is one.
    """
    no_dist = _alone(no_dist, "save")
    return _save_state_dict(
        _stateful_to_state_dict(state_dict), _storage_setup(storage_writer, checkpoint_id),
        process_group, no_dist=no_dist, planner=planner, use_collectives=use_collectives,
    )


def async_save(
    state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
    async_checkpointer_type=AsyncCheckpointerType.THREAD, async_stager=None, no_dist=False,
    use_collectives=True,
):
    """Copies a dictionary and saves the copy in a thread; see :func:`save`.

    Args:
        async_checkpointer_type: ``THREAD``.
        async_stager: Who copies; by default the storage, if it can, or :class:`DefaultStager`.

    Returns:
        A future of the metadata, or, where the copy is made in the background, too,
        :class:`AsyncSaveResponse`.

    Raises:
        NotImplementedError: ``async_checkpointer_type`` is ``PROCESS``.
        AssertionError: The group has no back end for the CPU.
    """
    if async_checkpointer_type != AsyncCheckpointerType.THREAD:
        raise NotImplementedError(
            "async_save: async_checkpointer_type must be AsyncCheckpointerType.THREAD, "
            f"got {async_checkpointer_type}"
        )
    if dist.is_available() and dist.is_initialized():
        group = process_group or dist.distributed_c10d._get_default_group()
        if corten.device("cpu") not in group._device_types:
            raise AssertionError(
                "A CPU backend must be enabled for async save; try initializing process group with "
                "'cpu:gloo,cuda:nccl'"
            )
    owned = None
    if async_stager is None:
        if isinstance(storage_writer, AsyncStager):
            async_stager = storage_writer
        else:
            async_stager = owned = DefaultStager(StagingOptions(False, False, False, False))
    staged = async_stager.stage(_stateful_to_state_dict(state_dict))
    upload = _ThreadBasedAsyncCheckpointExecutor().execute_save(
        staged, checkpoint_id=checkpoint_id, storage_writer=storage_writer, planner=planner,
        process_group=process_group, no_dist=no_dist, use_collectives=use_collectives,
    )
    if owned is not None:
        owned.close()
    if isinstance(staged, Future):
        return AsyncSaveResponse(_completion_of(staged), upload)
    if async_stager.should_synchronize_after_execute:
        async_stager.synchronize_staging()
    return upload


def _completion_of(future):
    """A future of nothing that is complete when another is."""
    completion: Future = Future()

    def complete(done):
        error = done.exception()
        if error is None:
            completion.set_result(None)
        else:
            completion.set_exception(error)

    future.add_done_callback(complete)
    return completion


def _stateful_to_state_dict(state_dict):
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


def _takes_kwargs(function):
    return "kwargs" in inspect.signature(function).parameters


def _save_state_dict(
    state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None,
    use_collectives=True,
):
    processes = _DistWrapper(process_group, not no_dist, coordinator_rank)
    planner = DefaultSavePlanner() if planner is None else planner
    metadata = None

    def plan_here():
        _set_up(planner, storage_writer, state_dict, processes, use_collectives)
        return storage_writer.prepare_local_plan(planner.create_local_plan())

    def plan_all(plans):
        nonlocal metadata
        plans, metadata = planner.create_global_plan(plans)
        return storage_writer.prepare_global_plan(plans)

    def write():
        written = storage_writer.write_data(planner.finish_plan(plan), planner)
        written.wait()
        return written.value()

    def finish(results):
        storage_writer.finish(metadata=metadata, results=results)
        return metadata

    if use_collectives:
        plan = processes.reduce_scatter("plan", plan_here, plan_all)
        return processes.all_reduce("write", write, finish)
    plan = plan_all([plan_here()])[0]
    finish([write()])
    processes.barrier()
    return metadata


def _set_up(planner, writer, state_dict, processes, use_collectives):
    if "storage_meta" in inspect.signature(planner.set_up_planner).parameters:
        planner.set_up_planner(
            state_dict=state_dict, storage_meta=writer.storage_meta(),
            is_coordinator=processes.is_coordinator,
        )
    else:
        warnings.warn(
            "SavePlanner.set_up_planner now takes the argument storage_meta. Please update your "
            "implementation to include this parameter.", stacklevel=2,
        )
        planner.set_up_planner(state_dict, processes.is_coordinator)
    if _takes_kwargs(writer.set_up_storage_writer):
        writer.set_up_storage_writer(
            processes.is_coordinator, rank=processes.rank, use_collectives=use_collectives
        )
    else:
        writer.set_up_storage_writer(processes.is_coordinator)
