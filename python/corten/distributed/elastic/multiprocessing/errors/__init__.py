"""What failed processes leave, and how it is told.

A process that :func:`record` wraps writes its exception to the file that ``TORCHELASTIC_ERROR_FILE`` names;
its parent reads it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import signal
import socket
import time
from datetime import datetime

from corten.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler

__all__ = ["ProcessFailure", "ChildFailedError", "record", "ErrorHandler", "get_error_handler"]

_NOT_AVAILABLE = "<N/A>"
_NO_TRACEBACK = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"


def get_error_handler():
    """What :func:`record` tells exceptions to."""
    return ErrorHandler()


@dataclasses.dataclass
class ProcessFailure:
    """A process that failed, with what its error file says.

    Args:
        local_rank: Its rank on its machine.
        pid: Its number.
        exitcode: How it ended; a signal is negative.
        error_file: Where it may have left an error.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict = dataclasses.field(init=False)
    message: object = dataclasses.field(init=False)
    timestamp: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.error_file_data = {"message": "<NONE>"}
        self.message, self.timestamp = "", int(time.time())
        data = _error_in(self.error_file)
        if data is None:
            self.error_file = _NOT_AVAILABLE
        else:
            self.error_file_data = data
            self.message = data.get("message", "")
            source = data if isinstance(self.message, str) else self.message.get("extraInfo", {})
            self.timestamp = int(source.get("timestamp", self.timestamp))
        if not self.message:
            self.message = _NO_TRACEBACK
            if self.exitcode < 0:
                self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"

    def signal_name(self):
        """The name of the signal that ended it, or ``<N/A>``."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else _NOT_AVAILABLE
        except ValueError:
            return _NOT_AVAILABLE

    def timestamp_isoformat(self):
        """When it failed, as ``YYYY-MM-DD_HH:MM:SS``."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


def _error_in(path):
    """What an error file says; None where there is none, or one that was not written to its end."""
    try:
        with open(path) as file:
            data = json.load(file)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


class ChildFailedError(Exception):
    """Processes of a program failed.

    Args:
        name: The program.
        failures: The failures by global rank.
    """

    def __init__(self, name, failures):
        if not failures:
            raise AssertionError("a failure is needed")
        self.name = name
        self.failures = failures
        super().__init__(self.format_msg())

    def get_first_failure(self):
        """The rank that failed first, and its failure."""
        rank = min(self.failures, key=lambda rank: self.failures[rank].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim="=", section_delim="-"):
        """The failures as text: the first as the cause, the others above it."""
        title = f"{self.name} FAILED"
        first, _ = self.get_first_failure()
        told = {rank: _told(place, rank, failure) for place, (rank, failure) in enumerate(self.failures.items())}
        lines = [title, *(line for text in told.values() for line in text.split("\n"))]
        width = min(max(map(len, lines)), 60)
        others = [text for rank, text in told.items() if rank != first] or ["  <NO_OTHER_FAILURES>"]
        border, section = boarder_delim * width, section_delim * width
        return "\n".join([
            "", border, title, section, "Failures:", *others, section,
            "Root Cause (first observed failure):", told[first], border,
        ])


def _told(place, rank, failure):
    message = failure.message
    if isinstance(message, dict):
        message = message.get("extraInfo", {}).get("py_callstack", message.get("message", _NOT_AVAILABLE))
        message = message.replace("\n", "\n  ")
    name = failure.signal_name()
    name = "" if name == _NOT_AVAILABLE else f" ({name})"
    return "\n".join([
        f"[{place}]:",
        f"  time      : {failure.timestamp_isoformat()}",
        f"  host      : {socket.getfqdn()}",
        f"  rank      : {rank} (local_rank: {failure.local_rank})",
        f"  exitcode  : {failure.exitcode} (pid: {failure.pid}) {name}",
        f"  error_file: {failure.error_file}",
        f"  traceback : {message}",
    ])


def record(fn, error_handler=None):
    """Has the exceptions of a program's function told to its parent; those of its own children as theirs."""
    handler = get_error_handler() if error_handler is None else error_handler

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        handler.set_entrypoint_fn_name(f"{fn.__module__}.{fn.__qualname__}")
        handler.initialize()
        try:
            value = fn(*args, **kwargs)
        except SystemExit as end:
            # A program that ends itself with a code has not failed to end.
            if end.code not in (None, 0):
                handler.record_exception(end)
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != _NOT_AVAILABLE and os.path.isfile(failure.error_file):
                handler.dump_error_file(failure.error_file, failure.exitcode)
            else:
                handler.record_exception(error)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise
        handler.record_success()
        return value

    return wrapper
