"""Batches in page-locked memory."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Mapping, Sequence

import corten
from corten._utils import ExceptionWrapper

from .collate import _rebuilt_mapping, _rebuilt_sequence

#: Seconds after which a waiting thread looks whether it is still wanted.
_INTERVAL = 0.5


def pin_memory(data, device=None):
    """The structure with its tensors pinned. Objects of other classes say by a method ``pin_memory`` how."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _rebuilt_mapping(data, {key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, tuple):
        return type(data)(pin_memory(value, device) for value in data)
    if isinstance(data, Sequence):
        return _rebuilt_sequence(data, [pin_memory(value, device) for value in data])
    return data


class PinningIter:
    """A loader's iterator whose batches a thread pins ahead, two at most.

    Invariants: while the thread runs, nobody else asks the iterator for batches; what it raises is raised to who
    asks for the batch; the thread ends with the iterator's end, or once this object is gone.
    """

    def __init__(self, inner):
        self._inner = inner
        self._start()

    def _start(self):
        self._ready, self._done = queue.Queue(maxsize=1), threading.Event()
        device = corten.accelerator.current_device_index()
        self._thread = threading.Thread(
            target=_pin_ahead, args=(self._inner, self._ready, self._done, device), daemon=True, name="pt_data_pin")
        self._thread.start()

    def _stop(self):
        self._done.set()
        while self._thread.is_alive() and self._thread is not threading.current_thread():
            with _ignored(queue.Empty):
                self._ready.get_nowait()
            self._thread.join(0.01)

    def _reset(self, loader):
        self._stop()
        self._inner._reset(loader)
        self._start()

    def __iter__(self):
        return self

    def __next__(self):
        failed, batch = self._take()
        if failed:
            try:
                raise batch.reraise() if isinstance(batch, ExceptionWrapper) else batch
            finally:
                batch = None  # the traceback would keep it
        self._inner._yielded += 1
        self._inner._warn_of_length()
        return batch

    def _take(self):
        while True:
            try:
                return self._ready.get(timeout=_INTERVAL)
            except queue.Empty:
                # What it put last may have come between the two questions.
                if not self._thread.is_alive() and self._ready.empty():
                    return True, StopIteration()

    def __len__(self):
        return len(self._inner)

    def __getattr__(self, name):
        return getattr(self.__dict__["_inner"], name)

    def __del__(self):
        if "_done" in self.__dict__:
            self._done.set()


class _ignored:
    """Ignores an exception of a class in a ``with`` block."""

    def __init__(self, kind):
        self._kind = kind

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return kind is not None and issubclass(kind, self._kind)


def _pin_ahead(inner, ready, done, device):
    corten.set_num_threads(1)
    while not done.is_set():
        failed, ends = False, False
        try:
            batch = inner._next_batch()
        except BaseException as error:
            failed, batch = True, error
            ends = not isinstance(error, Exception) or isinstance(error, StopIteration) or _is_over(inner)
        if not failed:
            failed, batch = _pinned(batch, device)
        while not done.is_set():
            try:
                ready.put((failed, batch), timeout=_INTERVAL)
                break
            except queue.Full:
                continue
        batch = None
        if ends:
            return


def _is_over(inner):
    """Whether the workers are gone, so that nothing will come any more."""
    return inner._pool is None or inner._pool.closed


def _pinned(batch, device):
    """Whether pinning failed, and the batch or the error."""
    try:
        corten.accelerator.set_device_index(device)
        return False, pin_memory(batch)
    except Exception:
        return True, ExceptionWrapper(sys.exc_info(), where=f"in pin memory thread for device {device}")
