"""Tests that run on ranks that are threads."""

from corten.testing._internal.distributed.multi_threaded_pg import run_threads


def ranks(world_size):
    """Has a test run on every rank."""

    def decorate(test):
        def on_ranks(self):
            run_threads(world_size, test, self, timeout=30)

        return on_ranks

    return decorate
