"""Schedules of schedules."""

from __future__ import annotations

import warnings
from bisect import bisect_right

from .base import LRScheduler, set_setting
from .plateau import ReduceLROnPlateau


class SequentialLR(LRScheduler):
    """One schedule after another, changing at the milestones."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{type(self).__name__} at index {i} should have `optimizer` as its attribute."
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{type(self).__name__} does not support `ReduceLROnPlateau` scheduler as it "
                    f"requires additional kwargs to be specified when calling `step`, but got one "
                    f"at index {i} in the given schedulers sequence."
                )
            if optimizer is not scheduler.optimizer:
                raise ValueError(
                    f"{type(self).__name__} expects all schedulers to belong to the same "
                    f"optimizer, but got scheduler {type(scheduler).__name__} at index {i} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            set_setting(group, "lr", group["initial_lr"])
        if last_epoch == -1:
            self.recursive_undo()
        else:
            _rewind(self)
        self._initial_step()
        # Which schedule has come how far follows from the epochs alone.
        for _ in range(last_epoch + 1):
            self.step()

    def _initial_step(self):
        self.last_epoch = 0
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched=None):
        """Takes back the epoch that each schedule began with."""
        scheduler = self if sched is None else sched
        if not hasattr(scheduler, "_schedulers"):
            scheduler.last_epoch -= 1
            return
        for part in scheduler._schedulers:
            self.recursive_undo(part)

    def step(self):
        """Goes on by one epoch in the schedule whose turn it is."""
        self.last_epoch += 1
        at = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            _restart(scheduler)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self):
        """Own fields and those of the schedules."""
        return _nested_state(self)

    def load_state_dict(self, state_dict):
        """Takes back what :meth:`state_dict` gave."""
        _load_nested_state(self, state_dict)


def _restart(scheduler):
    """Epoch 0 of a schedule, set without the warning about epochs."""
    if hasattr(scheduler, "_schedulers"):
        for group in scheduler.optimizer.param_groups:
            set_setting(group, "lr", group["initial_lr"])
        _rewind(scheduler)
        scheduler._initial_step()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler.step(0)


def _rewind(scheduler):
    """Takes back all epochs."""
    scheduler.last_epoch = -1
    for part in getattr(scheduler, "_schedulers", ()):
        _rewind(part)


def _nested_state(chain):
    state = {k: v for k, v in chain.__dict__.items() if k not in ("optimizer", "_schedulers")}
    state["_schedulers"] = [scheduler.state_dict() for scheduler in chain._schedulers]
    return state


def _load_nested_state(chain, state_dict):
    parts = state_dict["_schedulers"]
    chain.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
    for scheduler, state in zip(chain._schedulers, parts):
        scheduler.load_state_dict(state)


class ChainedScheduler(LRScheduler):
    """Several schedules at once."""

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{type(self).__name__} at index {i} should have `optimizer` as its attribute."
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{type(self).__name__} does not support `ReduceLROnPlateau` scheduler as it "
                    "requires additional kwargs to be specified when calling `step`, but got one "
                    f"at index {i} in the given schedulers sequence."
                )
            if optimizer is not scheduler.optimizer:
                raise ValueError(
                    f"{type(self).__name__} expects all schedulers to belong to the same "
                    f"optimizer, but got scheduler {type(scheduler).__name__} at index {i} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = self._rates()

    def _initial_step(self):
        for scheduler in self._schedulers:
            scheduler._initial_step()
        self._last_lr = self._rates()

    def step(self):
        """Goes on by one epoch in all schedules."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()

    def state_dict(self):
        """Own fields and those of the schedules."""
        return _nested_state(self)

    def load_state_dict(self, state_dict):
        """Takes back what :meth:`state_dict` gave."""
        _load_nested_state(self, state_dict)
