"""When parameters are averaged."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod

import corten.distributed as dist
from corten.distributed.algorithms.model_averaging import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """What averages parameters over a group; None is that of all processes."""

    def __init__(self, process_group=None):
        self.process_group = process_group if process_group is not None else dist.group.WORLD
        self.step = 0

    @abstractmethod
    def average_parameters(self, params):
        """Called after each step of the optimizer."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages after ``warmup_steps`` steps, every ``period`` steps.

    Raises:
        ValueError: A number is too small.
    """

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost of all-reducing "
                "parameters will be no less than the cost of all-reducing gradients by DistributedDataParallel in "
                "the backward pass. Therefore, only DistributedDataParallel should be used for this case.",
                stacklevel=2,
            )
        self.warmup_steps = warmup_steps
        self.period = period

    def average_parameters(self, params):
        """Averages if it is time; ``params`` are parameters or groups of an optimizer."""
        since = self.step - self.warmup_steps
        if since >= 0 and since % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
