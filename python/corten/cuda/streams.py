"""Streams and events of GPUs."""

from __future__ import annotations

import ctypes

from corten import _C, _streams
from corten.cuda._lazy import _lazy_init

__all__ = ["Event", "ExternalStream", "Stream"]

_CUDA = 1


class Stream(_streams.Stream):
    """A queue of work of a GPU, whose parts are done in order; different streams have no order.

    Streams are taken from a pool of 32 per device and priority and are never destroyed.

    Args:
        device: The GPU; the current one if it is ``None``.
        priority: 0, or a negative number for work that goes first.
    """

    def __new__(cls, device=None, priority=0, **kwargs):
        if "stream_id" in kwargs:
            described = (kwargs["stream_id"], kwargs["device_index"], kwargs.get("device_type", _CUDA))
        elif "stream_ptr" in kwargs:
            from corten.cuda import _get_device_index

            _lazy_init()
            index = _get_device_index(device, optional=True)
            described = _C._cuda_getStreamFromExternal(kwargs["stream_ptr"], index)
        else:
            from corten.cuda import _get_device_index

            _lazy_init()
            described = _C._cuda_newStream(_get_device_index(device, optional=True), priority)
        return cls._of(*described)

    def __init__(self, *args, **kwargs):
        pass

    @property
    def cuda_stream(self):
        """The address that CUDA knows the stream by."""
        return self.native_handle

    @property
    def priority(self):
        """0, or a negative number for work that goes first."""
        return _C._cuda_streamPriority(self.device_index, self.stream_id)

    @staticmethod
    def priority_range():
        """The lowest and the highest priority."""
        return 0, -3

    def is_capturing(self):
        """Whether the work is being recorded into a graph."""
        return _C._cuda_streamIsCapturing(self.device_index, self.stream_id)

    def wait_event(self, event):
        """Lets later work wait for an event."""
        event.wait(self)

    def wait_stream(self, stream):
        """Lets later work wait for what another stream has been given until now."""
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        """Marks the present place in the work by an event, which is made if there is none."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_stream)

    def __eq__(self, other):
        return isinstance(other, Stream) and super().__eq__(other)

    def __hash__(self):
        return hash((self.cuda_stream, self.device))

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library has made and keeps for as long as it is used.

    Args:
        stream_ptr: Its ``cudaStream_t`` as a number.
        device: The GPU that it belongs to.
    """

    def __new__(cls, stream_ptr, device=None, **kwargs):
        return super().__new__(cls, device, stream_ptr=stream_ptr)


class Event(_streams.Event):
    """A mark in the work of a GPU, to wait for and to measure times with.

    Args:
        enable_timing: Whether the time is taken when the mark is reached.
        blocking: Whether :meth:`wait` sleeps instead of polling.
        interprocess: Whether other processes may use it.
        external: Whether it marks a place inside of recorded work for others.
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        super().__init__(
            "cuda", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )

    @classmethod
    def from_ipc_handle(cls, device, handle):
        """The event of another process.

        Args:
            device: The GPU.
            handle: What its :meth:`ipc_handle` gave there.
        """
        _lazy_init()
        device = _C.device("cuda" if device is None else device)
        index = _C._cuda_getDevice() if device.index is None else device.index
        made = cls(interprocess=True)
        made._native = _C._CudaEvent(index, handle)
        return made

    @property
    def cuda_event(self):
        """The address that CUDA knows the event by; 0 before it is recorded."""
        return self.event_id

    def record(self, stream=None):
        """Marks the present place in a stream, the current one if none is named."""
        if stream is None:
            _lazy_init()
        super().record(stream)

    def wait(self, stream=None):
        """Lets the later work of a stream, the current one if none is named, wait for the mark."""
        if stream is None:
            _lazy_init()
        super().wait(stream)

    def __reduce__(self):
        # For other processes, to which only events that are meant for them travel.
        return Event.from_ipc_handle, (self.device, self.ipc_handle())

    def ipc_handle(self):
        """A name by which other processes find the event."""
        _lazy_init()
        return self._made().ipc_handle(-1 if self.device.index is None else self.device.index)

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_event)

    def __repr__(self):
        if self.cuda_event:
            return f"<torch.cuda.Event {self._as_parameter_.value:#x}>"
        return "<torch.cuda.Event uninitialized>"


class StreamContext:
    """Makes a stream the current one of its GPU for a ``with`` block, and its GPU the current one; ``None``
    changes nothing."""

    def __init__(self, stream):
        self.stream = stream
        self._before = []

    def __enter__(self):
        if self.stream is None:
            self._before.append(None)
            return
        outer, inner = current_stream(), current_stream(self.stream.device)
        self._before.append((outer, inner))
        set_stream(self.stream)

    def __exit__(self, kind, value, traceback):
        before = self._before.pop()
        if before is not None:
            outer, inner = before
            set_stream(inner)
            set_stream(outer)
        return False


def stream(stream):
    """Makes a stream the current one for a ``with`` block."""
    return StreamContext(stream)


def _described(described):
    return Stream(stream_id=described[0], device_index=described[1], device_type=described[2])


def _index(device):
    from corten.cuda import _get_device_index

    _lazy_init()
    return _get_device_index(device, optional=True)


def current_stream(device=None):
    """The stream that operators of this thread run on.

    Args:
        device: The GPU; the current one if it is ``None``.
    """
    return _described(_C._cuda_getCurrentStream(_index(device)))


def default_stream(device=None):
    """The stream that a GPU starts with.

    Args:
        device: The GPU; the current one if it is ``None``.
    """
    return _described(_C._cuda_getDefaultStream(_index(device)))


def get_stream_from_external(data_ptr, device=None):
    """A stream that another library has made and keeps.

    Args:
        data_ptr: Its ``cudaStream_t`` as a number.
        device: The GPU; the current one if it is ``None``.
    """
    return _described(_C._cuda_getStreamFromExternal(data_ptr, _index(device)))


def set_stream(stream):
    """Makes a stream the current one of its GPU, and its GPU the current one; ``None`` changes nothing."""
    if stream is not None:
        _set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)


def _set_stream_by_id(stream_id, device_index, device_type):
    _C._cuda_setStream(stream_id=stream_id, device_index=device_index, device_type=device_type)
