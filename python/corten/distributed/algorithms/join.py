"""Training with different numbers of inputs: processes that have none left mirror the others' calls."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import NamedTuple

import corten
import corten.distributed as dist

__all__ = ["Join", "JoinHook", "Joinable"]

#: A process that mirrors more passes than these is told of.
_MANY = 1000


class JoinHook:
    """What a process without inputs does."""

    def main_hook(self):
        """Mirrors the collectives of one pass; called as long as another process has inputs."""

    def post_hook(self, is_last_joiner):
        """Called once, when no process has inputs left; one of those that had inputs longest is told."""


class Joinable(ABC):
    """What can take part in a :class:`Join`. Its class calls ``Joinable.__init__``."""

    @abstractmethod
    def __init__(self):
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs):
        """The :class:`JoinHook`; all members of a context get the same arguments."""

    @property
    @abstractmethod
    def join_device(self):
        """Where the context's own collectives run."""

    @property
    @abstractmethod
    def join_process_group(self):
        """The group of the context's own collectives."""


class _JoinConfig(NamedTuple):
    """What a context tells its members."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config():
        """That of a member outside of contexts."""
        return _JoinConfig(enable=False, throw_on_early_termination=False, is_first_joinable=False)


class Join:
    """A context in which processes may run out of inputs one after another.

    Args:
        joinables: The members; their hooks run in this order. All are in the same group.
        enable: Without it the context does nothing.
        throw_on_early_termination: All processes fail as soon as one has no inputs left.
        kwargs: Handed to every ``join_hook``.

    Raises:
        ValueError: There are no members, or their groups differ.
    """

    def __init__(self, joinables, enable=True, throw_on_early_termination=False, **kwargs):
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable = enable
        self._throw_on_early_termination = throw_on_early_termination
        for place, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, place == 0)
        group = joinables[0].join_process_group
        if any(joinable.join_process_group != group for joinable in joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self._process_group = group
        self._rank = dist.get_rank(group)
        self._device = joinables[0].join_device

    def __enter__(self):
        pass

    def __exit__(self, type, value, traceback):
        if not self._enable or type:
            return
        is_last_joiner = True
        passes = 0
        while self._get_num_nonjoined_procs() > 0:
            if self._throw_on_early_termination:
                self._notify_procs_to_terminate()
            if passes == _MANY + 1:
                warnings.warn(
                    f"Detected uneven input skew of greater than {_MANY}. This means that rank {self._rank} "
                    f"has at least {_MANY} fewer inputs than other currently-active ranks. This level of "
                    "skew could lead to performance degradation during training.",
                    stacklevel=2,
                )
            for hook in self._join_hooks:
                hook.main_hook()
            is_last_joiner = False
            passes += 1
        for hook in self._join_hooks:
            hook.post_hook(is_last_joiner)

    def _get_num_nonjoined_procs(self):
        """How many processes have inputs: mirrors :meth:`notify_join_context`."""
        number = corten.zeros(1, device=self._device)
        dist.all_reduce(number, group=self._process_group)
        return number.item()

    def _notify_procs_to_terminate(self):
        dist.all_reduce(corten.ones(1, device=self._device), group=self._process_group)
        raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable):
        """Tells the context that this process has inputs; a member calls it before a pass's collectives.

        Returns:
            The work that counts such processes, for the first member of a context; else None.

        Raises:
            RuntimeError: One process has no inputs left, and all are to fail then.
        """
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(
                f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor"
            )
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = dist.all_reduce(corten.ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = corten.zeros(1, device=device)
            dist.all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
