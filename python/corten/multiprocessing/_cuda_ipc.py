"""How memory of GPUs travels between processes: the receiver maps the sender's memory.

The sender keeps each storage that it sent, with the event that marks what had been written, until every receiver has
given it back. For that each message has a byte of a shared file, which its receiver sets; the sender looks at the
bytes when it sends again and in ``corten.cuda.ipc_collect()``. A message that nobody reads keeps its memory until the
sender ends.
"""

from __future__ import annotations

import mmap
import os
import threading
import uuid
import weakref
from multiprocessing import util

import corten
from corten import _C

__all__ = []

_FOLDER = "/dev/shm"
_SLOTS = mmap.PAGESIZE
_lock = threading.RLock()


class _Slots:
    """A file with a byte for each message: 1 once it was given back."""

    def __init__(self, path, create):
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if create:
                os.ftruncate(descriptor, _SLOTS)
            self.bytes = mmap.mmap(descriptor, _SLOTS)
        finally:
            os.close(descriptor)
        self.path, self.used = path, 0


class _Sender:
    """What this process has sent and not got back."""

    def __init__(self):
        self.pid = os.getpid()
        self.files, self.kept = [], {}

    def keep(self, storage, event):
        """The file and the byte of a new message."""
        if not self.files or self.files[-1].used == _SLOTS:
            path = f"{_FOLDER}/corten_cuda_{self.pid}_{uuid.uuid4().hex}"
            self.files.append(_Slots(path, create=True))
            util.Finalize(None, _remove, args=(path, self.pid), exitpriority=-50)
        slots = self.files[-1]
        place, slots.used = slots.used, slots.used + 1
        self.kept[slots.path, place] = storage, event
        return slots.path, place

    def collect(self):
        """Lets go what was given back."""
        by_path = {slots.path: slots for slots in self.files}
        for path, place in list(self.kept):
            if by_path[path].bytes[place]:
                del self.kept[path, place]


def _remove(path, pid):
    if os.getpid() == pid:
        try:
            os.unlink(path)
        except OSError:
            pass  # somebody has cleaned up


_senders = {}
#: The mappings of this process by the handle of the memory.
_mappings = weakref.WeakValueDictionary()
#: Where received storages begin: they cannot be sent on.
_received = {}


def _sender():
    """What this process has sent; a forked one has sent nothing."""
    pid = os.getpid()
    if pid not in _senders:
        _senders.clear()
        _senders[pid] = _Sender()
    return _senders[pid]


def collect():
    """Lets the storages go that all receivers have given back."""
    with _lock:
        _sender().collect()


def reduce(storage):
    """The function and arguments that make the storage again in another process.

    Raises:
        RuntimeError: The memory is another process's, or is such that cannot be shared.
    """
    index, address = storage.get_device(), storage.data_ptr()
    with _lock:
        if address in _received:
            raise RuntimeError(
                "Attempted to send CUDA tensor received from another process; this is not currently supported. "
                "Consider cloning before sending.")
        try:
            handle, offset = _C._cuda_ipcMemoryHandle(index, address)
        except RuntimeError as error:
            raise RuntimeError(
                "the memory of this tensor cannot be opened by other processes. That of expandable segments "
                f"(PYTORCH_ALLOC_CONF) and of other libraries cannot; send a clone() or a copy on the CPU ({error})"
            ) from error
        if threading.current_thread() is not threading.main_thread():
            # The thread that feeds a queue has not the stream of whoever put the tensor there.
            corten.cuda.synchronize(index)
        event = corten.cuda.Event(interprocess=True)
        event.record(corten.cuda.current_stream(index))
        sender = _sender()
        sender.collect()
        path, place = sender.keep(storage, event)
        return rebuild, (
            type(storage), index, handle, offset, storage.nbytes(), event.ipc_handle(), path, place, sender.pid)


class _Mapping:
    """Memory of another process in the addresses of this one."""

    def __init__(self, index, handle):
        self.index, self.pid = index, os.getpid()
        self.address = _C._cuda_openIpcMemory(index, handle)

    def __del__(self):
        if "address" in self.__dict__ and os.getpid() == self.pid:
            _C._cuda_closeIpcMemory(self.index, self.address)


class _Received:
    """What a received storage keeps, and gives back when it is gone."""

    def __init__(self, mapping, start, slots, place):
        self.mapping, self.start, self.slots, self.place = mapping, start, slots, place

    def __del__(self):
        if os.getpid() != self.mapping.pid:
            return
        with _lock:
            _received[self.start] -= 1
            if not _received[self.start]:
                del _received[self.start]
        # Otherwise the sender would reuse memory that is still being read.
        corten.cuda.current_stream(self.mapping.index).synchronize()
        self.slots.bytes[self.place] = 1


def rebuild(cls, index, handle, offset, nbytes, event, path, place, sender):
    """The storage that another process has sent."""
    corten.cuda.init()
    if sender == os.getpid():
        with _lock:
            storage, _ = _sender().kept.pop((path, place))
        return storage
    with _lock:
        mapping = _mappings.get((index, handle))
        if mapping is None:
            mapping = _mappings[index, handle] = _Mapping(index, handle)
        start = mapping.address + offset
        slots = _Slots(path, create=False)
        _received[start] = _received.get(start, 0) + 1
        owner = _Received(mapping, start, slots, place)
    corten.cuda.Event.from_ipc_handle(corten.device("cuda", index), event).wait(corten.cuda.current_stream(index))
    made = _C._cuda_tensorFromAddress(owner, start, (nbytes,), None, corten.uint8, index)
    return made.untyped_storage()
