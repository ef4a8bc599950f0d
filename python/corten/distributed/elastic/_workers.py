"""The processes that a starter starts on its machine: commands, or Python functions."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import string
import subprocess
import sys
import threading
import time

from corten.distributed.elastic.multiprocessing.errors import ProcessFailure, record

_PARENT_DEATH_SIGNAL = 1


def _load_prctl():
    try:
        return ctypes.CDLL(None).prctl
    except (AttributeError, OSError):
        return None


_prctl = _load_prctl()


def _end_with_parent():
    """Has the system end this process when its parent ends, whatever ends that."""
    if _prctl is not None:
        _prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)


class _Command:
    """A process of a command, in a session of its own, so that a signal reaches what it started."""

    def __init__(self, command, env, out, err, local_rank):
        self.local_rank = local_rank
        with contextlib.ExitStack() as files:
            streams = [files.enter_context(open(path, "ab")) if path else None for path in (out, err)]
            self._process = subprocess.Popen(
                command, env=env, stdout=streams[0], stderr=streams[1], start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self.pid = self._process.pid

    def poll(self):
        """The exit code, or None."""
        return self._process.poll()

    def send(self, number):
        """Sends a signal to the process and what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def value(self):
        """Commands give nothing."""
        return None

    def close(self):
        """Ends what the process left in its session."""
        self.send(signal.SIGKILL)


def _run_function(function, args, env, out, err, connection):
    _end_with_parent()
    os.environ.update(env)
    for path, stream in ((out, 1), (err, 2)):
        if path:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(descriptor, stream)
    value = record(function)(*args)
    with contextlib.suppress(BrokenPipeError):
        connection.send_bytes(pickle.dumps(value))
    connection.close()


class _Function:
    """A process of a Python function."""

    def __init__(self, context, function, args, env, out, err, local_rank):
        self.local_rank = local_rank
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_run_function, args=(function, args, env, out, err, sender))
        self._process.start()
        sender.close()
        self.pid = self._process.pid
        self._bytes = None

    def poll(self):
        """The exit code, or None."""
        # A value that nobody reads would keep the process from ending.
        if self._bytes is None:
            with contextlib.suppress(EOFError, OSError):
                if self._receiver.poll():
                    self._bytes = self._receiver.recv_bytes()
        return self._process.exitcode

    def send(self, number):
        """Sends a signal."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.is_alive():
                os.kill(self.pid, number)

    def value(self):
        """What the function gave."""
        return None if self._bytes is None else pickle.loads(self._bytes)

    def close(self):
        """Ends the process."""
        self.send(signal.SIGKILL)
        self._process.join()
        self._receiver.close()


class _Tail(threading.Thread):
    """Shows what is written to files, line by line with a prefix."""

    def __init__(self, sources, target):
        super().__init__(daemon=True)
        self._sources, self._target = sources, target
        self._ended = threading.Event()

    def run(self):
        """Follows the files until :meth:`stop`."""
        places = dict.fromkeys(self._sources, 0)
        rests = dict.fromkeys(self._sources, "")
        while True:
            last = self._ended.is_set()
            for path, prefix in self._sources.items():
                places[path], rests[path] = self._show(path, prefix, places[path], rests[path], last)
            if last:
                return
            self._ended.wait(0.1)

    def _show(self, path, prefix, place, rest, last):
        try:
            with open(path, errors="replace") as file:
                file.seek(place)
                text = rest + file.read()
                place = file.tell()
        except FileNotFoundError:
            return place, rest
        lines = text.split("\n")
        rest = "" if last else lines.pop()
        for line in lines:
            if line or not last:
                self._target.write(f"{prefix}{line}\n")
        self._target.flush()
        return place, rest

    def stop(self):
        """Shows the rest and ends."""
        self._ended.set()
        self.join()


def _with_rank(argument, local_rank):
    if not isinstance(argument, str):
        return argument
    return string.Template(argument).safe_substitute(local_rank=local_rank)


class Workers:
    """The processes of one round.

    Args:
        config: The program's ``LaunchConfig``.
        entrypoint: A command or a function.
        args: Its arguments, in which ``${local_rank}`` stands for the local rank.
        envs: The environment of each local rank.
    """

    def __init__(self, config, entrypoint, args, envs):
        self.logs = config.logs_specs.reify(envs)
        self.processes, self._tails = [], []
        self._name = entrypoint if isinstance(entrypoint, str) else repr(entrypoint)
        try:
            for local_rank, env in envs.items():
                self.processes.append(self._start(config, entrypoint, args, local_rank, env))
        except BaseException:
            self.close(signal.SIGTERM, 5)
            raise
        self._follow(config, envs)

    def _start(self, config, entrypoint, args, local_rank, env):
        if self.logs.error_files.get(local_rank):
            env["TORCHELASTIC_ERROR_FILE"] = self.logs.error_files[local_rank]
        out, err = self.logs.stdouts.get(local_rank, ""), self.logs.stderrs.get(local_rank, "")
        args = [_with_rank(each, local_rank) for each in args]
        if isinstance(entrypoint, str):
            # What the starter has loaded is not loaded in others.
            return _Command([entrypoint, *map(str, args)], {**os.environ, **env}, out, err, local_rank)
        context = multiprocessing.get_context(config.start_method)
        return _Function(context, entrypoint, args, env, out, err, local_rank)

    def _follow(self, config, envs):
        template = string.Template(config.log_line_prefix_template or "[${role_name}${local_rank}]:")
        for files, target in ((self.logs.tee_stdouts, sys.stdout), (self.logs.tee_stderrs, sys.stderr)):
            sources = {
                path: template.safe_substitute(
                    role_name=config.role, local_rank=rank, rank=envs[rank]["RANK"], hostname=os.uname().nodename
                )
                for rank, path in files.items() if path
            }
            if sources:
                self._tails.append(_Tail(sources, target))
                self._tails[-1].start()

    def failed(self):
        """The processes that failed so far."""
        return [process for process in self.processes if process.poll() not in (None, 0)]

    def running(self):
        """Whether some run."""
        return any(process.poll() is None for process in self.processes)

    def failure(self, process):
        """What a process that failed left."""
        path = self.logs.error_files.get(process.local_rank, "")
        return ProcessFailure(process.local_rank, process.pid, process.poll(), path)

    def close(self, number=signal.SIGTERM, timeout=30):
        """Ends all: a signal, and SIGKILL for those that run after ``timeout`` seconds."""
        for process in self.processes:
            if process.poll() is None:
                process.send(number)
        end = time.monotonic() + timeout
        while self.running() and time.monotonic() < end:
            time.sleep(0.02)
        for process in self.processes:
            process.close()
        end = time.monotonic() + 10
        while self.running() and time.monotonic() < end:
            time.sleep(0.02)
        for tail in self._tails:
            tail.stop()
        self._tails = []
