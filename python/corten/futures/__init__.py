"""Values that are still being computed."""

from __future__ import annotations

import threading
import typing

__all__ = ["Future", "collect_all", "wait_all"]


T = typing.TypeVar("T")


class Future(typing.Generic[T]):
    """A value, or an error, that is set once and may be waited for from any thread."""

    def __init__(self, *, devices=None):
        self._condition = threading.Condition()
        self._completed, self._value, self._error = False, None, None
        self._callbacks = []

    def done(self):
        """Whether the value or an error is set."""
        return self._completed

    def wait(self):
        """The value, as soon as it is there; raises the error."""
        with self._condition:
            self._condition.wait_for(lambda: self._completed)
        return self.value()

    def value(self):
        """The value, which must be there; raises the error."""
        if not self._completed:
            raise RuntimeError("value() called on a future that is not completed")
        if self._error is not None:
            raise self._error
        return self._value

    def _complete(self, value, error):
        with self._condition:
            if self._completed:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once."
                )
            self._completed, self._value, self._error = True, value, error
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            callback(self)

    def set_result(self, result):
        """Sets the value."""
        self._complete(result, None)

    def set_exception(self, result):
        """Sets the error."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def add_done_callback(self, callback):
        """Calls ``callback(self)`` when the value is there; its errors are printed."""

        def guarded(future):
            try:
                callback(future)
            except Exception:
                import traceback

                traceback.print_exc()

        self._when_done(guarded)

    def _when_done(self, callback):
        with self._condition:
            if not self._completed:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback):
        """The future of ``callback(self)``."""
        result = Future()

        def follow(future):
            try:
                result.set_result(callback(future))
            except Exception as error:
                result.set_exception(error)

        self._when_done(follow)
        return result


def collect_all(futures):
    """The future of the list, completed when all of them are."""
    futures = list(futures)
    result = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one_less(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            result.set_result(futures)

    if not futures:
        result.set_result(futures)
    for future in futures:
        future._when_done(one_less)
    return result


def wait_all(futures):
    """The values, as soon as all are there; raises the first error."""
    return [future.wait() for future in collect_all(futures).wait()]
