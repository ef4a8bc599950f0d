"""One part of the samples for each of several processes."""

from __future__ import annotations

import math

import corten

from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every ``num_replicas``-th index from ``rank`` on, of an order that ``set_epoch`` changes."""

    def __init__(
        self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False
    ):
        if num_replicas is None or rank is None:
            distributed = getattr(corten, "distributed", None)
            if distributed is None or not distributed.is_available():
                raise RuntimeError("Requires distributed package to be available")
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        whole = len(dataset)
        if drop_last and whole % num_replicas != 0:
            self.num_samples = math.ceil((whole - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(whole / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self):
        if self.shuffle:
            generator = corten.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = corten.randperm(len(self.dataset), generator=generator).tolist()
        else:
            order = list(range(len(self.dataset)))
        if self.drop_last:
            order = order[: self.total_size]
        else:
            missing = self.total_size - len(order)
            order += (order * math.ceil(missing / len(order)))[:missing]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Changes the order."""
        self.epoch = epoch
