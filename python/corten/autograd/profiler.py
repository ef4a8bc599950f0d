"""What ran when: operators, backward nodes, and ranges of the program.

::

    with corten.autograd.profiler.profile() as prof:
        with corten.autograd.profiler.record_function("forward"):
            loss = net(x).sum()
        loss.backward()
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))
    prof.export_chrome_trace("trace.json")

The events are those of the thread that entered ``profile``.
"""

from __future__ import annotations

import functools
import warnings

from corten import _C
from corten.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "profile", "record_function",
]


class record_function:
    """Names a range of the program; a context manager and a decorator."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args

    def __enter__(self):
        self._place = _C._profiler_enter(self.name)
        return self

    def __exit__(self, *_error):
        if self._place is not None:
            _C._profiler_exit(self._place)

    def __call__(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)

        return wrapper


def _warn_of_missing(**options):
    """Says which of the options that were asked for record nothing."""
    for name, asked in options.items():
        if asked:
            warnings.warn(f"{name} is not supported by this profiler: nothing is recorded for it", stacklevel=3)


#: The blocks in which operators are being timed.
_running = []


class profile:
    """Records what this thread runs between entering and leaving. ``record_shapes`` keeps the sizes of
    arguments, ``profile_memory`` the bytes that this thread takes and gives back."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False,
                 with_flops=False, profile_memory=False, with_stack=False, with_modules=False,
                 use_kineto=False, use_cpu=True, **_ignored):
        self.enabled, self.record_shapes, self.profile_memory = enabled, record_shapes, profile_memory
        self.function_events = None
        self.use_device = "cuda" if use_cuda else use_device
        if self.use_device not in (None, "cpu") and not (self.use_device == "cuda" and _has_gpus()):
            warnings.warn(
                f"{use_device or 'CUDA'} is not available, disabling its profiling", stacklevel=2
            )
            self.use_device = None
        _warn_of_missing(with_flops=with_flops, with_stack=with_stack, with_modules=with_modules)

    def __enter__(self):
        if self.enabled:
            _C._profiler_start(bool(self.record_shapes), bool(self.profile_memory), self.use_device == "cuda")
            _running.append(self)
        return self

    def __exit__(self, *_error):
        if self.enabled:
            _running.remove(self)
            self.function_events = _events(*_C._profiler_stop(), self.profile_memory, self.use_device)

    def __str__(self):
        return "<unfinished torch.autograd.profile>" if self.function_events is None else str(self.function_events)

    __repr__ = __str__

    def _finished(self):
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def events(self):
        """The events, in the order of their starts."""
        return self._finished()

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """One entry per name."""
        return self._finished().key_averages(group_by_input_shape)

    def total_average(self):
        """All events as one."""
        return self._finished().total_average()

    def table(self, *args, **kwargs):
        """The events as text."""
        return self._finished().table(*args, **kwargs)

    def export_chrome_trace(self, path):
        """Writes the events for chrome://tracing."""
        self._finished().export_chrome_trace(path)

    @property
    def self_cpu_time_total(self):
        """The time of all events, none counted twice."""
        return self._finished().self_cpu_time_total


def kineto_available():
    """Whether the library Kineto records: it is not part of this build."""
    return False


class emit_itt:
    """Marks of operators for Intel's profilers, which this build has no library of: entering it, where it is
    enabled, is an error."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled, self.record_shapes = enabled, record_shapes

    _missing = "ITT functions not installed. Are you sure you have a ITT build?"

    def __enter__(self):
        if self.enabled:
            raise RuntimeError(self._missing)
        return self

    def __exit__(self, *_error):
        return False


class emit_nvtx(emit_itt):
    """Marks of operators for NVIDIA's profilers, which this build does not make: entering it, where it is enabled,
    is an error. :mod:`corten.cuda.nvtx` marks ranges of the program."""

    _missing = "NVTX functions not installed. Are you sure you have a CUDA build?"


def _has_gpus():
    from corten import cuda

    return cuda.is_available()


def _span(row):
    """The device, the stream, and start and end in microseconds."""
    return None if row is None else (row[0], row[1], row[2] / 1e3, row[3] / 1e3)


def _events(rows, changes, profile_memory, use_device=None):
    events = EventList(
        (FunctionEvent(number, name, thread, start / 1e3, end / 1e3, input_shapes=shapes,
                       cpu_memory_usage=memory, is_user_annotation=kind == "range", kind=kind,
                       use_device=use_device, device_span=_span(device))
         for number, (name, kind, start, end, _, shapes, thread, memory, device) in enumerate(rows)),
        profile_memory=profile_memory, changes=changes,
    )
    for event, row in zip(events, rows):
        if row[4] is not None:
            event.cpu_parent = events[row[4]]
            event.cpu_parent.cpu_children.append(event)
    return events


def _profiler_enabled():
    """Whether operators are being timed."""
    return bool(_running)
