"""The planners that are used where no other is given."""

from __future__ import annotations

import dataclasses
import io
import logging
import math
from collections import ChainMap

import corten

from . import _version
from ._dedup_save_plans import dedup_save_plans
from ._nested_dict import flatten_state_dict
from ._tensors import narrowed
from ._traverse import set_element
from .metadata import (
    BytesStorageMetadata, Metadata, STATE_DICT_TYPE, TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from .planner_helpers import (
    _compare_save_plans, _contains_usable_plan, _create_default_metadata_only_plan, _create_read_items,
    _create_write_items, _init_state_dict, _merge_delta_local_plans, _participates,
)
from .protocol import _is_checkpointable_tensor
from .resharding import _check_shard_metadata_pair_overlap
from .utils import find_state_dict_object, load_object

logger = logging.getLogger(__name__)

__all__ = [
    "DefaultSavePlanner", "DefaultLoadPlanner", "create_default_local_load_plan",
    "create_default_global_load_plan", "create_default_local_save_plan",
    "create_default_global_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Saves every value once: parts of ``DTensor`` where they are, what several processes have in the one that
    has least to write, or in the first with ``dedup_save_to_lowest_rank``.

    ``flatten_state_dict`` lets tensors of nested dictionaries and lists be saved each by itself.
    ``enable_plan_caching`` keeps plans between saves, so that processes send them only when they change.
    """

    def __init__(
        self, flatten_state_dict=True, flatten_sharded_tensors=True, dedup_replicated_tensors=None,
        dedup_save_to_lowest_rank=False, enable_plan_caching=False,
    ):
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.mappings = {}
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        if dedup_replicated_tensors is not None:
            logger.warning("DefaultSavePlanner: `dedup_replicated_tensors` is deprecated and has no effect.")
        self._cached_plans_key = type(self).__name__
        self._enable_plan_caching = enable_plan_caching
        self._pending_local_plan = None

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, storage_meta=None, is_coordinator=False):
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.is_coordinator = is_coordinator

    def create_local_plan(self):
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        if self._enable_plan_caching:
            last = SavePlanner._cached_save_plan.get(self._cached_plans_key)
            if last is not None and _compare_save_plans(plan, last):
                return SavePlan([], usable=False)
            # It is kept when the whole plan is known to be good.
            self._pending_local_plan = plan
        return plan

    def _dedup_save_plans(self, all_plans):
        return dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)

    def _create_global_plan(self, all_plans):
        plans, metadata = create_default_global_save_plan(self._dedup_save_plans(all_plans))
        if self.flatten_state_dict:
            mappings = dict(ChainMap(*(plan.planner_data for plan in plans)))
            metadata = dataclasses.replace(metadata, planner_data=mappings)
        errors = _validate_global_plan(plans, metadata)
        if errors:
            summary = "; ".join(errors)
            if len(summary) > 500:
                summary = summary[:500] + "... (truncated)"
            raise ValueError(f"Failed to validate global plan: {summary}")
        return plans, metadata

    def _create_global_plan_with_caching(self, all_plans):
        """What changed in the plans of the processes, the plans, and the metadata."""
        key, unchanged = self._cached_plans_key, SavePlan([], usable=False)
        known = SavePlanner._cached_all_plans.get(key)
        if known is not None and not _contains_usable_plan(all_plans):
            plans, metadata = SavePlanner._cached_global_plan[key], SavePlanner._cached_metadata[key]
            return [unchanged] * len(all_plans), plans, metadata
        merged = all_plans if known is None else _merge_delta_local_plans(known, all_plans)
        plans, metadata = self._create_global_plan(merged)
        changed = plans
        if known is not None:
            last = SavePlanner._cached_global_plan[key]
            changed = [
                unchanged if _compare_save_plans(old, new) else new for old, new in zip(last, plans)
            ]
        SavePlanner._cached_all_plans[key] = merged
        SavePlanner._cached_global_plan[key] = plans
        SavePlanner._cached_metadata[key] = metadata
        return changed, plans, metadata

    def create_global_plan(self, all_plans):
        if self._enable_plan_caching:
            sent, plans, metadata = self._create_global_plan_with_caching(all_plans)
        else:
            plans, metadata = self._create_global_plan(all_plans)
            sent = plans
        self.global_plan, self.metadata = plans, metadata
        return sent, metadata

    def finish_plan(self, new_plan):
        if self._enable_plan_caching:
            key = self._cached_plans_key
            if new_plan.usable:
                SavePlanner._cached_final_save_plan[key] = new_plan
            else:
                new_plan = SavePlanner._cached_final_save_plan[key]
            if self._pending_local_plan is not None:
                SavePlanner._cached_save_plan[key] = self._pending_local_plan
                self._pending_local_plan = None
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item):
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index):
        """The value, or part of one, that an index names; for subclasses to change."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item, object):
        """The value as it is written; for subclasses to change."""
        if write_item.type != WriteItemType.BYTE_IO:
            return object
        stream = io.BytesIO()
        corten.save(object, stream)
        return stream


class DefaultLoadPlanner(LoadPlanner):
    """Loads into the tensors of the dictionary, whatever the boxes in which they were saved.

    ``allow_partial_load`` lets keys of the dictionary be absent from the checkpoint.
    """

    def __init__(
        self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False
    ):
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.original_state_dict = {}
        self.mappings = {}
        self.allow_partial_load = allow_partial_load

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, metadata=None, is_coordinator=False):
        _init_state_dict(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self):
        if self.metadata is None:
            raise AssertionError("self.metadata is not None")
        if self.flatten_state_dict:
            self._take_older_keys()
        return create_default_local_load_plan(
            self.state_dict, self.metadata, not self.allow_partial_load
        )

    def _take_older_keys(self):
        """Flattens as checkpoints before PyTorch 2.4 are, where this one turns out to be so."""
        missing = set(self.metadata.state_dict_metadata) - set(self.state_dict)
        if not missing:
            return
        _version._derived_version = "2_3"
        try:
            older, mappings = flatten_state_dict(self.original_state_dict)
        finally:
            _version._derived_version = None
        if set(older) & missing:
            self.state_dict, self.mappings = older, mappings

    def create_global_plan(self, global_plan):
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan):
        return new_plan

    def load_bytes(self, read_item, value):
        key = read_item.dest_index.fqn
        loaded = load_object(value)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[key], loaded)
        else:
            self.state_dict[key] = loaded

    def resolve_tensor(self, read_item):
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item, tensor):
        """Nothing is left to do: what was written to is a view of the tensor."""

    def lookup_tensor(self, index):
        """The tensor that an index names; for subclasses to change."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item, tensor):
        """The part of the tensor that is read; for subclasses to change."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty dictionary with whatever the checkpoint has, or with what is at or under ``keys``."""

    def __init__(self, keys=None, *args, **kwargs):
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _should_include_key(self, key, metadata):
        if self.keys is None or key in self.keys:
            return True
        path = (metadata.planner_data or {}).get(key) or ()
        return any(".".join(map(str, path[:i])) in self.keys for i in range(1, len(path) + 1))

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, metadata=None, is_coordinator=False):
        if state_dict:
            raise AssertionError("not state_dict")
        if metadata is None:
            raise AssertionError("metadata is not None")
        for key, value in metadata.state_dict_metadata.items():
            if not self._should_include_key(key, metadata):
                continue
            if isinstance(value, TensorStorageMetadata):
                value = corten.empty(value.size, dtype=value.properties.dtype)
            if metadata.planner_data is not None and key in metadata.planner_data:
                set_element(state_dict, metadata.planner_data[key], value)
            else:
                state_dict[key] = value
        super().set_up_planner(state_dict, metadata, is_coordinator)


