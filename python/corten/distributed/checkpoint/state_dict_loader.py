"""Loading into what several processes hold together."""

from __future__ import annotations

import logging
import warnings

from ._storage_utils import _storage_setup
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .state_dict_saver import _alone, _takes_kwargs
from .stateful import Stateful
from .utils import _api_bc_check, _DistWrapper

logger = logging.getLogger(__name__)

__all__ = ["load_state_dict", "load"]


def load_state_dict(
    state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None
):
    """The older name of :func:`load`."""
    warnings.warn(
        "'load_state_dict' is deprecated and will be removed in future versions. "
        "Please use 'load' instead.", FutureWarning, stacklevel=2,
    )
    storage_reader.reset()
    return _load_state_dict(
        state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner
    )


@_api_bc_check
def load(
    state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None,
    no_dist=False,
):
    """Loads a checkpoint into a dictionary: tensors in place, other values instead of those that are there.

    Each process reads what its parts of tensors need, whatever the number of processes that saved them.

    Args:
        state_dict: The dictionary, with keys of the checkpoint.
        checkpoint_id: Where, as the storage understands it: a folder, or a URL of ``fsspec``.
        storage_reader: Who reads; by default who understands ``checkpoint_id``.
        planner: Who decides what is read; by default :class:`DefaultLoadPlanner`.
        process_group: The processes; by default all.
        no_dist: This process loads alone.

    Raises:
        CheckpointException: It failed in a process, which the exception names.
        RuntimeError: No storage is given, nor a name for which there is one.
    """
    no_dist = _alone(no_dist, "load")
    reader = _storage_setup(storage_reader, checkpoint_id, reader=True)
    values = {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in sorted(state_dict.items())
    }
    _load_state_dict(values, reader, process_group, no_dist=no_dist, planner=planner)
    for key, value in values.items():
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(value)
        else:
            state_dict[key] = value


def _read_metadata(reader, rank):
    """The metadata of the checkpoint and whether they are those of all processes."""
    try:
        return reader.read_metadata(), True
    except Exception as error:  # noqa: BLE001
        reasons = [f"global metadata read failed: {error}"]
        logger.warning("Global metadata is not found. Falling back to rank local metadata.", exc_info=True)
    if _takes_kwargs(reader.read_metadata):
        try:
            return reader.read_metadata(rank=rank), False
        except Exception as error:  # noqa: BLE001
            reasons.append(f"rank local metadata read failed: {error}")
            logger.warning("Rank local metadata is not found.", exc_info=True)
    raise AssertionError("; ".join(["metadata is None", *reasons]))


def _load_state_dict(
    state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None
):
    processes = _DistWrapper(process_group, not no_dist, coordinator_rank)
    planner = DefaultLoadPlanner() if planner is None else planner
    together = True

    def plan_here():
        nonlocal together
        metadata, together = _read_metadata(storage_reader, processes.rank)
        planner.set_up_planner(state_dict, metadata, processes.is_coordinator)
        if _takes_kwargs(storage_reader.set_up_storage_reader):
            storage_reader.set_up_storage_reader(
                metadata, processes.is_coordinator, rank=processes.rank, use_collectives=together
            )
        else:
            storage_reader.set_up_storage_reader(metadata, processes.is_coordinator)
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def plan_all(plans):
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    plan = processes.reduce_scatter("plan", plan_here, plan_all)

    def read():
        storage_reader.read_data(planner.finish_plan(plan), planner).wait()

    processes.all_gather("read", read)


def _load_state_dict_from_keys(
    keys=None, *, checkpoint_id=None, storage_reader=None, process_group=None
):
    """A new dictionary with what a checkpoint has at or under ``keys``, or with all of it, whole in this
    process."""
    no_dist = _alone(False, "load")
    state_dict: dict = {}
    _load_state_dict(
        state_dict, _storage_setup(storage_reader, checkpoint_id, reader=True), process_group,
        no_dist=no_dist, planner=_EmptyStateDictLoadPlanner({keys} if isinstance(keys, str) else keys),
    )
    return state_dict
