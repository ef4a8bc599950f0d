"""The events of a profile, and the tables made of them."""

from __future__ import annotations

import json
import os
import tempfile

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]


class Interval:
    """A span of time in microseconds."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def elapsed_us(self):
        """Its length."""
        return self.end - self.start


def _renamed(old, new):
    """A property that older programs know by another name."""
    def read(self):
        import warnings

        warnings.warn(f"`{old}` is deprecated, please use `{new}` instead.", FutureWarning, stacklevel=2)
        return getattr(self, new)

    return property(read, doc=f"Deprecated: ``{new}``.")


class _Lengths:
    """Means and texts of times. Memory of devices is not recorded."""

    device_memory_usage = self_device_memory_usage = 0
    use_device = None

    @property
    def device_time(self):
        """The mean time of the work on a device."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def device_time_str(self):
        """The mean time of the work on a device as text."""
        return _format_time(self.device_time)

    @property
    def device_time_total_str(self):
        """The time of the work on a device as text."""
        return _format_time(self.device_time_total)

    @property
    def self_device_time_total_str(self):
        """The time of the work on a device without that of the spans inside, as text."""
        return _format_time(self.self_device_time_total)

    cuda_time = _renamed("cuda_time", "device_time")
    cuda_time_total = _renamed("cuda_time_total", "device_time_total")
    self_cuda_time_total = _renamed("self_cuda_time_total", "self_device_time_total")

    @property
    def cpu_time(self):
        """The mean length."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self):
        """The mean length as text."""
        return _format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self):
        """The length as text."""
        return _format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self):
        """The length without the spans inside, as text."""
        return _format_time(self.self_cpu_time_total)


class FunctionEvent(_Lengths):
    """One span of time; times are in microseconds."""

    def __init__(self, id, name, thread, start_us, end_us, overload_name=None, fwd_thread=None,
                 input_shapes=None, stack=None, scope=0, use_device=None, cpu_memory_usage=0,
                 device_memory_usage=0, is_async=False, is_remote=False, sequence_nr=-1, node_id=-1,
                 *, is_user_annotation=False, kind="operator", device_span=None):
        self.id, self.name, self.key, self.kind = id, name, name, kind
        self.overload_name, self.node_id = overload_name, node_id
        self.time_range = Interval(start_us, end_us)
        self.thread, self.fwd_thread = thread, fwd_thread
        self.input_shapes = [] if input_shapes is None else [list(shape) for shape in input_shapes]
        self.stack, self.scope, self.use_device = stack, scope, use_device
        self.cpu_parent, self.cpu_children = None, []
        self.count = 1
        self.is_async, self.is_remote, self.sequence_nr = is_async, is_remote, sequence_nr
        self.is_user_annotation = is_user_annotation
        self.self_cpu_memory_usage = cpu_memory_usage
        #: The device, its stream, start and end of its work, for an operator that gave it any.
        self.device_span = device_span
        self.device_index = -1 if device_span is None else device_span[0]

    @property
    def device_time_total(self):
        """The time from the begin to the end of the work that was given to a device."""
        if self.device_span is not None:
            return max(self.device_span[3] - self.device_span[2], 0.0)
        return sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self):
        """The same without what the spans inside of this one gave."""
        if self.device_span is None:
            return 0
        return max(self.device_time_total - sum(child.device_time_total for child in self.cpu_children), 0.0)

    @property
    def start(self):
        """When the span began."""
        return self.time_range.start

    @property
    def end(self):
        """When the span ended."""
        return self.time_range.end

    def append_cpu_child(self, child):
        """Notes a span that lies inside of this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        """Notes the span that this one lies in."""
        self.cpu_parent = parent

    @property
    def cpu_memory_usage(self):
        """Bytes taken, less those given back, in the span."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def cpu_time_total(self):
        """The length of the span."""
        return self.time_range.elapsed_us()

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


class FunctionEventAvg(_Lengths):
    """The events of one name, and of one list of shapes where these are told apart."""

    def __init__(self, key=None, shapes=None):
        self.key, self.input_shapes = key, shapes
        self.count, self.cpu_time_total, self.self_cpu_time_total = 0, 0, 0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_time_total = self.self_device_time_total = 0

    def add(self, other):
        """Adds an event or the average of others."""
        if self.key is None:
            self.key, self.input_shapes = other.key, other.input_shapes
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.device_time_total += other.device_time_total
        self.self_device_time_total += other.self_device_time_total
        self.use_device = self.use_device or other.use_device
        return self

    __iadd__ = add

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={_format_time(self.self_cpu_time_total)} "
            f"cpu_time={_format_time(self.cpu_time)} input_shapes={self.input_shapes}>"
        )


_UNITS = {"s": 1e6, "ms": 1e3, "us": 1}


def _format_time(time_us, unit=None):
    """In the unit asked for, or in the largest of which it is one."""
    if unit not in _UNITS:
        unit = next((unit for unit, size in _UNITS.items() if time_us >= size), "us")
    return f"{time_us / _UNITS[unit]:.3f}{unit}"


def _format_memory(nbytes):
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

    def __str__(self):
        return self.table()

    def _populate_cpu_children(self):
        """Finds for each span of a thread the shortest one that it lies in; of two that overlap, the later
        stands for the earlier."""
        events = [event for event in self if not event.is_async]
        for thread in {event.thread for event in events}:
            own = sorted((event for event in events if event.thread == thread),
                         key=lambda event: (event.start, -event.end))
            open_spans = []
            for event in own:
                while open_spans and (event.start >= open_spans[-1].end or event.end > open_spans[-1].end):
                    open_spans.pop()
                if open_spans:
                    open_spans[-1].append_cpu_child(event)
                    event.set_cpu_parent(open_spans[-1])
                open_spans.append(event)

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
            column = sort_by.replace("cuda", "device")
            rows.sort(key=lambda row: getattr(row, column), reverse=True)
        total = self.self_cpu_time_total or 1.0
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        device_total = sum(row.self_device_time_total for row in self)
        device = next((row.use_device for row in self if row.use_device), "cuda").upper()
        if device_total > 0:
            titles += [f"Self {device}", f"Self {device} %", f"{device} total", f"{device} time avg"]
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
                _format_time(row.self_cpu_time_total, time_unit),
                f"{100 * row.cpu_time_total / total:.2f}%",
                _format_time(row.cpu_time_total, time_unit),
                _format_time(row.cpu_time_total / row.count, time_unit),
            ]
            if device_total > 0:
                cell += [
                    _format_time(row.self_device_time_total, time_unit),
                    f"{100 * row.self_device_time_total / device_total:.2f}%",
                    _format_time(row.device_time_total, time_unit),
                    _format_time(row.device_time_total / row.count, time_unit),
                ]
            if self._profile_memory:
                cell += [_format_memory(row.cpu_memory_usage), _format_memory(row.self_cpu_memory_usage)]
            cell.append(str(row.count))
            cells.append(cell + [str(row.input_shapes)[:max_shapes_column_width]] if shaped else cell)
        titles += ["Input Shapes"] if shaped else []
        text = _text(titles, cells, header, _format_time(total, time_unit))
        return f"{text}Self {device} time total: {_format_time(device_total, time_unit)}\n" if device_total else text

    def export_chrome_trace(self, path):
        """Writes the events for chrome://tracing."""
        events = [
            {"name": event.name, "cat": event.kind, "ph": "X", "ts": event.start,
             "dur": event.cpu_time_total, "pid": os.getpid(), "tid": event.thread,
             "args": {"Input Dims": event.input_shapes} if event.input_shapes else {}}
            for event in self if event.kind != "memory"
        ]
        events += [
            {"name": event.name, "cat": "kernel", "ph": "X", "ts": event.device_span[2],
             "dur": event.device_time_total, "pid": event.device_span[0], "tid": f"stream {event.device_span[1]}",
             "args": {"device": event.device_span[0], "stream": event.device_span[1]}}
            for event in self if event.device_span is not None
        ]
        events += [
            {"name": "process_name", "ph": "M", "pid": index, "args": {"name": f"GPU {index}"}}
            for index in sorted({event.device_index for event in self if event.device_index >= 0})
        ]
        events += [
            {"name": "[memory]", "cat": "cpu_instant_event", "ph": "i", "s": "t",
             "ts": time / 1e3, "pid": os.getpid(), "tid": self[place].thread,
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
