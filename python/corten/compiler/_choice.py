"""Whether a compiled function is faster recorded or at once, as measured.

Both ways give the same bits, so that one may take the place of the other at any call. Recording costs about a
microsecond for each call of an operator, which small tensors do not give back, and operators that are one kernel
already have nothing to fuse. The first calls with arguments of certain sizes go both ways in turn; the later ones
go the way that took less time. Where a GPU is used the measured calls wait for it, as it computes behind them.
"""

from __future__ import annotations

import threading
import time

from corten import _C

__all__ = ["Choice", "at_once"]

#: Which measured calls are recorded: no period of calls in the program goes with one of the ways.
_ORDER = (True, False, False, True, False, True, True, False, False, True, True, False)
#: Recorded calls before these, in which programs are planned.
_WARMUP = 3
#: Recording is worth it below this part of the time at once: less is within what measurements differ.
_GAIN = 0.97
#: Sizes of arguments for which there are measurements; functions with more are recorded.
_MOST_KINDS = 64


class _AtOnce(threading.local):
    """How many compiled functions are running at once on this thread."""

    depth = 0


at_once = _AtOnce()


class _Kind:
    """The calls with arguments of certain sizes."""

    __slots__ = ("begun", "best", "calls", "recorded", "waits")

    def __init__(self):
        from corten.cuda import is_initialized

        #: Whether measured calls wait for a GPU.
        self.waits = is_initialized()
        self.calls = 0
        #: The least seconds at once and recorded.
        self.best = [float("inf"), float("inf")]
        self.begun = None
        #: The way that was chosen.
        self.recorded = None


def _kind_of(args, kwargs):
    """A number for the size of a call: the elements of the first tensor, negative where graphs are recorded. A
    wrong guess costs time and no result, so that it is quick rather than exact."""
    elements = 0
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, _C.Tensor):
            elements = value.numel()
            break
    return ~elements if _C.is_grad_enabled() else elements


class Choice:
    """The measurements of a function."""

    def __init__(self):
        self.kinds = {}

    def call(self, function, args, kwargs, record):
        """The result of a call: of ``record(function, args, kwargs)``, or of the function."""
        key = _kind_of(args, kwargs)
        kind = self.kinds.get(key)
        if kind is None:
            if len(self.kinds) >= _MOST_KINDS:
                return record(function, args, kwargs)
            kind = self.kinds[key] = _Kind()
        if kind.recorded is None:
            return self._measured(kind, key < 0, function, args, kwargs, record)
        return record(function, args, kwargs) if kind.recorded else _run_at_once(function, args, kwargs)

    def _measured(self, kind, with_backward, function, args, kwargs, record):
        if kind.waits:
            if _C._cuda_isCurrentStreamCapturing():
                # What is captured waits for nothing.
                return record(function, args, kwargs)
            _C._cuda_synchronize(-1)
        place = kind.calls - _WARMUP
        kind.calls += 1
        begin = time.perf_counter()
        if with_backward and kind.begun is not None:
            # From one call to the next there is the backward pass, too.
            way, since = kind.begun
            kind.best[way] = min(kind.best[way], begin - since)
            kind.begun = None
        if place >= len(_ORDER):
            kind.recorded = kind.best[1] < _GAIN * kind.best[0]
            return record(function, args, kwargs) if kind.recorded else _run_at_once(function, args, kwargs)
        if place < 0:
            return record(function, args, kwargs)
        way = _ORDER[place]
        result = record(function, args, kwargs) if way else _run_at_once(function, args, kwargs)
        if with_backward:
            kind.begun = way, begin
        else:
            if kind.waits:
                _C._cuda_synchronize(-1)
            kind.best[way] = min(kind.best[way], time.perf_counter() - begin)
        return result


def _run_at_once(function, args, kwargs):
    at_once.depth += 1
    try:
        return function(*args, **kwargs)
    finally:
        at_once.depth -= 1
