"""Saving in a thread."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from ._async_executor import _AsyncCheckpointExecutor


def save_wrapper(staging_future_or_state_dict, **arguments):
    """Saves when the copy is complete."""
    from .state_dict_saver import save

    staged = staging_future_or_state_dict
    return save(staged.result() if isinstance(staged, Future) else staged, **arguments)


class _ThreadBasedAsyncCheckpointExecutor(_AsyncCheckpointExecutor):
    def __init__(self):
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="AsyncCheckpointExecutor")

    def execute_save(
        self, staging_future_or_state_dict, *, checkpoint_id=None, storage_writer=None, planner=None,
        process_group=None, no_dist=False, use_collectives=True,
    ):
        future = self._executor.submit(
            save_wrapper, staging_future_or_state_dict, checkpoint_id=checkpoint_id,
            storage_writer=storage_writer, planner=planner, process_group=process_group,
            no_dist=no_dist, use_collectives=use_collectives,
        )
        future.add_done_callback(lambda _: self._executor.shutdown(wait=False))
        return future
