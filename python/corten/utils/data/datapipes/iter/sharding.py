"""The part of the samples that one of several processes reads."""

from __future__ import annotations

import itertools
from enum import IntEnum

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """Among what the samples are divided: first among machines, then among their processes."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe):
    def apply_sharding(self, num_of_instances, instance_id, sharding_group):
        """Says which part is meant."""
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th sample, where n is the number of processes. Loaders say which."""

    def __init__(self, source_datapipe, sharding_group_filter=None):
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT
    ):
        """Says that this is number ``instance_id`` of ``num_of_instances``."""
        if instance_id >= num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than num_of_instances"
                f"({num_of_instances})"
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = num_of_instances, instance_id
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                count, place = self.groups[group]
                self.instance_id += self.num_of_instances * place
                self.num_of_instances *= count

    def __iter__(self):
        yield from itertools.islice(
            self.source_datapipe, self.instance_id, None, self.num_of_instances
        )

    def __len__(self):
        full, rest = divmod(self._length_of(self.source_datapipe)[0], self.num_of_instances)
        return full + (self.instance_id < rest)
