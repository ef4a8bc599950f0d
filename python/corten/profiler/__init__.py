"""Profiling of training loops: ``profile`` with a schedule of steps."""

from __future__ import annotations

import enum
import os
import time
import warnings

from corten.profiler import itt
from corten.autograd.profiler import (
    EventList, _warn_of_missing, kineto_available, profile as _Recorder, record_function,
)

__all__ = [
    "DeviceType", "ProfilerAction", "ProfilerActivity", "itt", "kineto_available", "profile",
    "record_function", "schedule", "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What is recorded; this build records the CPU, and the times of GPUs by events."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class DeviceType(enum.IntEnum):
    """Kinds of devices that events come from."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


class ProfilerAction(enum.Enum):
    """What a schedule says of a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities():
    """What can be recorded on this machine."""
    from corten import cuda

    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if cuda.is_available() else set())


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A schedule: skip ``skip_first`` steps, then again and again wait, warm up, record."""
    if min(wait, warmup, active, repeat, skip_first) < 0 or active == 0:
        raise ValueError(
            "Invalid profiler schedule arguments: wait, warmup, repeat and skip_first must be at "
            "least 0, active at least 1"
        )

    def action(step):
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == length - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """A handler that writes every trace to a file of its own in a folder."""

    def handler(prof):
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{os.uname().nodename}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json"))

    return handler


def _device_of(activities):
    """The device whose times are asked for: without a word of the program those of GPUs that it uses."""
    if not activities:
        from corten import cuda

        return "cuda" if cuda.is_initialized() else None
    wanted = set(activities)
    if wanted == {ProfilerActivity.CPU}:
        return None
    for activity in wanted - supported_activities():
        warnings.warn(f"{activity.name} is not available, disabling its profiling", stacklevel=3)
    return "cuda" if ProfilerActivity.CUDA in wanted & supported_activities() else None


class profile:
    """Records the steps that a schedule chooses; without one, everything. ``record_shapes`` keeps the sizes of
    arguments, ``profile_memory`` the bytes that this thread takes and gives back."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False,
                 profile_memory=False, with_stack=False, with_flops=False, with_modules=False,
                 **_ignored):
        self._schedule = schedule or (lambda _step: ProfilerAction.RECORD)
        self._scheduled = schedule is not None
        self.on_trace_ready, self.record_shapes = on_trace_ready, record_shapes
        self.profile_memory = profile_memory
        self._use_device = _device_of(activities)
        _warn_of_missing(with_flops=with_flops, with_stack=with_stack, with_modules=with_modules)
        self.step_num, self._recorder, self._events = 0, None, None
        self._range = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_error):
        self.stop()

    def start(self):
        """Begins with the first step."""
        self.current_action = self._schedule(self.step_num)
        self._begin()

    def _begin(self):
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            if self._recorder is None:
                self._recorder = _Recorder(
                    record_shapes=self.record_shapes, profile_memory=self.profile_memory,
                    use_device=self._use_device,
                )
                self._recorder.__enter__()
        if self._scheduled and self._recorder is not None:
            self._range = record_function(f"ProfilerStep#{self.step_num}")
            self._range.__enter__()

    def _end_range(self):
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    def step(self):
        """Ends a step of the program and begins the next."""
        self._end_range()
        if self.current_action is ProfilerAction.RECORD_AND_SAVE:
            self._save()
        self.step_num += 1
        self.current_action = self._schedule(self.step_num)
        self._begin()

    def stop(self):
        """Ends recording."""
        self._end_range()
        self._save()

    def _save(self):
        if self._recorder is None:
            return
        self._recorder.__exit__(None, None, None)
        self._events, self._recorder = self._recorder.events(), None
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def events(self):
        """The events of the last trace."""
        if self._events is None:
            raise AssertionError("Profiler must be initialized before getting events")
        return self._events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, **_ignored):
        """One entry per name."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path):
        """Writes the last trace for chrome://tracing."""
        EventList.export_chrome_trace(self.events(), path)
