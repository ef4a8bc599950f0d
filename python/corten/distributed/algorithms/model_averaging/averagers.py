"""When parameters are averaged."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod

from corten.distributed import distributed_c10d as dist
from corten.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Averages parameters over a group; ``step`` counts the calls."""

    def __init__(self, process_group=None):
        self.process_group = dist._group_or_default_group(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params):
        """Averages parameters if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Averages in every ``period``-th step from the step ``warmup_steps`` on.

    Raises:
        ValueError: ``period`` is not positive or ``warmup_steps`` negative.
    """

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost of "
                "all-reducing parameters will be no less than the cost of all-reducing gradients by "
                "DistributedDataParallel in the backward pass. Therefore, only DistributedDataParallel should "
                "be used for this case.",
                stacklevel=2,
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params):
        """Averages the parameters with gradients, of a model or of an optimizer's groups, if it is time."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
