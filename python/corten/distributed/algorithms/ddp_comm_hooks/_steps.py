"""Futures whose last steps run on the thread that waits for them.

A hook of several rounds must not wait for its second one on the thread that ends the first: that thread ends the
second, too. The rounds of all buckets run in one order on every process: first rounds as the buckets fill up, later
ones when the reducer waits for the buckets, one after another.
"""

from __future__ import annotations

import corten


class Steps(corten.futures.Future):
    """The result of ``first`` (a future) handed through functions by whoever waits."""

    def __init__(self, first, *steps):
        super().__init__()
        self._first, self._steps = first, list(steps)

    def then(self, callback):
        """Another future, of ``callback(future)`` with this one done."""

        def call(value):
            done = corten.futures.Future()
            done.set_result(value)
            return callback(done)

        self._steps.append(call)
        return self

    def wait(self):
        """Runs the steps and gives the last one's value."""
        if not self.done():
            value = self._first.wait()
            try:
                for step in self._steps:
                    value = step(value)
            except Exception as error:
                self.set_exception(error)
            else:
                self.set_result(value)
        return super().wait()
