"""Shared memory with names: who uses it, and what becomes of it when its users have ended.

The first page of a segment is described in the crate `corten-core`: see Note [Segments with names]. Processes
remove names themselves; what a process that was killed leaves behind is removed by a janitor, a
small process that this module is the whole program of. Each process that has segments holds a
connection to it, whose end tells the janitor to look. It ends when there is nobody left to watch.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time

FOLDER = "/dev/shm"
_PAGE = struct.Struct("<8sIIQ8x")
_ENTRY = struct.Struct("<IIQ")
_SIZE = 4096
_MAGIC = b"CORTSEG1"
#: Seconds after which a file without a first page is taken for one whose maker has died.
_UNFINISHED = 60
#: Seconds between looks while a process that closed its connection may still be ending.
_LOOK = 0.1


def prefix():
    """What the names of all segments of this set of process numbers begin with."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return f"corten_{space}_"


def _start_of(pid):
    """When a process started; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            words = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if words[0] in "ZX" else int(words[19])


def _is_used(page, channels):
    """Whether a living process uses the segment, or may read a message with its name."""
    magic, in_queues, in_channels, _ = _PAGE.unpack_from(page)
    on_the_way = in_queues or (channels and in_channels)
    for at in range(_PAGE.size, _SIZE, _ENTRY.size):
        pid, count, start = _ENTRY.unpack_from(page, at)
        if pid and (count or on_the_way) and _start_of(pid) == start:
            return True
    return magic != _MAGIC


def _lock(file):
    """Locks a segment, which others do for moments only. A process that is stopped is not waited for."""
    for _ in range(100):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)
    raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))


def _remove_unused(path, channels):
    """Removes a segment that nobody uses; whether it is gone."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return error.errno == errno.ENOENT
    try:
        _lock(file)
        page = os.pread(file, _SIZE, 0)
        if len(page) < _SIZE:
            used = time.time() - os.fstat(file).st_mtime < _UNFINISHED
        else:
            used = _is_used(page, channels)
        if not used and os.fstat(file).st_nlink:
            os.unlink(path)
        return not used
    except OSError:
        return False  # somebody holds it who does not go on
    finally:
        os.close(file)


def sweep(makers=None):
    """Removes the segments that nobody uses; returns how many are left. With `makers`, numbers of processes
    that have ended, only what they made, and messages through their channels are lost."""
    left = 0
    start = prefix()
    try:
        names = [name for name in os.listdir(FOLDER) if name.startswith(start)]
    except OSError:
        return 0
    for name in names:
        if makers is not None and name.split("_")[2] not in makers:
            continue
        left += not _remove_unused(os.path.join(FOLDER, name), channels=makers is None)
    return left


class _Connection:
    """This process's connection to the janitor."""

    pid = end = None


def _address():
    return f"\0{prefix()}{os.getuid()}"


def watch():
    """Has the janitor look after this process; starts it if there is none."""
    if _Connection.pid == os.getpid():
        return
    if _Connection.pid is None:
        sweep()
    _Connection.pid = os.getpid()
    for _ in range(3):
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(_address())
            _Connection.end = end
            return
        except OSError:
            end.close()
        if not _start_janitor():
            return


def _start_janitor():
    """Listens in the name of a janitor and starts it; false where that is not possible."""
    import subprocess
    from multiprocessing import spawn

    program = spawn.get_executable()
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(_address())
        except OSError:
            return True  # another process was faster
        listener.listen(128)
        command = [program, "-I", "-S", os.path.abspath(__file__), str(listener.fileno())]
        try:
            subprocess.run(command, pass_fds=[listener.fileno()], start_new_session=True, cwd="/",
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (OSError, TypeError, ValueError):
            return False
    return True


class _Forking(threading.local):
    """The pipe by which a forked process says that it holds what it inherited."""

    pipe = None


_forking = _Forking()


def before_fork():
    """To be called before a process forks."""
    if _Connection.pid == os.getpid():
        try:
            _forking.pipe = os.pipe()
        except OSError:
            pass  # the names may go if this process ends at once


def after_fork_in_parent():
    """Waits until the forked process is a user of its own, so that no name goes before."""
    if _forking.pipe is not None:
        (reader, writer), _forking.pipe = _forking.pipe, None
        os.close(writer)
        # Another process, forked at the same moment, may have inherited the writer: a limit of time.
        select.select([reader], [], [], 1.0)
        os.close(reader)


def after_fork_in_child():
    """Makes a forked process a user of its own of what it inherited."""
    from corten import _C

    if _Connection.pid is None:
        return
    if _Connection.end is not None:
        _Connection.end.close()
    _Connection.pid = _Connection.end = None
    _C._hold_segments_after_fork()
    if _forking.pipe is not None:
        for descriptor in _forking.pipe:
            os.close(descriptor)
        _forking.pipe = None
    watch()


def readers():
    """The processes that may read a message of this one, as far as it knows them."""
    import multiprocessing

    pids = {os.getpid()}
    parent = multiprocessing.parent_process()
    if parent is not None:
        pids.add(parent.pid)
    pids.update(child.pid for child in list(multiprocessing.process._children) if child.pid)
    return sorted(pids)


class _Janitor:
    """Looks after segments until no process is connected and no segment is left."""

    def __init__(self, listener):
        self._listener = listener
        self._poll, self._clients = select.poll(), {}
        self._poll.register(listener, select.POLLIN)
        self._look_until = 0.0

    def run(self):
        """Watches the connections."""
        while True:
            looking = time.monotonic() < self._look_until
            ready = self._poll.poll(1000 * _LOOK if looking or not self._clients else None)
            for descriptor, _ in ready:
                self._take(descriptor)
            left = sweep() if looking or not self._clients else 1
            if not self._clients and not left and not ready and not looking:
                return

    def _take(self, descriptor):
        if descriptor == self._listener.fileno():
            client, _ = self._listener.accept()
            self._clients[client.fileno()] = client
            self._poll.register(client, select.POLLIN)
        else:
            # Nothing is ever sent: the process has ended, or is about to.
            self._poll.unregister(descriptor)
            self._clients.pop(descriptor).close()
            self._look_until = time.monotonic() + 10 * _LOOK


def _main():
    # The process that started this one waits for it, but must not for the janitor.
    if os.fork():
        os._exit(0)
    _Janitor(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    _main()
