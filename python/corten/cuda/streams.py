"""Streams and events of GPUs. None can be used here; an event can be made."""

from __future__ import annotations

from corten.cuda import _needs_gpu, init

__all__ = ["Event", "ExternalStream", "Stream"]


class Stream:
    """A queue of work for a GPU."""

    def __new__(cls, device=None, priority=0, **kwargs):
        init()


class ExternalStream(Stream):
    """A queue that other code made."""

    def __new__(cls, stream_ptr, device=None, **kwargs):
        init()


class Event:
    """A mark in the work of a GPU."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self.enable_timing = enable_timing

    def record(self, stream=None):
        """Marks the present place in a stream's work."""
        init()

    def wait(self, stream=None):
        """Lets a stream wait for this mark."""
        init()

    def query(self):
        """Whether the work up to the mark is done; nothing was marked."""
        return True

    def synchronize(self):
        """Waits for the work up to the mark; nothing was marked."""

    def elapsed_time(self, end_event):
        """Milliseconds between two marks."""
        init()

    def __repr__(self):
        return "<torch.cuda.Event uninitialized>"


class StreamContext:
    """Makes a stream the current one for a ``with`` block; ``None`` changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            init()

    def __exit__(self, kind, value, traceback):
        return False


def stream(stream):
    """Makes a stream the current one for a ``with`` block."""
    return StreamContext(stream)


current_stream = _needs_gpu("current_stream", "The stream that operators run on.")
default_stream = _needs_gpu("default_stream", "The stream that a GPU starts with.")
set_stream = _needs_gpu("set_stream", "Makes a stream the current one.")
get_stream_from_external = _needs_gpu("get_stream_from_external", "A stream that others made.")
