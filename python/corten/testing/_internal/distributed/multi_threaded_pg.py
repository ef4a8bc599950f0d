"""Ranks as threads of one process: programs of several ranks without starting processes.

Each thread has its own default group, groups and registry of names. Their collectives run in memory, under
the back end ``threaded``.
"""

from __future__ import annotations

import contextlib
import threading
import traceback

from corten._C import _distributed_c10d as native
from corten.distributed import distributed_c10d as c10d

__all__ = ["run_threads", "threads_as_ranks"]


def _create(store, rank, size, timeout):
    return native.ProcessGroupThreads(store, rank, size, timeout)


@contextlib.contextmanager
def threads_as_ranks():
    """Within the block each thread is a rank of its own."""
    if "THREADED" not in c10d.Backend._plugins:
        c10d.Backend.register_backend("threaded", _create, devices=["cpu"])
        c10d.Backend.default_device_backend_map["cpu"] = c10d.Backend.GLOO
    c10d._world.isolate_threads(True)
    try:
        yield
    finally:
        c10d._world.isolate_threads(False)


class _Rank(threading.Thread):
    """One rank, with what it gave or raised."""

    def __init__(self, rank, world_size, store, function, args):
        super().__init__(name=f"rank {rank}", daemon=True)
        self.rank, self.world_size, self.store = rank, world_size, store
        self.function, self.args = function, args
        self.value = self.error = None

    def run(self):
        """Joins the others, calls the function and leaves them."""
        try:
            c10d.init_process_group("threaded", rank=self.rank, world_size=self.world_size, store=self.store)
            self.value = self.function(*self.args)
        except BaseException as error:  # noqa: BLE001
            self.error = error
            # The others would wait for this rank.
            with contextlib.suppress(Exception):
                c10d._abort_process_group()
        finally:
            if c10d.is_initialized():
                c10d.destroy_process_group()


def run_threads(world_size, function, *args, timeout=300):
    """Calls a function on so many ranks, each a thread with an initialised default group.

    Args:
        world_size: How many.
        function: What each rank calls, with ``args``.
        timeout: How long they may take, in seconds.

    Returns:
        The values of all ranks.

    Raises:
        RuntimeError: Some raised, or did not end in time; all are named.
    """
    with threads_as_ranks():
        store = native.HashStore()
        ranks = [_Rank(rank, world_size, store, function, args) for rank in range(world_size)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(timeout)
        failed = [_report(rank) for rank in ranks if rank.error is not None or rank.is_alive()]
    if failed:
        raise RuntimeError("\n".join(failed)) from next((rank.error for rank in ranks if rank.error), None)
    return [rank.value for rank in ranks]


def _report(rank):
    if rank.is_alive():
        return f"rank {rank.rank} did not end in time"
    return f"rank {rank.rank}: " + "".join(traceback.format_exception(rank.error))