def create_default_local_load_plan(state_dict, metadata, strict=True):
    """The reads that fill the values of ``state_dict``.

    Raises:
        RuntimeError: A key is not in the checkpoint, and ``strict`` is true.
        ValueError: A tensor has another shape than the one that was saved.
    """
    requests = []
    for fqn, value in state_dict.items():
        saved = metadata.state_dict_metadata.get(fqn)
        if saved is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        if isinstance(saved, TensorStorageMetadata) and getattr(value, "size", None) is not None:
            size = value.size()
            if _is_checkpointable_tensor(value):
                size = corten.Size(value.global_shape)
            if saved.size != size:
                raise ValueError(
                    f"Size mismatch between saved {saved.size} and current: {size} for {fqn}"
                )
        if _participates(value):
            requests += _create_read_items(fqn, saved, value)
    return LoadPlan(requests)


def create_default_global_load_plan(all_plans):
    """The plans as they are: reading needs no agreement."""
    return all_plans


def create_default_local_save_plan(state_dict, is_coordinator):
    """The writes of all values of this process, also of those that others have too."""
    return SavePlan([
        item for fqn, value in state_dict.items() if _participates(value)
        for item in _create_write_items(fqn, value)
    ])


def create_default_global_save_plan(all_plans, rewrite_index_hints=True):
    """The plans, whose indices say with ``rewrite_index_hints`` which box of its tensor each is, and the
    metadata of all that they write."""
    saved: dict = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            fqn, data = item.index.fqn, item.tensor_data
            if item.type != WriteItemType.SHARD and fqn in saved:
                raise AssertionError(f"{fqn} is written more than once")
            if item.type == WriteItemType.BYTE_IO:
                saved[fqn] = BytesStorageMetadata()
            else:
                whole = saved.setdefault(fqn, TensorStorageMetadata(data.properties, data.size, []))
                if rewrite_index_hints:
                    index = dataclasses.replace(item.index, index=len(whole.chunks))
                    item = dataclasses.replace(item, index=index)
                whole.chunks.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(saved)


