"""Tests whose ranks are threads."""

from __future__ import annotations

import functools
import unittest

from corten.distributed import distributed_c10d as c10d
from corten.testing._internal.distributed.multi_threaded_pg import run_threads, threads_as_ranks

__all__ = ["DEFAULT_WORLD_SIZE", "MultiThreadedTestCase", "run_threads", "spawn_threads_and_init_comms", "threads_as_ranks"]

DEFAULT_WORLD_SIZE = 4


class MultiThreadedTestCase(unittest.TestCase):
    """A test case each of whose tests runs on every rank. ``self.rank`` says which one a thread is."""

    @property
    def world_size(self):
        """How many ranks there are."""
        return DEFAULT_WORLD_SIZE

    @property
    def rank(self):
        """The rank of the calling thread."""
        return c10d.get_rank()

    def _callTestMethod(self, method):  # noqa: N802
        run_threads(self.world_size, method)


def spawn_threads_and_init_comms(func=None, timeout=60, world_size=DEFAULT_WORLD_SIZE):
    """Makes a test run on every rank: as a decorator, of methods ``test(self, ...)``."""
    if func is None:
        return functools.partial(spawn_threads_and_init_comms, timeout=timeout, world_size=world_size)

    @functools.wraps(func)
    def wrapper(self, *args, **kwargs):
        run_threads(world_size, lambda: func(self, *args, **kwargs), timeout=timeout)

    return wrapper
