"""Where the output of processes goes."""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "SignalException", "Std", "to_map"]


class SignalException(Exception):
    """The starter of processes received a signal."""

    def __init__(self, msg, sigval):
        super().__init__(msg)
        self.sigval = sigval


def _terminate_process_handler(signum, frame):
    value = signal.Signals(signum)
    raise SignalException(f"Process {os.getpid()} got signal: {value}", sigval=value)


class Std(enum.IntFlag):
    """Standard streams."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm):
        """``"3"`` as a value, ``"0:3,1:2"`` as a dictionary by local rank.

        Raises:
            ValueError: It is neither.
        """
        if re.fullmatch("[0123]", vm):
            return Std(int(vm))
        if re.fullmatch(r"(\d+:[0123],)*\d+:[0123]", vm):
            return {int(rank): Std(int(value)) for rank, value in (pair.split(":") for pair in vm.split(","))}
        raise ValueError(rf"{vm} does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>")


def to_map(val_or_map, local_world_size):
    """A value for each local rank."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclasses.dataclass
class LogsDest:
    """Files by local rank: of streams, of streams that are shown as well, and of errors."""

    stdouts: dict = dataclasses.field(default_factory=dict)
    stderrs: dict = dataclasses.field(default_factory=dict)
    tee_stdouts: dict = dataclasses.field(default_factory=dict)
    tee_stderrs: dict = dataclasses.field(default_factory=dict)
    error_files: dict = dataclasses.field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """Which streams of which processes go to files below a folder, and which of these are shown as well."""

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        self._root_log_dir = log_dir
        self._redirects = redirects
        self._tee = tee
        self._local_ranks_filter = local_ranks_filter

    @abstractmethod
    def reify(self, envs):
        """The files, for the environments of all local ranks."""

    @property
    @abstractmethod
    def root_log_dir(self):
        """The folder."""


class DefaultLogsSpecs(LogsSpecs):
    """Files ``<log_dir>/<run>_…/attempt_<restart>/<local rank>/{stdout.log,stderr.log,error.json}``."""

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        self._own_log_dir = not log_dir
        if not log_dir:
            log_dir = tempfile.mkdtemp(prefix="torchelastic_")
        elif log_dir != os.devnull:
            if os.path.isfile(log_dir):
                raise NotADirectoryError(f"log_dir: {log_dir} is a file")
            os.makedirs(log_dir, exist_ok=True)
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir = None

    @property
    def root_log_dir(self):
        return str(self._root_log_dir)

    def _attempt_dir(self, env):
        if self._root_log_dir == os.devnull:
            return None
        if self._run_log_dir is None:
            name = re.sub(r"[^\w.-]", "_", env.get("TORCHELASTIC_RUN_ID", "run"))
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{name}_", dir=self._root_log_dir)
        folder = os.path.join(self._run_log_dir, f"attempt_{env.get('TORCHELASTIC_RESTART_COUNT', '0')}")
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def reify(self, envs):
        attempt = self._attempt_dir(next(iter(envs.values()), {}))
        redirects, tee = to_map(self._redirects, len(envs)), to_map(self._tee, len(envs))
        found = LogsDest()
        for rank in envs:
            shown = self._local_ranks_filter is None or rank in self._local_ranks_filter
            kept = redirects[rank] | tee[rank] if shown else Std.ALL
            folder = None if attempt is None else os.path.join(attempt, str(rank))
            if folder is not None:
                os.makedirs(folder, exist_ok=True)
            for stream, name, files, tees in (
                (Std.OUT, "stdout.log", found.stdouts, found.tee_stdouts),
                (Std.ERR, "stderr.log", found.stderrs, found.tee_stderrs),
            ):
                path = os.devnull if folder is None else os.path.join(folder, name)
                files[rank] = path if kept & stream else ""
                tees[rank] = path if shown and tee[rank] & stream and folder is not None else ""
            found.error_files[rank] = "" if folder is None else os.path.join(folder, "error.json")
        return found

    def close(self):
        """Removes a folder that was made only for these processes and holds no streams."""
        if self._own_log_dir and not self._redirects and not self._tee and self._local_ranks_filter is None:
            shutil.rmtree(self._root_log_dir, ignore_errors=True)
