"""Streams and events of devices. The CPU has one stream and nothing to wait for."""

from __future__ import annotations

from corten import _C

__all__ = ["Event", "Stream"]


def _absent(kind):
    raise RuntimeError(
        f"Cannot use a stream or an event of a {kind} device: this build drives no {kind} device."
    )


class Stream:
    """A queue of work for a device. Without accelerator there is none to be made.

    Raises:
        RuntimeError: The device is not driven by this build.
    """

    def __init__(self, device=None, *, priority=0):
        kind = "accelerator" if device is None else _C.device(device).type
        _absent(kind)

    device = device_type = stream_id = None

    def query(self):
        """Whether the work is done."""
        return True

    def synchronize(self):
        """Waits for the work."""

    def wait_event(self, event):
        """Lets later work wait for an event."""

    def wait_stream(self, stream):
        """Lets later work wait for another stream."""

    def record_event(self, event=None):
        """Marks the present place in the work."""
        return event

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return False


class Event:
    """A mark in the work of a device; on a device that this build does not drive it can be made,
    but not recorded."""

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self.device = _C.device("cuda" if device is None else device)
        self.enable_timing = enable_timing

    event_id = 0

    def record(self, stream=None):
        """Marks the present place in a stream's work."""
        _absent(self.device.type)

    def wait(self, stream=None):
        """Lets a stream wait for this mark; one that was not recorded is no obstacle."""

    def query(self):
        """Whether the work up to the mark is done; true before it is recorded."""
        return True

    def synchronize(self):
        """Waits for the work up to the mark."""

    def elapsed_time(self, end_event):
        """Milliseconds between two marks."""
        _absent(self.device.type)

    def __repr__(self):
        index = -1 if self.device.index is None else self.device.index
        return (
            f"torch.Event device_type={self.device.type}, device_index={index}, event_flag=0, "
            f"event_id={self.event_id}"
        )
