"""Works: calls on their way."""

from __future__ import annotations

from datetime import timedelta

from corten import _C

from ._enums import _DEFAULT_NO_TIMEOUT, _UNSET_TIMEOUT, OpType, WorkResult
from ._options import seconds


class Work:
    """A call that was started. Classes of programs may derive from it and give the methods."""

    _handle = None
    _outputs = ()
    _op_type = OpType.UNKNOWN
    _future = None

    def __init__(self):
        pass

    @classmethod
    def _of(cls, handle, outputs, op_type):
        made = cls.__new__(cls)
        made._handle, made._outputs, made._op_type = handle, outputs, op_type
        return made

    def _native(self, name):
        if self._handle is None:
            raise RuntimeError(f'Tried to call pure virtual function "Work::{name}"')
        return self._handle

    def wait(self, timeout=_DEFAULT_NO_TIMEOUT):
        """Waits until the call is done. Calls of devices with streams make the current stream wait.

        Args:
            timeout: How long, from now on; the time of the group, from the start of the call, without one.

        Raises:
            DistBackendError: It failed, or took too long.
        """
        self._native("wait").wait(seconds(timeout))
        return True

    def synchronize(self):
        """Makes the current stream wait."""
        self._native("synchronize").block_current_stream()

    def block_current_stream(self):
        """Makes the current stream wait, and not the thread."""
        self._native("block_current_stream").block_current_stream()

    def is_completed(self):
        """Whether the call has ended."""
        return self._native("is_completed").is_completed()

    def is_success(self):
        """Whether it has ended well."""
        return self._native("is_success").is_success()

    def exception(self):
        """The exception that it has ended with."""
        return self._native("exception").exception()

    def source_rank(self):
        """Who has sent what was received."""
        return self._native("source_rank").source_rank()

    _source_rank = source_rank

    def result(self):
        """The tensors that it wrote."""
        return list(self._outputs)

    def get_future(self):
        """The future of the tensors."""
        if self._future is None:
            from corten.futures import Future

            future, outputs = Future(), list(self._outputs)

            def end(error):
                if error is None:
                    future.set_result(outputs)
                else:
                    future.set_exception(error)

            self._native("get_future").on_end(end)
            self._future = future
        return self._future

    def get_future_result(self):
        """The future of how it ends."""
        from corten.futures import Future

        future = Future()

        def end(error):
            future.set_result(int(WorkResult.SUCCESS if error is None else WorkResult.COMM_ERROR))

        self._native("get_future_result").on_end(end)
        return future

    def _get_op_type(self):
        return self._op_type

    def _get_duration(self):
        return self._native("_get_duration").age * 1000.0

    def _get_sequence_number(self):
        return self._native("_get_sequence_number").sequence

    @property
    def timeout(self):
        """How long it may take."""
        time = self._native("timeout").timeout
        return _UNSET_TIMEOUT if time is None else timedelta(seconds=time)


class FakeWork(Work):
    """Work of groups that do not talk: done at once."""

    def __init__(self, outputs=()):
        self.seq_id = -1
        self._outputs = tuple(outputs)

    def wait(self, timeout=_DEFAULT_NO_TIMEOUT):
        """It is done."""
        return True

    def synchronize(self):
        """It is done."""

    block_current_stream = synchronize

    def is_completed(self):
        """It is done."""
        return True

    def is_success(self):
        """It is done."""
        return True

    def exception(self):
        """None."""

    def result(self):
        """The tensors that it has."""
        if not self._outputs:
            raise RuntimeError("FakeWork: this work recorded no output.")
        return list(self._outputs)

    def get_future(self):
        """The future, which is there."""
        from corten.futures import Future

        future = Future()
        future.set_result(list(self._outputs) or None)
        return future

    getFuture = get_future


class PythonCallbackWork(Work):
    """Work that a function waits for.

    Args:
        callback: Called with the time to wait; whether the work is done well.
    """

    def __init__(self, callback):
        self._callback = callback

    def wait(self, timeout=_DEFAULT_NO_TIMEOUT):
        """Asks the function."""
        return self._callback(timeout)

    def get_future(self):
        """A future that is there when the function has been asked."""
        from corten.futures import Future

        if self._future is None:
            self._future = Future()
            try:
                self._future.set_result(self.wait())
            except Exception as error:
                self._future.set_exception(error)
        return self._future


class _FutureWork(Work):
    """Work that is done when a future is."""

    def __init__(self, future):
        self._future = future

    def wait(self, timeout=_DEFAULT_NO_TIMEOUT):
        """Waits for the future."""
        self._future.wait()
        return True

    def synchronize(self):
        """Waits for the future."""
        self._future.wait()

    block_current_stream = synchronize

    def is_completed(self):
        """Whether the future is there."""
        return self._future.done()

    def is_success(self):
        """Whether the future has a value."""
        return self._future.done() and self.exception() is None

    def exception(self):
        """The exception of the future."""
        if not self._future.done():
            return None
        try:
            self._future.value()
        except Exception as error:
            return error
        return None

    def result(self):
        """The future's value as a list."""
        value = self._future.value()
        return list(value) if isinstance(value, (list, tuple)) else [value]


def _create_work_from_future(future):
    """The work that is done when a future is."""
    return _FutureWork(future)


def done(outputs):
    """Work that is done."""
    return Work._of(_C._dist_done_work(list(outputs)), tuple(outputs), OpType.UNKNOWN)
