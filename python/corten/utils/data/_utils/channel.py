"""Messages between a loader and one worker, over a socket that belongs to these two alone.

Nothing is locked between processes: when one of them ends, at whatever moment, the other reads the end
of the stream. Descriptors of shared memory travel inside the messages, so that a batch that arrived
needs nothing more from the worker that made it.
"""

from __future__ import annotations

import array
import collections
import errno
import os
import queue
import socket
import struct
import threading
import time
import weakref

from corten.multiprocessing import reductions

#: Number of the message, bytes of its value, descriptors that come with it.
_HEADER = struct.Struct("<qQI")
#: How many descriptors one call hands over; the system's limit is 253.
_GROUP = 250
#: Bytes up to which header and value are sent by one call.
_JOINED = 1 << 16
_CLOSED = (errno.EPIPE, errno.ECONNRESET, errno.EBADF, errno.ENOTCONN, errno.ESHUTDOWN)

#: The ends that loaders of this process hold, and those that their workers will hold. A forked process
#: inherits both, and would keep a stream open whose owner has ended.
_loader_ends = weakref.WeakSet()
_worker_ends = weakref.WeakSet()


def pair():
    """The loader's and the worker's end of a new stream."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    _loader_ends.add(ours)
    _worker_ends.add(theirs)
    return ours, theirs


def _close_inherited():
    for end in list(_loader_ends):
        end.close()


def keep_only(end):
    """Closes the ends of other workers that a forked worker inherited."""
    for other in list(_worker_ends):
        if other is not end:
            other.close()


os.register_at_fork(after_in_child=_close_inherited)


class _Message:
    """What is left to send of a message."""

    def __init__(self, number, data, descriptors):
        header = _HEADER.pack(number, len(data), len(descriptors))
        self._descriptors = descriptors
        if not descriptors and len(data) <= _JOINED:
            self._parts = collections.deque([(memoryview(header + bytes(data)), ())])
            return
        groups = [descriptors[i:i + _GROUP] for i in range(0, len(descriptors), _GROUP)]
        self._parts = collections.deque([(memoryview(header), ())])
        self._parts.extend((memoryview(b"\0"), group) for group in groups)
        if len(data):
            self._parts.append((memoryview(data), ()))

    def send(self, end, flags=0):
        """Sends what the socket takes; whether that was all."""
        while self._parts:
            view, group = self._parts[0]
            try:
                if group:
                    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", group))]
                    sent = end.sendmsg([view], control, flags)
                else:
                    sent = end.send(view, flags)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    raise
                # Too many descriptors are on their way: the receiver has to take some first.
                if flags:
                    return False
                time.sleep(0.01)
                continue
            if sent < len(view):
                self._parts[0] = (view[sent:], ())
            else:
                self._parts.popleft()
        self.close()
        return True

    def close(self):
        """Closes the descriptors, which the receiver has copies of."""
        while self._descriptors:
            os.close(self._descriptors.pop())


class Outbox:
    """Sends messages without waiting for the receiver: a thread sends what the socket does not take at once.

    Messages of a receiver that has ended are dropped; whoever reads the stream learns of the end.
    """

    def __init__(self, end, slots=None):
        self._end, self._slots = end, slots
        self._waiting = queue.SimpleQueue()
        self._count = 0
        self._lock = threading.Lock()
        self._thread = None

    def put(self, number, value=None):
        """Sends a value under a number. Raises what pickling it raises, before anything is sent."""
        data, descriptors = reductions.dump_passing(value, self._slots)
        message = _Message(number, data, descriptors)
        with self._lock:
            if self._count == 0 and self._finished(message, socket.MSG_DONTWAIT):
                return
            self._count += 1
        self._waiting.put(message)
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_waiting, daemon=True)
            self._thread.start()

    def _finished(self, message, flags=0):
        """Sends a message; true too when nobody will ever read it."""
        try:
            return message.send(self._end, flags)
        except OSError as error:
            message.close()
            if error.errno not in _CLOSED:
                raise
            return True

    def _send_waiting(self):
        for message in iter(self._waiting.get, None):
            self._finished(message)
            with self._lock:
                self._count -= 1

    def flush(self):
        """Waits until everything is sent."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def close(self):
        """Ends the thread; to be called once the socket is shut down."""
        if self._thread is not None:
            self._waiting.put(None)


class Inbox:
    """The messages of a stream. Iterating gives `(number, data, descriptors)`, and None, where it may not
    wait, if nothing is there yet; it ends with the stream."""

    def __init__(self, end, wait):
        self._end = end
        self._flags = 0 if wait else socket.MSG_DONTWAIT
        self._descriptors = []
        self._messages = self._read()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._messages)

    def close(self):
        """Closes the descriptors of a message that did not arrive whole."""
        self._messages.close()
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _read(self):
        try:
            while True:
                header = yield from self._exactly(_HEADER.size)
                number, nbytes, count = _HEADER.unpack(header)
                while len(self._descriptors) < count:
                    yield from self._take_descriptors(min(count - len(self._descriptors), _GROUP))
                data = yield from self._exactly(nbytes)
                descriptors, self._descriptors = self._descriptors, []
                yield number, data, descriptors
        except EOFError:
            return

    def _exactly(self, nbytes):
        data = bytearray(nbytes)
        left = memoryview(data)
        while left:
            got = yield from self._waited(lambda: self._end.recv_into(left, 0, self._flags))
            if got == 0:
                raise EOFError
            left = left[got:]
        return data

    def _take_descriptors(self, count):
        space = socket.CMSG_SPACE(count * array.array("i").itemsize)
        flags = self._flags | getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        data, controls, _, _ = yield from self._waited(lambda: self._end.recvmsg(1, space, flags))
        if not data:
            raise EOFError
        taken = array.array("i")
        for level, kind, content in controls:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                taken.frombytes(content[:len(content) - len(content) % taken.itemsize])
        self._descriptors.extend(taken)
        if len(taken) < count:
            raise RuntimeError(reductions.TOO_MANY_FILES)

    def _waited(self, receive):
        while True:
            try:
                return receive()
            except BlockingIOError:
                yield None
            except OSError as error:
                if error.errno in _CLOSED:
                    raise EOFError from None
                raise
