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
import json
import os
import tempfile
import warnings

from corten import _C

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function",
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


def _microseconds(nanoseconds):
    return nanoseconds / 1e3


class FunctionEvent:
    """One span of time; times are in microseconds."""

    #: No device but the CPU is recorded.
    device_memory_usage = self_device_memory_usage = 0

    def __init__(self, number, name, kind, start, end, shapes, thread, memory=0):
        self.id, self.name, self.key, self.kind = number, name, name, kind
        self.start, self.end = _microseconds(start), _microseconds(end)
        self.input_shapes = [list(shape) for shape in shapes]
        self.thread = thread
        self.cpu_parent, self.cpu_children = None, []
        self.count = 1
        self.is_user_annotation = kind == "range"
        self.self_cpu_memory_usage = memory

    @property
    def cpu_memory_usage(self):
        """Bytes taken, less those given back, in the span."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def cpu_time_total(self):
        """The length of the span."""
        return self.end - self.start

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self):
        """The length without the spans inside of it."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    def __repr__(self):
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_total:.3f}us "
            f"thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg:
    """The events of one name, and of one list of shapes where these are told apart."""

    device_memory_usage = self_device_memory_usage = 0

    def __init__(self, key, shapes):
        self.key, self.input_shapes = key, shapes
        self.count, self.cpu_time_total, self.self_cpu_time_total = 0, 0.0, 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0

    def add(self, event):
        """Adds an event or the average of others."""
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        return self

    @property
    def cpu_time(self):
        """The mean length."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={_time(self.self_cpu_time_total)} "
            f"cpu_time={_time(self.cpu_time)} input_shapes={self.input_shapes}>"
        )


_UNITS = {"s": 1e6, "ms": 1e3, "us": 1}


def _time(microseconds, unit=None):
    """In the unit asked for, or in the largest of which it is one."""
    if unit not in _UNITS:
        unit = next((unit for unit, size in _UNITS.items() if microseconds >= size), "us")
    return f"{microseconds / _UNITS[unit]:.3f}{unit}"


def _memory(nbytes):
    """In the largest unit of which it is one."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


class EventList(list):
    """Events, or averages of events."""

    def __init__(self, events=(), *, profile_memory=False, changes=()):
        super().__init__(events)
        self._profile_memory, self._changes = profile_memory, changes

    def key_averages(self, group_by_input_shape=False):
        """One entry per name, and per shapes of the arguments where asked for."""
        found = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else []
            key = (event.key, str(shapes))
            found.setdefault(key, FunctionEventAvg(event.key, shapes)).add(event)
        return EventList(found.values(), profile_memory=self._profile_memory)

    def total_average(self):
        """All events as one."""
        total = FunctionEventAvg("Total", [])
        for event in self:
            total.add(event)
        return total

    @property
    def self_cpu_time_total(self):
        """The time of all events, none counted twice."""
        return sum(event.self_cpu_time_total for event in self)

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None):
        """The events as text, the longest first by a column such as "self_cpu_time_total"; times in
        "s", "ms" or "us", or each in the one that suits it. Where memory was recorded, columns show the bytes
        that were taken less those given back. No sources are recorded, so that
        `max_src_column_width` changes nothing."""
        rows = list(self)
        if top_level_events_only:
            rows = [row for row in rows if getattr(row, "cpu_parent", None) is None]
        if sort_by is not None:
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        total = self.self_cpu_time_total or 1.0
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        titles += ["CPU Mem", "Self CPU Mem"] if self._profile_memory else []
        titles += ["# of Calls"]
        shaped = any(row.input_shapes for row in rows)
        cells = []
        for row in rows[:row_limit if row_limit > 0 else None]:
            name = row.key
            if max_name_column_width and len(name) > max_name_column_width:
                name = name[:max_name_column_width - 3] + "..."
            cell = [
                name, f"{100 * row.self_cpu_time_total / total:.2f}%",
                _time(row.self_cpu_time_total, time_unit),
                f"{100 * row.cpu_time_total / total:.2f}%",
                _time(row.cpu_time_total, time_unit),
                _time(row.cpu_time_total / row.count, time_unit),
            ]
            if self._profile_memory:
                cell += [_memory(row.cpu_memory_usage), _memory(row.self_cpu_memory_usage)]
            cell.append(str(row.count))
            cells.append(cell + [str(row.input_shapes)[:max_shapes_column_width]] if shaped else cell)
        titles += ["Input Shapes"] if shaped else []
        return _text(titles, cells, header, _time(total, time_unit))

    def export_chrome_trace(self, path):
        """Writes the events for chrome://tracing."""
        events = [
            {"name": event.name, "cat": event.kind, "ph": "X", "ts": event.start,
             "dur": event.cpu_time_total, "pid": os.getpid(), "tid": event.thread,
             "args": {"Input Dims": event.input_shapes} if event.input_shapes else {}}
            for event in self if event.kind != "memory"
        ]
        events += [
            {"name": "[memory]", "cat": "cpu_instant_event", "ph": "i", "s": "t",
             "ts": _microseconds(time), "pid": os.getpid(), "tid": self[place].thread,
             "args": {"Total Reserved": reserved, "Total Allocated": allocated, "Bytes": nbytes,
                      "Addr": address, "Device Id": -1, "Device Type": 0, "Ev Idx": place}}
            for time, place, address, nbytes, allocated, reserved in self._changes
        ]
        folder = os.path.dirname(os.path.abspath(path))
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def _text(titles, cells, header, total):
    widths = [max(len(row[place]) for row in [titles, *cells]) for place in range(len(titles))]
    rule = "  ".join("-" * width for width in widths)

    def line(row):
        return "  ".join(cell.rjust(width) for cell, width in zip(row, widths))

    lines = [header] if header else []
    lines += [rule, line(titles), rule, *map(line, cells), rule]
    return "\n".join(lines) + f"\nSelf CPU time total: {total}\n"


def _warn_of_missing(**options):
    """Says which of the options that were asked for record nothing."""
    for name, asked in options.items():
        if asked:
            warnings.warn(f"{name} is not supported by this profiler: nothing is recorded for it", stacklevel=3)


class profile:
    """Records what this thread runs between entering and leaving. ``record_shapes`` keeps the sizes of
    arguments, ``profile_memory`` the bytes that this thread takes and gives back."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False,
                 with_flops=False, profile_memory=False, with_stack=False, with_modules=False,
                 use_kineto=False, use_cpu=True, **_ignored):
        self.enabled, self.record_shapes, self.profile_memory = enabled, record_shapes, profile_memory
        self.function_events = None
        if use_cuda or use_device not in (None, "cpu"):
            warnings.warn(
                f"{use_device or 'CUDA'} is not available, disabling its profiling", stacklevel=2
            )
        _warn_of_missing(with_flops=with_flops, with_stack=with_stack, with_modules=with_modules)

    def __enter__(self):
        if self.enabled:
            _C._profiler_start(bool(self.record_shapes), bool(self.profile_memory))
        return self

    def __exit__(self, *_error):
        if self.enabled:
            self.function_events = _events(*_C._profiler_stop(), self.profile_memory)

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


def _events(rows, changes, profile_memory):
    events = EventList(
        (FunctionEvent(number, name, kind, start, end, shapes, thread, memory)
         for number, (name, kind, start, end, _, shapes, thread, memory) in enumerate(rows)),
        profile_memory=profile_memory, changes=changes,
    )
    for event, row in zip(events, rows):
        if row[4] is not None:
            event.cpu_parent = events[row[4]]
            event.cpu_parent.cpu_children.append(event)
    return events
