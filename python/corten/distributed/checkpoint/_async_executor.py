"""The interface of what saves in the background."""

from __future__ import annotations

import abc


class _AsyncCheckpointExecutor(abc.ABC):
    """Runs saves beside the program."""

    @abc.abstractmethod
    def execute_save(
        self, staging_future_or_state_dict, *, checkpoint_id=None, storage_writer=None, planner=None,
        process_group=None, no_dist=False, use_collectives=True,
    ):
        """A future of the metadata; what it saves is a copy, or a future of one."""
