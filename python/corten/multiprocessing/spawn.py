"""Several processes that run one function."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import weakref

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "spawn", "start_processes",
]


class ProcessException(Exception):
    """A process failed."""

    __slots__ = ("error_index", "error_pid")

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function of a process raised."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with an exit code."""

    __slots__ = ("exit_code", "signal_name")

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self):
        arguments = (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)
        return type(self), arguments


def _wrap(fn, i, args, error_file):
    """Runs the function; an exception is left in a file for the parent."""
    _die_with_parent()
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        return  # it ended before the system was asked
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted as well
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


def _die_with_parent():
    """Asks the system for SIGINT when the parent ends, where it can be asked."""
    import ctypes

    parent_death_signal = 1
    try:
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGINT)
    except (AttributeError, OSError):
        pass


class ProcessContext:
    """The processes that :func:`start_processes` started."""

    def __init__(self, processes, error_files):
        self.error_files = error_files
        self.processes = processes
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self):
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Waits for a process to end; true when all have. If one fails, the others are ended.

        Raises:
            ProcessRaisedException: The function raised.
            ProcessExitedException: A process ended otherwise.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(self.sentinels.keys(), timeout=timeout)
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._end_others(grace_period)
        self._raise(failed)

    def _end_others(self, grace_period):
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        end = time.monotonic() + (30 if grace_period is None else grace_period)
        for process in self.processes:
            process.join(timeout=max(0, end - time.monotonic()))
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _raise(self, index):
        process = self.processes[index]
        original = _error_in(self.error_files[index])
        if original is None:
            code = process.exitcode
            if code < 0:
                name = _signal_name(-code)
                raise ProcessExitedException(
                    f"process {index} terminated with signal {name}", index, process.pid, code, name
                )
            raise ProcessExitedException(
                f"process {index} terminated with exit code {code}", index, process.pid, code
            )
        message = f"\n\n-- Process {index} terminated with the following error:\n{original}"
        raise ProcessRaisedException(message, index, process.pid)


def _error_in(path):
    """The traceback that a process left; None if it left none, or was ended while it wrote."""
    try:
        with open(path, "rb") as file:
            return pickle.load(file)  # written by this program's own process
    except (OSError, EOFError, pickle.UnpicklingError):
        return None


def _signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"<Unknown signal {number}>"


class SpawnContext(ProcessContext):
    """The processes that :func:`spawn` started."""


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs ``fn(i, *args)`` in ``nprocs`` processes; with ``join`` waits until all have ended."""
    context = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    folder = tempfile.TemporaryDirectory(prefix="torch-processes-")
    try:
        for i in range(nprocs):
            path = os.path.join(folder.name, f"{i}.pickle")
            process = context.Process(target=_wrap, args=(fn, i, args, path), daemon=daemon)
            process.start()
            processes.append(process)
            error_files.append(path)
    except BaseException:
        ProcessContext(processes, error_files)._end_others(None)
        raise
    started = ProcessContext(processes, error_files)
    # The folder lives as long as the context; a finalizer removes it without a warning.
    weakref.finalize(started, folder.cleanup)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs ``fn(i, *args)`` in ``nprocs`` fresh processes.

    Raises:
        ProcessRaisedException: The function raised in a process.
        ProcessExitedException: A process ended otherwise.
    """
    if start_method != "spawn":
        import warnings

        warnings.warn(
            "This method only supports start_method=spawn (got: "
            f"{start_method}).\nTo use a different start_method use:\n\t\t "
            "torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