def _create_default_local_metadata(state_dict):
    """The metadata that a save of ``state_dict`` by this process alone would have."""
    return create_default_global_save_plan([_create_default_metadata_only_plan(state_dict)])[1]


def _check_box_overlap(box0, box1):
    return _check_shard_metadata_pair_overlap(box0, box1)


def _check_box_bounds(outer_box_size, inner_box):
    """Whether a box lies in a tensor of the shape ``outer_box_size``."""
    return all(
        offset >= 0 and size >= 0 and offset + size <= extent
        for offset, size, extent in zip(inner_box.offsets, inner_box.sizes, outer_box_size)
    )


def _overlapping(chunks, ndim):
    """The pairs of boxes that overlap; they are compared in the order in which they begin in the dimension
    with most beginnings."""
    dim = max(range(ndim), key=lambda d: len({chunk.offsets[d] for chunk in chunks}))
    active: list = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.offsets[dim]):
        begin = chunk.offsets[dim]
        active = [other for other in active if other.offsets[dim] + other.sizes[dim] > begin]
        for other in active:
            if _check_box_overlap(chunk, other):
                yield chunk, other
        active.append(chunk)


def _validate_global_plan(global_plan, metadata):
    """What is wrong with the boxes of the tensors; an empty list if nothing is."""
    errors = []
    for key, value in metadata.state_dict_metadata.items():
        if isinstance(value, BytesStorageMetadata) or not value.size:
            continue
        for chunk in value.chunks:
            if not _check_box_bounds(value.size, chunk):
                errors.append(
                    f"key:{key} has out of bounds chunk: tensor-size:{value.size} chunk: {chunk}"
                )
        for chunk, other in _overlapping(value.chunks, len(value.size)):
            errors.append(f"key:{key} has overlapping chunks: {chunk} {other}")
        volume = math.prod(value.size)
        filled = sum(math.prod(chunk.sizes) for chunk in value.chunks)
        if len(global_plan) > 1 and filled != volume:
            errors.append(
                f"key:{key} invalid fill tensor-volume: {volume} chunks-volume: {filled}"
            )
    for message in errors:
        logger.warning(message)
    return errors
