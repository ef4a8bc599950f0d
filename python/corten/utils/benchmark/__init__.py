"""Timing of statements, with one thread unless told otherwise."""

from __future__ import annotations

import statistics
import timeit

import corten

__all__ = ["Compare", "Measurement", "Timer", "timer"]

timer = timeit.default_timer
_UNITS = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"))


def select_unit(t):
    """The unit in which so many seconds are read best, with its seconds."""
    for scale, name in reversed(_UNITS):
        if t >= scale:
            return name, scale
    return "ns", 1e-9


class Measurement:
    """Times of one statement: ``raw_times`` are of ``number_per_run`` runs each."""

    def __init__(self, number_per_run, raw_times, task_spec, metadata=None):
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.task_spec, self.metadata = task_spec, metadata

    @property
    def times(self):
        """Seconds per run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self):
        """The median of :attr:`times`."""
        return statistics.median(self.times)

    @property
    def mean(self):
        """The mean of :attr:`times`."""
        return statistics.fmean(self.times)

    @property
    def iqr(self):
        """The distance between the quartiles of :attr:`times`."""
        if len(self.times) < 2:
            return 0.0
        quartiles = statistics.quantiles(self.times, n=4, method="inclusive")
        return quartiles[2] - quartiles[0]

    def __getattr__(self, name):
        if name in ("label", "sub_label", "description", "stmt", "num_threads", "env"):
            return self.task_spec[name]
        raise AttributeError(name)

    @property
    def title(self):
        """The label, or the statement."""
        text = self.label or self.stmt
        return f"{text}: {self.sub_label}" if self.sub_label else text

    def __repr__(self):
        unit, scale = select_unit(self.median)
        count = len(self.raw_times)
        lines = [f"<{__name__}.Measurement object>", self.title]
        if self.description:
            lines.append(self.description)
        lines.append(f"  {'Median' if count > 1 else 'Time'}: {self.median / scale:.2f} {unit}")
        if count > 2:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit}")
        plural = "" if count == 1 else "s"
        threads = "" if self.num_threads == 1 else "s"
        lines.append(
            f"  {count} measurement{plural}, {self.number_per_run} runs per measurement, "
            f"{self.num_threads} thread{threads}"
        )
        return "\n".join(lines)


class Timer:
    """Runs ``stmt`` after ``setup``, with the names of ``globals`` and ``num_threads`` threads."""

    def __init__(
        self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None, label=None,
        sub_label=None, description=None, env=None, num_threads=1, language="python",
    ):
        if str(language).lower() not in ("python", "py", "language.python"):
            raise ValueError("statements in Python only")
        names = dict(globals or {})
        names.setdefault("torch", corten)
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=names)
        self._spec = {
            "stmt": stmt, "label": label, "sub_label": sub_label, "description": description,
            "env": env, "num_threads": num_threads,
        }

    def _run(self, number):
        before = corten.get_num_threads()
        corten.set_num_threads(self._spec["num_threads"])
        try:
            return self._timer.timeit(number=number)
        finally:
            corten.set_num_threads(before)

    def timeit(self, number=1000000):
        """One measurement of so many runs, after a few to warm up."""
        self._run(max(number // 100, 2))
        return Measurement(number, [self._run(number)], self._spec)

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Measurements of blocks long enough for the clock, for ``min_run_time`` seconds."""
        number = 1
        while (taken := self._run(number)) < min(min_run_time / 1000, 1e-3) and number < 10**8:
            number *= 10
        times, total = [], 0.0
        while total < min_run_time:
            taken = self._run(number)
            times.append(taken)
            total += taken
            if callback is not None:
                callback(number, taken)
        return Measurement(number, times, self._spec)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """As :meth:`blocked_autorange`, until the quartiles are near the median."""
        found = self.blocked_autorange(callback, min_run_time)
        while found.iqr > threshold * found.median and sum(found.raw_times) < max_run_time:
            more = self.blocked_autorange(callback, min_run_time)
            if more.number_per_run == found.number_per_run:
                found.raw_times += more.raw_times
            else:
                found = more
        return found


class Compare:
    """A table of measurements: a row for each ``sub_label``, a column for each ``description``."""

    def __init__(self, results):
        self._results = list(results)

    def extend_results(self, results):
        """Adds measurements."""
        self._results += results

    def __str__(self):
        columns = list(dict.fromkeys(r.description or "" for r in self._results))
        rows = list(dict.fromkeys((r.num_threads, r.sub_label or r.stmt) for r in self._results))
        _, scale = select_unit(min(r.median for r in self._results))
        unit = next(name for s, name in _UNITS if s == scale)
        found = {
            (r.num_threads, r.sub_label or r.stmt, r.description or ""): r for r in self._results
        }
        width = max(len(row[1]) for row in rows) + 2
        each = max(10, *(len(column) + 2 for column in columns))
        lines = [" " * width + "".join(column.rjust(each) for column in columns)]
        for threads, name in rows:
            cells = (found.get((threads, name, column)) for column in columns)
            texts = ("" if cell is None else f"{cell.median / scale:.1f}" for cell in cells)
            lines.append(name.ljust(width) + "".join(text.rjust(each) for text in texts))
        return "\n".join(lines) + f"\n\nTimes are in {unit}."

    def print(self):
        """Prints the table."""
        print(str(self))
