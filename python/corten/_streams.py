"""Streams and events of devices. The CPU has one stream and nothing to wait for."""

from __future__ import annotations

from corten import _C

__all__ = ["Event", "Stream"]

_TYPES = {0: "cpu", 1: "cuda"}
_NUMBERS = {name: number for number, name in _TYPES.items()}
#: The accelerator whose streams and events can be made.
_ACCELERATOR = "cuda"


def _start(kind):
    """Starts the driver of a kind of device, or says why there is none."""
    if kind == "cuda":
        from corten.cuda import _lazy

        _lazy._lazy_init()
    elif kind != "cpu":
        raise RuntimeError(
            f"Cannot use a stream or an event of a {kind} device: this build drives no {kind} device."
        )


class Stream:
    """A queue of work for a device.

    Args:
        device: The device; the accelerator if it is ``None``.
        priority: 0, or a negative number for work that goes first.

    Raises:
        RuntimeError: The device is not driven by this build.
    """

    __slots__ = ("__weakref__", "_before", "device_index", "device_type", "stream_id")

    def __new__(cls, device=None, *, priority=0, **kwargs):
        if "stream_id" in kwargs:
            return cls._of(kwargs["stream_id"], kwargs["device_index"], kwargs["device_type"])
        device = _C.device(_ACCELERATOR if device is None else device)
        _start(device.type)
        if device.type == "cpu":
            return cls._of(0, -1, 0)
        index = -1 if device.index is None else device.index
        return cls._of(*_C._cuda_newStream(index, priority))

    @classmethod
    def _of(cls, stream_id, device_index, device_type):
        made = object.__new__(cls)
        made.stream_id, made.device_index, made.device_type = stream_id, device_index, device_type
        made._before = []
        return made

    @property
    def device(self):
        """Where the work is done."""
        kind = _TYPES.get(self.device_type, "cpu")
        return _C.device(kind) if self.device_index < 0 else _C.device(kind, self.device_index)

    @property
    def native_handle(self):
        """The address that the driver knows the stream by."""
        if self.device_type != _NUMBERS["cuda"]:
            raise RuntimeError("native_handle is for streams of accelerators")
        return _C._cuda_streamHandle(self.device_index, self.stream_id)

    def query(self):
        """Whether the work is done."""
        return self.device_type == 0 or _C._cuda_streamQuery(self.device_index, self.stream_id)

    def synchronize(self):
        """Waits for the work."""
        if self.device_type:
            _C._cuda_streamSynchronize(self.device_index, self.stream_id)

    def wait_event(self, event):
        """Lets later work wait for an event."""
        event.wait(self)

    def wait_stream(self, stream):
        """Lets later work wait for what another stream has been given until now."""
        if self.device_type:
            self.wait_event(stream.record_event())

    def record_event(self, event=None):
        """Marks the present place in the work by an event, which is made if there is none."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self):
        if self.device_type:
            from corten import cuda

            context = cuda.StreamContext(self)
            context.__enter__()
            self._before.append(context)
        return self

    def __exit__(self, kind, value, traceback):
        if self.device_type:
            self._before.pop().__exit__(kind, value, traceback)
        return False

    def __eq__(self, other):
        if not isinstance(other, Stream):
            return NotImplemented
        mine = (self.stream_id, self.device_index, self.device_type)
        return mine == (other.stream_id, other.device_index, other.device_type)

    def __hash__(self):
        return hash((self.device_type, self.device_index, self.stream_id))

    def __repr__(self):
        kind = _TYPES.get(self.device_type, "cpu")
        return (
            f"torch.Stream device_type={kind}, device_index={self.device_index}, "
            f"stream_id={self.stream_id}"
        )


class Event:
    """A mark in the work of a device, which the driver's event stands behind from its first record on.

    Args:
        device: The kind of device; the accelerator if it is ``None``.
        enable_timing: Whether the time is taken when the mark is reached.
        blocking: Whether threads that wait sleep instead of polling.
        interprocess: Whether other processes may use it.
    """

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self._device = _C.device(_ACCELERATOR if device is None else device)
        self.enable_timing, self._blocking, self._interprocess = enable_timing, blocking, interprocess
        self._native = None

    def _made(self):
        if self._native is None:
            _start(self._device.type)
            self._native = _C._CudaEvent(self.enable_timing, self._blocking, self._interprocess)
        return self._native

    @property
    def device(self):
        """The device on which it was recorded; before, the kind of device."""
        index = None if self._native is None else self._native.device
        return self._device if index is None else _C.device("cuda", index)

    @property
    def event_id(self):
        """The address that the driver knows the event by; 0 before it is recorded."""
        return 0 if self._native is None else self._native.handle

    def _stream(self, stream):
        if stream is not None:
            return stream
        return Stream._of(*_C._cuda_getCurrentStream(-1))

    def record(self, stream=None):
        """Marks the present place in a stream, the current one if none is named."""
        made = self._made()
        stream = self._stream(stream)
        made.record(stream.device_index, stream.stream_id)

    def wait(self, stream=None):
        """Lets the later work of a stream, the current one if none is named, wait for the mark; one that
        was not recorded is no obstacle."""
        _start(self._device.type)
        stream = self._stream(stream)
        if self._native is not None:
            _C._cuda_streamWaitEvent(stream.device_index, stream.stream_id, self._native)

    def query(self):
        """Whether the work up to the mark is done; true before it is recorded."""
        return self._native is None or self._native.query()

    def synchronize(self):
        """Waits for the work up to the mark."""
        if self._native is not None:
            self._native.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds between two marks.

        Raises:
            ValueError: One of them is not recorded, or takes no times.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._native is None or end_event._native is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return self._native.elapsed_time(end_event._native)

    def __repr__(self):
        index = -1 if self.device.index is None else self.device.index
        return (
            f"torch.Event device_type={self.device.type}, device_index={index}, event_flag=0, "
            f"event_id={self.event_id}"
        )
