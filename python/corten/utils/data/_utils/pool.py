"""The worker processes of a loader, seen from the loader."""

from __future__ import annotations

import atexit
import collections
import os
import select
import time
import weakref
from multiprocessing import util

from corten.multiprocessing import _segments

from . import channel
from .slots import LoaderSlots

#: Seconds in which workers end by themselves before they are ended, when a pass is left, when a worker
#: failed, and when the program ends.
_PATIENT, _QUICK = 5.0, 0.5
#: Seconds that the end of a process may follow the end of its stream.
_GRACE = 1.0
#: Number of the message that tells a worker to end.
STOP = -1
#: Number that stands for the end of a worker that was told to end.
GONE = -2

_pools = weakref.WeakSet()


class _TimedOut(Exception):
    """No answer came in time."""


class _Link:
    """One worker: its process, and the loader's end of its stream."""

    def __init__(self, process, end):
        self.process, self.end = process, end
        self.inbox, self.outbox = channel.Inbox(end, wait=False), channel.Outbox(end)
        self.slots = LoaderSlots()
        self.told_to_end = False
        _watch_by_handle(process)
        self.watched = [end.fileno(), process.sentinel]

    def close(self):
        """Closes the stream; the worker reads its end."""
        try:
            self.end.shutdown(channel.socket.SHUT_RDWR)
        except OSError:
            pass  # the worker has ended
        self.outbox.close()
        self.inbox.close()
        self.end.close()


def _watch_by_handle(process):
    """Puts the handle of a process in the place of the pipes between it and this one.

    Of the sentinel's pipe, a process that was forked at the same moment may hold the other end, while the handle is
    readable when, and only when, the process has ended. The other pipe tells the worker of this one's end, for which
    it takes a handle as well (`worker._watch_loader`). A server of processes sends exit codes through the
    sentinel's pipe, which stays.
    """
    popen = getattr(process, "_popen", None)
    pipes = set(getattr(getattr(popen, "finalizer", None), "_args", None) or ())
    if len(pipes) != 2 or popen.sentinel not in pipes:
        return
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return
    if popen.method != "forkserver":
        os.dup2(handle, popen.sentinel, inheritable=False)
    os.close(handle)
    popen.finalizer.cancel()
    popen.finalizer = util.Finalize(popen, util.close_fds, (popen.sentinel,))
    pipes.remove(popen.sentinel)
    os.close(pipes.pop())


class WorkerPool:
    """Workers with one stream each.

    Invariants: a link is watched from its start until its worker has ended or the pool is closed; a worker
    that ends without having been told to closes the pool, and every later call raises the same error.
    """

    def __init__(self, context, target, arguments):
        self.processes, self._links = [], []
        self._arrived = collections.deque()
        self._poll, self._place = select.poll(), {}
        self._pid, self._failure, self.closed = os.getpid(), None, False
        _pools.add(self)
        try:
            for place, values in enumerate(arguments):
                self._start(context, target, values, place)
        except BaseException:
            self.close(_QUICK)
            raise

    def _start(self, context, target, values, place):
        ours, theirs = channel.pair()
        try:
            process = context.Process(target=target, args=(theirs, *values), daemon=True)
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        link = _Link(process, ours)
        self.processes.append(process)
        self._links.append(link)
        for descriptor in link.watched:
            self._place[descriptor] = place
            self._poll.register(descriptor, select.POLLIN)

    def send(self, place, number, value):
        """Sends a value to a worker, with the slots that it may fill again."""
        self._check_open()
        link = self._links[place]
        try:
            link.outbox.put(number, (link.slots.done(), value))
        except BaseException:
            self.close(_QUICK)
            raise

    def slots(self, place):
        """The slots of a worker."""
        return self._links[place].slots

    def retire(self, place):
        """Tells a worker to end once it has answered."""
        self._links[place].told_to_end = True
        self.send(place, STOP, None)

    def receive(self, timeout=None):
        """The next answer as the worker's place, its number, data and descriptors. The number is `GONE`
        for a worker that was told to end and has ended.

        Raises:
            RuntimeError: A worker ended, or no answer came in time.
        """
        self._check_open()
        limit = None if timeout is None else time.monotonic() + timeout
        try:
            self._look(0)  # a worker that ended is reported even while answers are left
            while not self._arrived:
                left = None if limit is None else limit - time.monotonic()
                if left is not None and left <= 0:
                    raise _TimedOut
                self._look(left)
        except _TimedOut:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None
        except BaseException:
            # An interrupted read leaves half a message behind: the streams are of no further use.
            self.close(_QUICK)
            raise
        return self._arrived.popleft()

    def check(self):
        """Raises if a worker ended that was not told to."""
        self._check_open()
        try:
            self._look(0)
        except BaseException:
            self.close(_QUICK)
            raise

    def _check_open(self):
        if self._failure is not None:
            raise RuntimeError(self._failure)
        if self.closed:
            raise RuntimeError("the workers of this pass have been ended")

    def _look(self, seconds):
        """Waits for something to happen to a worker, and takes in what it sent."""
        ready = self._poll.poll(None if seconds is None else max(0, seconds) * 1000)
        for place in dict.fromkeys(self._place[descriptor] for descriptor, _ in ready):
            link = self._links[place]
            ended = any(descriptor == link.watched[1] for descriptor, _ in ready)
            for message in link.inbox:
                if message is None:
                    break
                self._arrived.append((place, *message))
            else:
                ended = True
            if ended:
                self._worker_ended(place)

    def _worker_ended(self, place):
        link = self._links[place]
        if not link.told_to_end:
            self._failure = _reason(link.process)
            raise RuntimeError(self._failure)
        for descriptor in link.watched:
            self._poll.unregister(descriptor)
            del self._place[descriptor]
        self._arrived.append((place, GONE, b"", []))

    def close(self, patience=_PATIENT):
        """Ends the workers: by the end of their streams, then by signals."""
        if self.closed or self._pid != os.getpid():
            return
        self.closed = True
        _pools.discard(self)
        for link in self._links:
            link.close()
        for _, _, _, descriptors in self._arrived:
            for descriptor in descriptors:
                os.close(descriptor)
        self._arrived.clear()
        try:
            _join(self.processes, patience)
            for process in _alive(self.processes):
                process.terminate()
            _join(self.processes, _QUICK)
        finally:
            for process in _alive(self.processes):
                process.kill()
            _join(self.processes, _GRACE)
            # Nobody reads any more what the workers sent under names.
            _segments.sweep({str(process.pid) for process in self.processes})


def _alive(processes):
    return [process for process in processes if process.is_alive()]


def _join(processes, seconds):
    limit = time.monotonic() + seconds
    for process in processes:
        process.join(max(0, limit - time.monotonic()))


def _reason(process):
    """What is known about a worker that ended by itself."""
    import signal

    process.join(_GRACE)
    code = process.exitcode
    if code is not None and code < 0:
        hint = ""
        if -code == signal.SIGBUS:
            hint = (
                "It is possible that dataloader's workers are out of shared memory. Please try to "
                "raise your shared memory limit."
            )
        name = signal.strsignal(-code) or f"Unknown signal {-code}"
        return f"DataLoader worker (pid {process.pid}) is killed by signal: {name}. {hint}"
    return (
        f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit code {code}. Details "
        "are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace."
    )


@atexit.register
def _close_all():
    # Before the standard library joins its daemons, which it does without a limit of time.
    for pool in list(_pools):
        pool.close(_QUICK)
