"""Whether a compiled function is faster recorded or at once, as measured.

Both ways give the same bits, so that one may take the place of the other at any call. Recording costs about a
microsecond for each call of an operator, which small tensors do not give back, and operators that are one kernel
already have nothing to fuse. The first calls with arguments of certain sizes go both ways in turn; the later ones
go the way that took less time. Functions that are called with many sizes, or are compiled with ``dynamic=True``, are
measured by powers of two, in time per element. Where a GPU is used the measured calls wait for it.
"""

from __future__ import annotations

import sys
import time

from corten import _C

__all__ = ["Choice", "is_at_once", "kind_of"]

#: Which measured calls are recorded: no period of calls in the program goes with one of the ways.
_ORDER = (True, False, False, True, False, True, True, False, False, True, True, False)
#: Short calls, which are disturbed more, are measured so many times as often.
_MORE = 4
#: Seconds of a short call.
_SHORT = 2e-3
#: Recorded calls before these, in which programs are planned.
_WARMUP = 3
#: Recording is worth it below this part of the time at once: less is within what measurements differ.
_GAIN = 0.97
#: As ``_GAIN`` where graphs are recorded: backward passes of recorded functions need less memory.
_GAIN_OF_GRAPHS = 1.02
#: Sizes of arguments that are told apart.
_MOST_SIZES = 16
#: Sizes for which a way is remembered.
_MOST_KNOWN = 4096

_Tensor, _is_grad_enabled = _C.Tensor, _C.is_grad_enabled


class _Kind:
    """The calls with arguments of certain sizes."""

    __slots__ = ("begun", "best", "calls", "count", "recorded", "waits")

    def __init__(self):
        from corten.cuda import is_initialized

        #: Whether measured calls wait for a GPU.
        self.waits = is_initialized()
        self.calls = 0
        #: How many calls are measured; None while it is open.
        self.count = None
        #: The least seconds per element at once and recorded.
        self.best = [float("inf"), float("inf")]
        self.begun = None
        #: The way that was chosen.
        self.recorded = None


def kind_of(args, kwargs):
    """A number for the size of a call: the elements of the first tensor, negative where graphs are recorded. A
    wrong guess costs time and no result, so that it is quick rather than exact."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, _Tensor):
            return ~value.numel() if _is_grad_enabled() else value.numel()
    return -1 if _is_grad_enabled() else 0


def _is_marked(args, kwargs):
    """Whether a size of an argument was said to differ from call to call."""
    return any(getattr(value, "_dynamo_dynamic_indices", None) for value in (*args, *kwargs.values())
               if isinstance(value, _Tensor))


class Choice:
    """The measurements of a function."""

    def __init__(self, dynamic=None):
        self.kinds = {}
        #: Whether sizes are told apart by their powers of two alone.
        self.by_powers = bool(dynamic)
        self.is_static = dynamic is False
        #: Kinds of calls that go at once; who calls may ask here first.
        self.at_once = set()

    def call(self, function, args, kwargs, record):
        """The result of a call: of ``record(function, args, kwargs)``, or of the function."""
        size = kind_of(args, kwargs)
        kind = self._kind(size, args, kwargs)
        if kind.recorded is None:
            return self._measured(kind, size, function, args, kwargs, record)
        return self._chosen(kind, size, function, args, kwargs, record)

    def _kind(self, size, args, kwargs):
        kind = self.kinds.get(self._key(size))
        if kind is None:
            if not self.is_static and (len(self.kinds) >= _MOST_SIZES or _is_marked(args, kwargs)):
                self.by_powers = True
            kind = self.kinds.setdefault(self._key(size), _Kind())
        return kind

    def _key(self, size):
        if not self.by_powers:
            return size
        # Sizes of a kind are negative together.
        return "graphs" if size < 0 else "values", (~size if size < 0 else size).bit_length()

    def _chosen(self, kind, size, function, args, kwargs, record):
        if kind.recorded:
            return record(function, args, kwargs)
        if len(self.at_once) < _MOST_KNOWN:
            self.at_once.add(size)
        return function(*args, **kwargs)

    def _measured(self, kind, size, function, args, kwargs, record):
        with_backward, elements = size < 0, max(1, ~size if size < 0 else size)
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
            way, since, count = kind.begun
            kind.best[way] = min(kind.best[way], (begin - since) / count)
            kind.begun = None
        if place == len(_ORDER):
            kind.count = len(_ORDER) * (_MORE if min(kind.best) * elements < _SHORT else 1)
        if kind.count is not None and place >= kind.count:
            kind.recorded = kind.best[1] < (_GAIN_OF_GRAPHS if with_backward else _GAIN) * kind.best[0]
            return self._chosen(kind, size, function, args, kwargs, record)
        if place < 0:
            return record(function, args, kwargs)
        way = _ORDER[place % len(_ORDER)]
        result = record(function, args, kwargs) if way else function(*args, **kwargs)
        if with_backward:
            kind.begun = way, begin, elements
        else:
            if kind.waits:
                _C._cuda_synchronize(-1)
            kind.best[way] = min(kind.best[way], (time.perf_counter() - begin) / elements)
        return result


def is_at_once(codes, barriers):
    """Whether this thread is in a function whose code is among ``codes``, and not in one of ``barriers`` since: these
    are asked seldom, so that who calls need not say so each time."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in codes:
            return True
        if frame.f_code in barriers:
            return False
        frame = frame.f_back
    return False
